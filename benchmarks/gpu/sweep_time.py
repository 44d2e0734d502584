"""How long does a whole sweep take, at the same precision over launches?

Launches of `busbw run all_reduce -b 8 -e 2G -f 2 -c 0`, unchecked as nccl-tests is, alternate with launches
of nccl-tests in three size ranges, each with three numbers of iterations. A number is good enough for a range
where the spread over launches (of the logarithm of the time, median over the range's rows) is no larger than
busbw's, or no larger than that of any other number: more iterations would not help. nccl-tests' time is the
sum over ranges of the quickest that is good enough.

    python benchmarks/gpu/sweep_time.py --nccl-tests BUILD_DIR --ranks 4 --launches 5 --output sweep.json
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from busbw.machine.native.nccl import load_nccl

RANGES = (("8", "32K"), ("64K", "8M"), ("16M", "2G"))
ITERATIONS = (20, 200, 2000)
# 2,000 iterations of the large sizes take two minutes and can only lose.
LARGE_ITERATIONS = (20, 50, 200)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--output", default="sweep.json")
    options = parser.parse_args()
    folder = str(Path(load_nccl().path).parent)
    environ = {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    walls: dict[str, list[float]] = defaultdict(list)
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(options.launches):
        for arm, command, read in arms(options):
            started = time.monotonic()
            done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            walls[arm].append(time.monotonic() - started)
            rows[arm].append(read(done.stdout))
        Path(options.output).write_text(json.dumps({"walls": walls, "rows": rows}))
    report(walls, rows)


def arms(options: argparse.Namespace):  # noqa: ANN201 (name, command, reader)
    ours = [sys.executable, "-m", "busbw", "run", "all_reduce", "-b", "8", "-e", "2G", "-f", "2", "-c", "0"]
    yield "busbw", [*ours, "--ranks", str(options.ranks), "--format", "csv"], read_busbw
    for number, (first, last) in enumerate(RANGES):
        for n in LARGE_ITERATIONS if number == 2 else ITERATIONS:
            sweep = ["-b", first, "-e", last, "-f", "2", "-n", str(n), "-w", "5", "-c", "0", "-a", "3"]
            binary = str(options.nccl_tests / "all_reduce_perf")
            mpi = [options.mpirun, "-np", str(options.ranks)]
            yield f"{first}-{last} n={n}", [*mpi, binary, *sweep], read_nccl_tests


def read_nccl_tests(text: str) -> dict[str, float]:
    rows = (line.split() for line in text.splitlines())
    found = [words for words in rows if len(words) >= 12 and words[0].isdigit()]
    return {f"{w[0]} out": float(w[-8]) for w in found} | {f"{w[0]} in": float(w[-4]) for w in found}


def read_busbw(text: str) -> dict[str, float]:
    return {
        f"{row['size_bytes']} {row['placement'].split('-')[0]}": float(row["time_ns"]) / 1e3
        for row in csv.DictReader(io.StringIO(text))
    }


def spread(launches: list[dict[str, float]], keys: list[str]) -> float:
    """Standard deviation over launches of log time, median over rows."""
    logs = np.log([[launch[key] for key in keys] for launch in launches])
    return float(np.median(logs.std(axis=0, ddof=1)))


def report(walls: dict[str, list[float]], rows: dict[str, list[dict[str, float]]]) -> None:
    total = 0.0
    print(f"busbw: {np.median(walls['busbw']):.2f} s a launch")
    for first, last in RANGES:
        names = [arm for arm in walls if arm.startswith(f"{first}-")]
        keys = list(rows[names[0]][0])
        ours = spread(rows["busbw"], keys)
        spreads = {arm: spread(rows[arm], keys) for arm in names}
        enough = max(ours, 1.1 * min(spreads.values()))
        for arm in names:
            print(
                f"  {arm:>16}: {np.median(walls[arm]):6.2f} s, spread {spreads[arm]:.2%} (busbw {ours:.2%})"
            )
        total += min(float(np.median(walls[arm])) for arm in names if spreads[arm] <= enough)
        del last
    print(f"nccl-tests: {total:.2f} s; busbw / nccl-tests {np.median(walls['busbw']) / total:.2f}")


if __name__ == "__main__":
    main()
