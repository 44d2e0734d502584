"""Rounds, recall and false accusations of hunts in simulated fabrics, against every pair in turn.

Prints one line a case as a Markdown table; the same for the same seeds. Every fault-free fabric counts as
one hunt more that may accuse nobody.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass

from busbw.hunt.fabric import Fabric, simulate
from busbw.hunt.verdict import Decision, conclude
from busbw.model.hunt import Rules
from busbw.planning.rounds import turns


@dataclass(frozen=True)
class Row:
    """What many hunts of one case came to."""

    rounds: float
    most: int
    found: int
    there: int
    false: int
    hunts_false: int
    undecided: int


def case(parts: int, bad: int, lost: float, noise: float, stalls: float, runs: int) -> Row:
    rounds, found, false, hunts_false, undecided = [], 0, 0, 0, 0
    for seed in range(runs):
        slow = dict.fromkeys(random.Random(f"{parts} {bad} {seed}").sample(range(parts), bad), lost)
        rules = Rules(seed=seed)
        history = simulate(Fabric(parts, slow, noise=noise, stalls=stalls), rules, seed)
        verdict = conclude(rules, (tuple(range(parts)),), history)
        named = {suspect.parts for suspect in verdict.suspects}
        right = {(part,) for part in slow}
        rounds.append(verdict.rounds)
        found += len(named & right)
        false += len(named - right)
        hunts_false += bool(named - right)
        undecided += verdict.decision is Decision.UNDECIDED
    return Row(sum(rounds) / runs, max(rounds), found, bad * runs, false, hunts_false, undecided)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--parts", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--noise", type=float, default=0.01, help="standard deviation of one test")
    parser.add_argument("--stalls", type=float, default=0.0, help="share of tests up to twice as long")
    options = parser.parse_args()
    print(f"{options.runs} hunts a case, noise {options.noise:.1%} a test, stalls {options.stalls:.1%}\n")
    print("| N | slow | loss | rounds (most) | every pair | recall | accused wrongly | undecided | s/hunt |")
    print("|---|---|---|---|---|---|---|---|---|")
    for parts in options.parts:
        for bad in sorted({0, 1, 3, max(1, parts // 100)}):
            for lost in (0.05, 0.10) if bad else (0.0,):
                start_s = time.monotonic()
                row = case(parts, bad, lost, options.noise, options.stalls, options.runs)
                recall = f"{row.found / row.there:.4f}" if row.there else ""
                cost_s = (time.monotonic() - start_s) / options.runs
                print(
                    f"| {parts} | {bad} | {lost:.0%} | {row.rounds:.2f} ({row.most}) | {turns(parts)} |"
                    f" {recall} | {row.false} in {row.hunts_false} hunts | {row.undecided} | {cost_s:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
