"""A collective beside cuBLAS' matrix products: does busbw see what a PyTorch job sees?

    python benchmarks/gpu/overlap.py --ranks 2 --output overlap.json

Both run the same product of bfloat16 matrices, in turn: launches of busbw and jobs of PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import busbw

JOB = Path(__file__).with_name("overlap_job.py")
JOB_S, RUN_S = 70, 60


def of_busbw(asked: argparse.Namespace, size: int) -> dict[str, float]:
    """Alone in us, the ratio of mean times, and the share left."""
    with tempfile.TemporaryDirectory() as home:
        words = [f"--ranks={asked.ranks}", "-b", str(size), "-e", str(size)]
        subprocess.run(
            [sys.executable, "-m", "busbw", "run", asked.operation, *words, "--beside", f"gemm:n={asked.n}"],
            env={**os.environ, "BUSBW_HOME": home}, check=True, stdout=subprocess.DEVNULL, timeout=RUN_S,
        )  # fmt: skip
        (result,) = busbw.open_run(next(Path(home).glob("2*"))).record.results
    (beside,) = result.neighbours
    assert beside.left is not None
    alone_us = statistics.median(beside.alone_ns) / 1e3
    return {"alone_us": alone_us, "ratio": beside.mean.value, "left": beside.left.value}


def of_pytorch(asked: argparse.Namespace) -> dict[int, dict[str, float]]:
    """The same by size."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(asked.ranks), str(port), asked.operation, str(asked.n), *map(str, asked.sizes)]
    ranks = [
        subprocess.Popen([sys.executable, JOB, str(rank), *words], stdout=subprocess.PIPE, text=True)
        for rank in range(asked.ranks)
    ]
    try:
        lines = ranks[0].communicate(timeout=JOB_S)[0].splitlines()
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    found = {}
    for size, alone, ratio, left, covered in (line.split() for line in lines):
        found[int(size)] = {
            "alone_us": float(alone), "ratio": float(ratio), "left": float(left), "covered": float(covered),
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--operation", choices=("all_reduce", "all_gather"), default="all_reduce")
    parser.add_argument("--n", type=int, default=4096, help="edge of the matrices")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 20, 16 << 20, 64 << 20, 256 << 20])
    parser.add_argument("--launches", type=int, default=2)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    rows = []
    for launch in range(asked.launches):
        theirs = of_pytorch(asked)
        for size in asked.sizes:
            ours = of_busbw(asked, size)
            rows.append({"launch": launch, "bytes": size, "busbw": ours, "pytorch": theirs.get(size)})
            print(json.dumps(rows[-1]), flush=True)
    if asked.output:
        what = {"ranks": asked.ranks, "operation": asked.operation, "n": asked.n, "rows": rows}
        asked.output.write_text(json.dumps(what, indent=1))


if __name__ == "__main__":
    main()
