"""Enter to first row: from the command to the first line of the table, ours beside nccl-tests', in turn.

python benchmarks/gpu/start.py --nccl-tests BUILD_DIR --ranks 4 --rounds 4

Without --nccl-tests only ours; with --backend mpi ours on CPU ranks.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from fidelity import environ

from busbw.machine.native.nccl import load_nccl

SWEEP = ("-b", "8", "-e", "8", "-n", "20")
FIRST_ROW = re.compile(r"^\s+8\s+2\s+float")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--output", type=Path, help="a JSON file of all seconds")
    options = parser.parse_args()
    library = load_nccl() if options.backend == "nccl" else None
    name = f"NCCL {library.version}" if library else f"backend {options.backend}"
    commands = commands_of(options)
    times: dict[str, list[float]] = {arm: [] for arm in commands}
    for _ in range(options.rounds):
        for arm, command in commands.items():
            times[arm].append(first_row_s(command, library.path if library else ""))
    if options.output:
        options.output.write_text(json.dumps(times))
    print(f"{name}, {options.ranks} ranks, seconds from command to first row, {options.rounds} rounds")
    for name, seconds in times.items():
        print(
            f"{name:>24}  median {statistics.median(seconds):.2f}  {min(seconds):.2f} .. {max(seconds):.2f}"
        )


def commands_of(options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    ranks = str(options.ranks)
    ours = (sys.executable, "-m", "busbw", "run", "all_reduce", *SWEEP, "--backend", options.backend)
    alone = {"busbw": (*ours, "--ranks", ranks)}
    if not options.nccl_tests:
        return alone
    perf = str(options.nccl_tests / "all_reduce_perf")
    return {
        "nccl-tests, mpirun": ("mpirun", "-np", ranks, perf, *SWEEP),
        "nccl-tests, one process": (perf, "-g", ranks, *SWEEP),
        **alone,
        "busbw, mpirun": ("mpirun", "-np", ranks, *ours),
    }


def first_row_s(command: tuple[str, ...], nccl_path: str) -> float:
    """Seconds until the first row is there."""
    variables = environ(nccl_path) if nccl_path else None
    start = time.monotonic()
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if FIRST_ROW.match(line):
                seconds = time.monotonic() - start
                process.communicate(timeout=60)
                return seconds
    raise SystemExit(f"no row from {' '.join(command)}")


if __name__ == "__main__":
    main()
