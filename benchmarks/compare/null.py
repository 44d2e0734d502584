"""Equal setups compared with one another: every FASTER or SLOWER is false.

    null.py [--pairs 20] [--blocks 8] [--size 64K] [--ranks 2] [--json FILE] [--read SERIES]

All pairs are launched in one series of random blocks, each launch a fresh start of the ranks, and each pair
is compared alone, by the rule of `busbw compare`. The JSON file has the time of every launch in the order in
which they were made; cost.py reads it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.judge.compare import ComparedCase, Verdict, compare, compare_all
from busbw.judge.compare_arms import Arm, CaseKey
from busbw.judge.compare_setups import setup_arms
from busbw.launch import series as setup_series
from busbw.launch.series import Series
from busbw.model.record import RunRecord
from busbw.record.folder import environ_home, run_folders


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
    report(measured(asked), asked.json)


def measured(asked: argparse.Namespace) -> Path:
    """The folder of a series of equal setups."""
    home = environ_home()
    before = set(run_folders(home))
    names = [f"pair{pair}-{side}" for pair in range(asked.pairs) for side in "ab"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("setups:\n" + "".join(f"  {name}: {{}}\n" for name in names))
        file.flush()
        words = ["compare", file.name, "--ops", "all_reduce", "--backend", "mpi", "--ranks", str(asked.ranks)]
        words += ["-b", asked.size, "-e", asked.size, "-n", str(asked.calls), "-c", "0"]
        words += ["--blocks", str(asked.blocks), "--order-seed", str(asked.seed)]
        done = subprocess.run([sys.executable, "-m", "busbw", *words], stdout=subprocess.DEVNULL, check=False)
    made = set(run_folders(home)) - before
    if len(made) != 1:
        sys.exit(f"busbw compare ended with {done.returncode} and left no series")
    return made.pop()


def report(folder: Path, output: Path | None) -> None:
    series, records = setup_series.read_series(folder)
    pairs = []
    for first, second in zip(series.names[::2], series.names[1::2], strict=True):
        arms = setup_arms(folder.name, [first, second], series.outcomes, records, 0)
        key = next(key for key in arms[0].cases if key.placement == "out-of-place")
        pairs.append([arm_of_one_case(arm, key) for arm in arms])
    rows = [row for each in compare_all(pairs) for row in each.rows]
    for row in rows:
        low, high = row.interval or (float("nan"), float("nan"))
        print(f"{row.arm[:-2]:<8} {row.speedup:.3f} ({low:.3f} to {high:.3f}) q {row.q:.3f} {row.verdict}")
    say("as one table, q over all of them", sum(map(is_called, rows)), len(rows))
    say("each judged alone", sum(is_called(row) for arms in pairs for row in compare(arms).rows), len(rows))
    if output is not None:
        told = [[row.arm[:-2], row.verdict.value, row.speedup, row.interval, row.q] for row in rows]
        output.write_text(json.dumps(body(series, records, told), indent=1) + "\n")


def is_called(row: ComparedCase) -> bool:
    return row.verdict in (Verdict.FASTER, Verdict.SLOWER)


def rate_bound(events: int, trials: int) -> float:
    """The rate of an event that occurred so often in so many independent trials is below this, with
    95 % confidence (Clopper & Pearson 1934, one-sided): 14 % for 0 of 20; 22 % for 1 of 20.
    """
    if events >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):  # to the last place of a float
        rate = (low + high) / 2
        so_few = sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(events + 1))
        low, high = (rate, high) if so_few > 0.05 else (low, rate)
    return high


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
