"""Where the seconds of a sweep go: starting, warm-up, samples, single calls, between the rows, the end.

    python benchmarks/gpu/sweep_split.py --ranks 2 --launches 3 --output sweep.csv.txt
    python benchmarks/gpu/sweep_split.py --read benchmarks/gpu/results/2026-11-26-h100/sweep-2gpu.csv.txt

Each launch is `busbw run all_reduce -b 8 -e 2G -f 2 -c 0`, and the output is its rows between the seconds of
its start and of its end. Calls are counted from the rows: how many there were, times their mean; single calls
(320 a case with a percentile whose samples hold several) take the mean and what timing one by itself adds.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

SINGLE_CALLS = 320
TIMING_S = (
    2.3e-6  # what a reading of time after each adds to a call: "timing overhead" below a table, 2 x H100
)
PARTS = ("the whole", "until the first row", "warm-up calls", "calls in samples", "single calls",
         "between the rows beside", "after the last row")  # fmt: skip
Launch = tuple[float, list[dict[str, str]], float]  # start, rows, end


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--last", default="2G")
    parser.add_argument("--output", type=Path, default=Path("sweep.csv.txt"))
    parser.add_argument("--read", type=Path, help="a kept output, instead of measuring")
    options = parser.parse_args()
    if not options.read:
        options.output.write_text("".join(measured(options)))
    launches = list(read((options.read or options.output).read_text()))
    print(f"| seconds of | {' | '.join(f'launch {number + 1}' for number in range(len(launches)))} |")
    print("|---" * (len(launches) + 1) + "|")
    for name, values in zip(PARTS, zip(*map(split, launches), strict=True), strict=True):
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |")


def measured(options: argparse.Namespace) -> Iterator[str]:
    sweep = ["-b", "8", "-e", options.last, "-f", "2", "-c", "0", "--ranks", str(options.ranks)]
    command = [sys.executable, "-m", "busbw", "run", "all_reduce", *sweep, "--format", "csv"]
    for _ in range(options.launches):
        start = time.time()
        rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield f"{start:.9f}\n{rows}{time.time():.9f}\n"


def read(text: str) -> Iterator[Launch]:
    start, rows = None, []
    for line in text.splitlines():
        if "," in line:
            rows.append(line)
        elif line[:1].isdigit() and start is None:
            start = float(line)
        elif line[:1].isdigit() and start is not None:
            yield start, list(csv.DictReader(rows)), float(line)
            start, rows = None, []


def split(launch: Launch) -> tuple[float, ...]:
    """Seconds of each of PARTS."""
    start, rows, end = launch
    finished = [datetime.fromisoformat(row["finished"]).timestamp() for row in rows]
    timed = [(row, float(row["mean_ns"]) / 1e9) for row in rows if row["mean_ns"]]
    warm = sum(int(row["warmup_calls"]) * call_s for row, call_s in timed)
    samples = sum(int(row["samples"]) * int(row["calls_per_sample"]) * call_s for row, call_s in timed)
    several = [call_s for row, call_s in timed if row["p99"] and int(row["calls_per_sample"]) > 1]
    singles = sum(SINGLE_CALLS * (call_s + TIMING_S) for call_s in several)
    between = finished[-1] - finished[0]
    beside = between - warm - samples - singles
    return end - start, finished[0] - start, warm, samples, singles, beside, end - finished[-1]


if __name__ == "__main__":
    main()
