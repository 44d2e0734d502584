"""Hunts for a part that becomes slow after its random pairs, in simulation: what the doubted find.

Its random pairs pass, so that it is tested afresh only where it is doubted, or where a path to it is. 1 % of
noise of a test; the last part loses ``--loss`` of its bandwidth.

    python benchmarks/isolate/slow_later.py
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from busbw.hunt.fabric import Fabric, hunt
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import Round, RoundResult, Rules, Stage

# Parts by switch (of one switch, nobody tells), and how many are doubted, the slow one first.
CASES = (
    *(((parts,), doubted) for parts in (6, 8, 16) for doubted in (0, 1, parts // 2, parts)),
    *(((5, 5, 5, 1), doubted) for doubted in (0, 1, 5)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hunts", type=int, default=200, help="a case")
    parser.add_argument("--loss", type=float, default=0.1)
    options = parser.parse_args()
    print("| parts | doubted | named | a path to it | others accused | undecided | healthy | rounds |")
    print("|---|---|---|---|---|---|---|---|")
    for sizes, doubted in CASES:
        found = [one_hunt(sizes, doubted, options.loss, seed) for seed in range(options.hunts)]
        print(f"| {' + '.join(map(str, sizes))} | {doubted} | {row(sum(sizes) - 1, found)} |", flush=True)


def one_hunt(sizes: tuple[int, ...], doubted: int, loss: float, seed: int) -> Verdict:
    parts = sum(sizes)
    generator = np.random.default_rng(seed)
    well = Fabric(parts, leaf_sizes=sizes if len(sizes) > 1 else (), latency_noise=0.05)
    later = replace(well, slow={parts - 1: loss})

    def run(turn: Round) -> RoundResult:
        return (well if turn.stage is Stage.SCREEN else later).run(turn, generator)

    rules = Rules(seed=seed, doubted=tuple(range(parts))[::-1][:doubted])
    everyone = (tuple(range(parts)),)
    return conclude(rules, everyone, hunt(rules, everyone, run, well.leaves), well.leaves)


def row(part: int, found: list[Verdict]) -> str:
    named = [[{*each.parts, *each.beyond} for each in verdict.suspects] for verdict in found]
    decided = [verdict.decision for verdict in found]
    counts = (
        sum({part} in each for each in named),
        sum({part} not in each and any(part in ends for ends in each) for each in named),
        sum(part not in ends for each in named for ends in each),
        decided.count(Decision.UNDECIDED),
        decided.count(Decision.HEALTHY),
    )
    rounds = sum(verdict.rounds for verdict in found) / len(found)
    return " | ".join([*map(str, counts), f"{rounds:.1f}"])


if __name__ == "__main__":
    main()
