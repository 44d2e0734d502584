"""Hunts among few parts, as the GPUs of a host, in simulation: what rules do where latency is no help.

Small messages of the first two cases take what recorded ones of 4 x H100 took (tests/support, few_gpus.py).
In the others nothing is wrong with bandwidth (0.5 % of noise; latency 10 %), and of latency the mean, or the
quickest messages too, take three times as long: of two parts, or of pairs that have no part in common.

    python benchmarks/isolate/few.py
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.few_gpus import METRICS, gpus, small_messages

from busbw.hunt.fabric import Fabric, hunt
from busbw.hunt.verdict import Decision, conclude
from busbw.model.hunt import LATENCY, QUICKEST, Round, RoundResult, Rules

LATE = 3.0
Found = set[tuple[int, ...]]
Case = Callable[
    [int, int], tuple[Found, Callable[[Round], RoundResult]]
]  # parts, seed: what is slow, its rounds
SMALL = small_messages()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hunts", type=int, default=200, help="a case")
    parser.add_argument("--parts", type=int, nargs="+", default=[4, 5, 6, 8])
    options = parser.parse_args()
    print("| case | parts | hunts | named | accused wrongly | healthy | slow | undecided | rounds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, case in CASES.items():
        for parts in options.parts:
            print(f"| {name} | {parts} | {options.hunts} | {row(case, parts, options.hunts)} |", flush=True)


def row(case: Case, parts: int, hunts: int) -> str:
    everyone = (tuple(range(parts)),)
    decided: list[Decision] = []
    named = wanted = accused = rounds = 0
    for seed in range(hunts):
        rules = Rules(metrics=METRICS, seed=seed)
        slow, run = case(parts, seed)
        verdict = conclude(rules, everyone, hunt(rules, everyone, run))
        found = {suspect.parts for suspect in verdict.suspects}
        named, wanted = named + len(found & slow), wanted + len(slow)
        accused += len(found - slow)
        rounds += verdict.rounds
        decided.append(verdict.decision)
    counts = [decided.count(each) for each in (Decision.HEALTHY, Decision.SLOW, Decision.UNDECIDED)]
    told = f"{named} of {wanted}" if wanted else ""
    return " | ".join(map(str, (told, accused, *counts, f"{rounds / hunts:.1f}")))


def healthy(parts: int, seed: int) -> tuple[Found, Callable[[Round], RoundResult]]:
    return set(), gpus(None, random.Random(f"{parts} {seed}"), SMALL)


def busy(parts: int, seed: int) -> tuple[Found, Callable[[Round], RoundResult]]:
    generator = random.Random(f"{parts} {seed} busy")
    part = generator.randrange(parts)
    return {(part,)}, gpus(part, generator, SMALL)


def two_late(parts: int, seed: int) -> tuple[Found, Callable[[Round], RoundResult]]:
    late = random.Random(f"{parts} {seed} two").sample(range(parts), 2)
    pairs = [
        (one, other) for one in range(parts) for other in range(one + 1, parts) if {one, other} & {*late}
    ]
    return {(part,) for part in late}, later(parts, seed, pairs, METRICS[1:])


def paths_late(metrics: Iterable[str]) -> Case:
    def case(parts: int, seed: int) -> tuple[Found, Callable[[Round], RoundResult]]:
        pairs = [(part, part + 1) for part in range(0, parts - 1, 2)]
        return set(pairs), later(parts, seed, pairs, metrics)

    return case


def later(
    parts: int, seed: int, pairs: Iterable[tuple[int, int]], metrics: Iterable[str]
) -> Callable[[Round], RoundResult]:
    """Rounds in which these pairs take ``LATE`` times as long by these metrics."""
    generator, late = np.random.default_rng(seed), set(pairs)

    def run(turn: Round) -> RoundResult:
        whole = Fabric(parts, noise=0.005).run(turn, generator)
        tests = []
        for test in whole.tests:
            factor = LATE if (test.one, test.other) in late else 1.0
            longer = {m: tuple(tuple(ns * factor for ns in way) for way in test.times_ns[m]) for m in metrics}
            tests.append(replace(test, times_ns={**test.times_ns, **longer}))
        return replace(whole, tests=tuple(tests))

    return run


CASES: dict[str, Case] = {
    "GPUs, all idle": healthy,
    "GPUs, one busy": busy,
    "two parts late": two_late,
    "disjoint pairs late, mean": paths_late((LATENCY,)),
    "disjoint pairs late": paths_late((LATENCY, QUICKEST)),
}

if __name__ == "__main__":
    main()
