"""How long importing takes: CPU time a row and the largest memory, for a million rows of each tool.

Every measurement is a process of its own on one core, so that its largest memory is its own. The CPU's
seconds are compared, and of some repeats the least: other work on a machine makes both longer, never shorter.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from logs import LOGS, RANKS

from busbw.cli.import_logs import import_logs
from busbw.importers.files import read_file_parts
from busbw.importers.ordinary import check_all
from busbw.importers.settings import ImportSettings

# Reading and checking a million rows may take this long, on one core.
BOUND_S: Final = 5.0
READ, CHECK, DRY_RUN, RECORD = "read", "read and check", "dry run", "record"
# A table is a folder of its own: a tenth of the rows is enough to see what that costs.
RECORDED: Final = ("nccl-tests, one table", "nccl-tests", "OSU")


def measure(path: Path, step: str) -> dict[str, float]:
    """Seconds, rows and largest memory of one step, in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu_start = time.perf_counter(), time.process_time()
    kept = 0
    if step in (DRY_RUN, RECORD):
        os.environ["BUSBW_HOME"] = str(path.parent / f"runs{os.getpid()}")
        with contextlib.redirect_stdout(io.StringIO()):
            settings = ImportSettings(op="all_reduce", ranks=RANKS, dry_run=step == DRY_RUN)
            import_logs((str(path),), settings)
    else:
        for part in read_file_parts(path):
            if step == READ:
                kept += sum(map(len, part.tables))
            else:
                kept += sum(len(checked.table) for checked in check_all(part.tables))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "rows": kept, "mib": (peak - before) / 1024}


def in_own_process(path: Path, step: str) -> dict[str, float]:
    """``measure`` in a process of its own, on one core."""
    command = [sys.executable, __file__, "--measure", str(path), "--step", step]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(name: str, step: str, rows: int, repeats: int) -> bool:
    """Measure one log and print the best of the repeats; whether the bound holds, where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with path.open("w") as file:
            file.writelines(LOGS[name](rows))
        wanted = sum(len(table) for part in read_file_parts(path) for table in part.tables)
        found = [in_own_process(path, step) for _ in range(repeats)]
    best = min(found, key=lambda result: result["cpu_seconds"])
    assert step in (DRY_RUN, RECORD) or best["rows"] == wanted >= rows
    print(
        f"| {name} | {step} | {wanted:,} | {best['seconds']:.2f} | {best['cpu_seconds']:.2f}"
        f" | {best['cpu_seconds'] / wanted * 1e6:.2f} | {best['mib']:.0f} |",
        flush=True,
    )
    return step != CHECK or best["cpu_seconds"] / wanted * 1e6 <= BOUND_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--logs", nargs="*", choices=list(LOGS), default=list(LOGS))
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--step", default=READ)
    options = parser.parse_args()
    if options.measure is not None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(measure(options.measure, options.step)))
        return 0
    print("| log | step | rows | s | s of CPU, best of repeats | us of CPU a row | MiB more |")
    print("|---|---|---|---|---|---|---|")
    held = [compare(name, CHECK, options.rows, options.repeats) for name in options.logs]
    for name in RECORDED:
        for step in (DRY_RUN, RECORD):
            compare(name, step, options.rows // 10, options.repeats)
    print(f"load averages at the end: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
