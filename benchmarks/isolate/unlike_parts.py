"""Hunts among parts that differ for good, and of which none is broken, in simulation.

The losses are half-normal, of the standard deviation that is said; 0.5 % of noise of a test, ``--loss 5%``.

    python benchmarks/isolate/unlike_parts.py
"""

from __future__ import annotations

import argparse

import numpy as np

from busbw.hunt.fabric import Fabric, simulate
from busbw.hunt.verdict import Decision, conclude
from busbw.model.hunt import Rules


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hunts", type=int, default=100, help="a case")
    parser.add_argument("--parts", type=int, nargs="+", default=[16, 64, 256])
    options = parser.parse_args()
    print("| N | standard deviation | hunts | accusing | lost, who was accused | undecided |")
    print("|---|---|---|---|---|---|")
    for parts in options.parts:
        for spread in (0.010, 0.015):
            accusing = undecided = 0
            accused: list[float] = []
            for seed in range(options.hunts):
                losses = np.abs(np.random.default_rng((parts, seed)).normal(0, spread, parts))
                rules = Rules(seed=seed)
                fabric = Fabric(parts, slow=dict(enumerate(losses.tolist())), noise=0.005)
                verdict = conclude(rules, (tuple(range(parts)),), simulate(fabric, rules, seed))
                accusing += bool(verdict.suspects)
                accused += [losses[part] for each in verdict.suspects for part in each.parts]
                undecided += verdict.decision is Decision.UNDECIDED
            lost = f"{min(accused):.1%} to {max(accused):.1%}" if accused else ""
            print(
                f"| {parts} | {spread:.1%} | {options.hunts} | {accusing} | {lost} | {undecided} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
