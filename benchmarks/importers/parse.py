"""How long importing takes: seconds of the CPU and memory for a log of 100,000 rows of each tool.

Every measurement is a process of its own on one core. The CPU's seconds are compared, and of some repeats the
least: other work on a machine makes both longer, never shorter.
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
from busbw.foreign.logs.check import check
from busbw.foreign.read_any import read_file
from busbw.plan.flags.logs import ImportSettings

ROWS: Final = 100_000
# Reading and checking so many rows may take this long, on one core.
BOUND_S: Final = 5.0
CHECK, RECORD = "read and check", "whole command"


def measure(path: Path, step: str) -> dict[str, float]:
    """Seconds of the CPU, rows and largest memory of one step, in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, rows = time.process_time(), 0
    if step == CHECK:
        rows = sum(len(check(table).rows) for table in read_file(path).tables)
    else:
        os.environ["BUSBW_HOME"] = str(path.parent / f"runs{os.getpid()}")
        with contextlib.redirect_stdout(io.StringIO()):
            import_logs(str(path), settings=ImportSettings(op="all_reduce", ranks=RANKS))
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "rows": rows, "mib": (peak - before) / 1024}


def in_own_process(path: Path, step: str) -> dict[str, float]:
    """``measure`` in a process of its own, on one core."""
    command = [sys.executable, __file__, "--measure", str(path), "--step", step]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(name: str, rows: int, repeats: int) -> bool:
    """Measure one log and print the best of the repeats; whether the bound holds."""
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with path.open("w") as file:
            file.writelines(LOGS[name](rows))
        for step in (CHECK, RECORD):
            found = [in_own_process(path, step) for _ in range(repeats)]
            best[step] = min(found, key=lambda result: result["seconds"])
    assert best[CHECK]["rows"] >= rows
    seconds = best[CHECK]["seconds"]
    print(
        f"| {name} | {seconds:.2f} | {best[CHECK]['mib']:.0f} | {best[RECORD]['seconds']:.1f} |", flush=True
    )
    return seconds <= BOUND_S * rows / ROWS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--logs", nargs="*", choices=list(LOGS), default=list(LOGS))
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--step", default=CHECK)
    options = parser.parse_args()
    if options.measure is not None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(measure(options.measure, options.step)))
        return 0
    print("| log | read and check, s of CPU | MiB more | whole command, s of CPU |\n|---|---|---|---|")
    held = [compare(name, options.rows, options.repeats) for name in options.logs]
    print(f"load averages at the end: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
