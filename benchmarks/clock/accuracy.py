"""How far the synchronised clock is from the truth, how far it says it may be, and how long it takes.

The ranks are those of the tests (tests/mpi/clock_program.py): each reads an artificial clock, up to 5 s and
100 ppm from the machine's own, so the truth is known to the nanosecond. Every rank counts as a machine.

    python benchmarks/clock/accuracy.py --output accuracy.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.mpi_ranks import load, said_by_ranks

PROGRAM = Path(__file__).parents[2] / "tests" / "mpi" / "clock_program.py"
# Ranks, whether each has a core of its own (as on machines of their own), whether another process is busy.
CASES = [(2, True, False), (2, True, True)] + [
    (ranks, False, busy) for busy in (False, True) for ranks in (2, 4, 5, 8)
]
Ranks = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--most-ranks", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("accuracy.json"))
    options = parser.parse_args()
    cases = [case for case in CASES if case[0] <= options.most_ranks]
    launches: dict[tuple[int, bool, bool], list[Ranks]] = {case: [] for case in cases}
    # Whatever else the machine does meets all cases.
    for seed in range(options.launches):
        for case in cases:
            launches[case].append(launch(*case, seed))
    kept = [
        {"ranks": ranks, "bound_to_cores": bound, "load": busy, "launches": found}
        for (ranks, bound, busy), found in launches.items()
    ]
    options.output.write_text(json.dumps(kept, indent=1))
    print("# us; bound and true error: median, largest over launches of the worst rank; 10 s later: largest")
    print("| ranks | load | bound | true | true 10 s later | +-drift ppm | held | seconds | recheck ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case, found in launches.items():
        print(row(*case, found))


def launch(ranks: int, bound: bool, busy: bool, seed: int) -> Ranks:
    asked = {"separate": True, "ppm": 100.0, "offset_s": 5.0, "bind": bound, "seed": seed}
    with load(busy):
        found: Ranks = said_by_ranks(ranks, PROGRAM, json.dumps(asked))
    return found


def row(ranks: int, bound: bool, busy: bool, launches: list[Ranks]) -> str:
    bounds = [found[0]["error_ns"] / 1e3 for found in launches]
    true = [max(abs(rank["true_ns"][0]) for rank in found) / 1e3 for found in launches]
    late = max(abs(rank["true_ns"][-1]) for found in launches for rank in found) / 1e3
    everyone = [rank for found in launches for rank in found]
    held = sum(abs(rank["true_ns"][0]) <= rank["own_error_ns"] for rank in everyone)
    held_late = sum(abs(rank["true_ns"][-1]) <= rank["promised_ns"][-1] for rank in everyone)
    drift = statistics.median(found[0]["drift_error_ppm"] for found in launches)
    seconds = max(rank["took_s"] for rank in everyone)
    recheck_ms = statistics.median(max(rank["recheck_s"] for rank in found) for found in launches) * 1e3
    cells = [
        f"{ranks}{', own cores' if bound else ''}",
        "1 busy process" if busy else "none",
        f"{statistics.median(bounds):.1f}, {max(bounds):.1f}",
        f"{statistics.median(true):.2f}, {max(true):.2f}",
        f"{late:.1f}",
        f"{drift:.2f}",
        f"{held}, {held_late} of {len(everyone)}",
        f"{seconds:.2f}",
        f"{recheck_ms:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
