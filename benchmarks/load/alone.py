"""What --beside finds where nothing is beside a collective, and where something is: on which side of 1 its
intervals lie, over many launches.

    python benchmarks/load/alone.py [--launches 20] [--beside compute:share=0] [-- all_reduce -b 1K ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from busbw.units import format_size

RATIOS: Final = ("mean", "median", "p99", "left")
CASES: Final = ("all_reduce", "-b", "1K", "-e", "4M", "-f", "16", "--ranks", "2", "--backend", "mpi")


def launch(home: str, words: list[str]) -> dict[str, Any]:
    """The record of one run."""
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "run", *words, "--format", "json"],
        env={**os.environ, "BUSBW_HOME": home}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def factors(record: dict[str, Any]) -> Iterator[tuple[tuple[str, str, str], dict[str, float | None]]]:
    """By neighbour, case and ratio."""
    for result in record["results"]:
        case = record["plan"]["cases"][result["case"]]
        name = f"{case['collective']} {format_size(case['size_bytes'])}"
        for beside in result["neighbours"]:
            for ratio in RATIOS:
                if beside[ratio] is not None:
                    yield (beside["what"], name, ratio), beside[ratio]


def row(own: list[dict[str, float | None]]) -> list[str]:
    """The middle ratio; how many intervals lie below 1, hold it, lie above it, and are missing."""
    ends = [(low, high) for each in own if (low := each["low"]) is not None and (high := each["high"])]
    below = sum(high < 1 for _, high in ends)
    above = sum(low > 1 for low, _ in ends)
    middle = median(each["value"] or 0.0 for each in own)
    counts = (below, len(ends) - below - above, above, len(own) - len(ends))
    return [f"{middle:.2f}", *map(str, counts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--beside", action="append", help="as of busbw run; may be given several times")
    parser.add_argument("words", nargs="*", help="operations and flags of busbw run, after --")
    asked = parser.parse_args()
    words = [*(asked.words or CASES)]
    for neighbour in asked.beside or ["compute:share=0"]:
        words += ["--beside", neighbour]
    found = defaultdict[tuple[str, str, str], list[dict[str, float | None]]](list)
    with tempfile.TemporaryDirectory() as home:
        for number in range(asked.launches):
            for key, factor in factors(launch(home, words)):
                found[key].append(factor)
            print(f"launch {number + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    head = ("beside", "case", "ratio", "middle", "below 1", "hold 1", "above 1", "too few rounds")
    print("|", " | ".join(head), "|")
    print("|" + "---|" * len(head))
    for key, own in found.items():
        print("|", " | ".join([*key, *row(own)]), "|")


if __name__ == "__main__":
    main()
