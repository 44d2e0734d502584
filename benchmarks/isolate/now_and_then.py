"""Hunts for a part that is slow now and then, in simulation: with and without an earlier reason to doubt it.

One of 16 parts is at half speed in so many of the rounds (1 % of noise of a test); or none is, and a healthy
one is doubted. A path to the slow part is not somebody else.

    python benchmarks/isolate/now_and_then.py
"""

from __future__ import annotations

import argparse

import numpy as np

from busbw.hunt.fabric import Fabric, hunt
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import Round, RoundResult, Rules

PARTS = 16
EVERYONE = (tuple(range(PARTS)),)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hunts", type=int, default=200, help="a case")
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0, 0.9, 0.8, 0.7, 0.5, 0.3, 0.0])
    options = parser.parse_args()
    print(
        "| share of rounds | doubted | named | a path to it | others accused | undecided | healthy | rounds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for share in options.shares:
        for doubted in (False, True):
            found = [(seed % PARTS, one_hunt(share, seed, doubted=doubted)) for seed in range(options.hunts)]
            print(f"| {share:.0%} | {'yes' if doubted else 'no'} | {row(found)} |", flush=True)


def one_hunt(share: float, seed: int, *, doubted: bool) -> Verdict:
    generator, part = np.random.default_rng(seed), seed % PARTS

    def run(turn: Round) -> RoundResult:
        slow = {part: 0.5} if generator.random() < share else {}
        return Fabric(PARTS, slow).run(turn, generator)

    rules = Rules(seed=seed, doubted=(part,) if doubted else ())
    return conclude(rules, EVERYONE, hunt(rules, EVERYONE, run))


def row(found: list[tuple[int, Verdict]]) -> str:
    named = [(part, {each.parts for each in verdict.suspects}) for part, verdict in found]
    decided = [verdict.decision for _, verdict in found]
    rounds = sum(verdict.rounds for _, verdict in found) / len(found)
    counts = (
        sum((part,) in suspects for part, suspects in named),
        sum((part,) not in suspects and any(part in each for each in suspects) for part, suspects in named),
        sum(part not in each for part, suspects in named for each in suspects),
        decided.count(Decision.UNDECIDED),
        decided.count(Decision.HEALTHY),
    )
    return " | ".join([*map(str, counts), f"{rounds:.1f}"])


if __name__ == "__main__":
    main()
