"""Enter to first row: from the command to the first line of the table, ours beside nccl-tests', in turn.

python benchmarks/gpu/start.py --nccl-tests BUILD_DIR --ranks 4 --rounds 4
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from fidelity import environ

from busbw._native.nccl import load_nccl

SWEEP = ("-b", "8", "-e", "8", "-n", "20")
FIRST_ROW = re.compile(r"^\s+8\s+2\s+float")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    nccl = load_nccl()
    ranks = str(options.ranks)
    perf = str(options.nccl_tests / "all_reduce_perf")
    ours = (sys.executable, "-m", "busbw", "run", "all_reduce", *SWEEP)
    commands = {
        "nccl-tests, mpirun": ("mpirun", "-np", ranks, perf, *SWEEP),
        "nccl-tests, one process": (perf, "-g", ranks, *SWEEP),
        "busbw": (*ours, "--ranks", ranks),
        "busbw, mpirun": ("mpirun", "-np", ranks, *ours),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            times[name].append(first_row_s(command, nccl.path))
    print(f"NCCL {nccl.version}, {ranks} GPUs, seconds from command to first row, {options.rounds} rounds")
    for name, seconds in times.items():
        print(
            f"{name:>24}  median {statistics.median(seconds):.2f}  {min(seconds):.2f} .. {max(seconds):.2f}"
        )


def first_row_s(command: tuple[str, ...], nccl_path: str) -> float:
    """Seconds until the first row is there."""
    start = time.monotonic()
    with subprocess.Popen(command, env=environ(nccl_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if FIRST_ROW.match(line):
                seconds = time.monotonic() - start
                process.communicate(timeout=60)
                return seconds
    raise SystemExit(f"no row from {' '.join(command)}")


if __name__ == "__main__":
    main()
