"""Equal setups compared with one another: every FASTER or SLOWER is false.

    null.py [--pairs 20] [--blocks 8] [--size 64K] [--ranks 2] [--json FILE] [--read SERIES]

All pairs are launched in one series of random blocks, each launch a fresh start of the ranks, and each pair
is compared alone, by the rule of `busbw compare`. The JSON file has the time of every launch in the order in
which they were made; cost.py reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from busbw import setup_series
from busbw.analysis.compare import Row, Rule, Verdict, compare
from busbw.analysis.compare_arms import Arm, CaseKey
from busbw.analysis.compare_setups import setup_arms
from busbw.launchers.choose import local_request
from busbw.model.record import RunRecord
from busbw.planning.setups import Setup
from busbw.settings.run import RunSettings
from busbw.setup_series import Series
from busbw.stats.fdr import benjamini_hochberg, rate_bound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--size", default="64K")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", type=Path, help="the folder of a series that was measured")
    asked = parser.parse_args()
    if asked.read is not None:
        report(asked.read, asked.json)
        return
    setups = [Setup(f"pair{pair}-{side}") for pair in range(asked.pairs) for side in "ab"]
    settings = RunSettings(minbytes=asked.size, maxbytes=asked.size, iters=asked.calls, check=0)
    start = setup_series.local_starter(
        ("all_reduce",), settings, "mpi", asked.ranks, partial(local_request, "mpi", "auto", asked.ranks),
        {}, 120.0, tuple(sys.argv), sys.stderr,
    )  # fmt: skip
    series = setup_series.measure(setups, asked.blocks, asked.seed, (), {}, start, sys.stderr)
    report(series.folder, asked.json)


def report(folder: Path, output: Path | None) -> None:
    series, records = setup_series.read_series(folder)
    rows: list[Row] = []
    for first, second in zip(series.names[::2], series.names[1::2], strict=True):
        arms = setup_arms(folder.name, [first, second], series.outcomes, records, 0)
        key = next(key for key in arms[0].cases if key.placement == "out-of-place")
        rows += compare([arm_of_one_case(arm, key) for arm in arms]).rows
    for row in rows:
        low, high = row.interval or (float("nan"), float("nan"))
        print(f"{row.arm[:-2]:<8} {row.speedup:.3f} ({low:.3f} to {high:.3f}) q {row.q:.3f} {row.verdict}")
    p_values = [row.ratio.p for row in rows if row.ratio is not None and row.ratio.p is not None]
    q_values = benjamini_hochberg(p_values)
    alone = sum(row.verdict in (Verdict.FASTER, Verdict.SLOWER) for row in rows)
    together = sum(q < Rule().q and is_beyond(row) for row, q in zip(rows, q_values, strict=True))
    say("as one table, q over all of them", together, len(rows))
    say("each judged alone", alone, len(rows))
    if output is not None:
        told = [[row.arm[:-2], row.verdict.value, row.speedup, row.interval, row.q] for row in rows]
        output.write_text(json.dumps(body(series, records, told), indent=1) + "\n")


def is_beyond(row: Row) -> bool:
    low, high = row.interval or (1.0, 1.0)
    edge = 1 + Rule().delta / 2
    return low > edge or high < 1 / edge


def say(how: str, false: int, trials: int) -> None:
    bound = rate_bound(false, trials)
    print(
        f"{how}: {false} of {trials} null comparisons called FASTER or SLOWER; the rate is below {bound:.0%}"
        " with 95 % confidence" + ("" if false else f" (rule of three: 3/{trials} = {3 / trials:.0%})")
    )


def arm_of_one_case(arm: Arm, key: CaseKey) -> Arm:
    return replace(arm, cases={key: arm.cases[key]})


def body(series: Series, records: dict[str, RunRecord], told: list[list[Any]]) -> dict[str, Any]:
    launches = []
    for outcome in series.outcomes:
        record = records.get(outcome.folder)
        times = {}
        for case, result in zip(record.plan.cases, record.results, strict=True) if record else ():
            times[f"{case.size_bytes} {case.placement.value}"] = result.time_ns
        launches.append(
            {"setup": outcome.setup, "block": outcome.block, "seconds": outcome.seconds, "time_ns": times}
        )
    return {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "blocks": len(series.order),
        "verdicts": told,
        "launches": launches,
    }


if __name__ == "__main__":
    main()
