"""Hunts among switches: healthy paths that are not alike, and the path between two switches that is slow.

Prints two Markdown tables; the same for the same seeds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

from busbw.hunt.fabric import Fabric, simulate
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, Rules

LAYOUTS = ((14, 2), (13, 3), (12, 2, 2), (24, 4, 4), (10, 2), (18, 2), (10, 6), (20, 4, 4, 4))
LONGER = {
    "latency 1.6": {LATENCY: 0.6, QUICKEST: 0.6},
    "bandwidth -10 %": {BANDWIDTH: 1 / 0.9 - 1},
}
# Hosts on each switch, and the two between which the path is slow.
SWITCHES = (
    ((4,) * 4, (0, 1)),
    ((8,) * 4, (0, 1)),
    ((8,) * 8, (0, 1)),
    ((16,) * 4, (0, 1)),
    ((16,) * 8, (0, 1)),
    ((6, 5, 3, 2), (1, 2)),
    ((5, 5, 5, 1), (1, 3)),
    ((3, 3, 3, 2, 2), (2, 4)),
)


def hunts(fabric: Fabric, runs: int) -> Iterator[Verdict]:
    """One hunt a seed."""
    groups = (tuple(range(fabric.parts)),)
    for seed in range(runs):
        rules = Rules(seed=seed)
        yield conclude(rules, groups, simulate(fabric, rules, seed), fabric.leaves)


def unlike_paths(runs: int) -> None:
    print("| hosts by switch | between switches | not told: accusing | undecided | rounds |", end="")
    print(" told: accusing | undecided | rounds |\n|---|---|---|---|---|---|---|---|")
    for sizes in LAYOUTS:
        for name, longer in LONGER.items():
            fabric = Fabric(sum(sizes), leaf_sizes=sizes, longer=longer, latency_noise=0.05)
            cells = [" + ".join(map(str, sizes)), name]
            for hidden in (True, False):
                found = list(hunts(replace(fabric, hidden=hidden), runs))
                cells += [
                    str(sum(bool(verdict.suspects) for verdict in found)),
                    str(sum(verdict.decision is Decision.UNDECIDED for verdict in found)),
                    f"{mean(verdict.rounds for verdict in found):.1f}",
                ]
            print(f"| {' | '.join(cells)} |", flush=True)


def slow_path(runs: int, loss: float) -> None:
    print(
        "| hosts by switch | path between | named | anybody else accused | undecided | healthy | rounds |",
        end="",
    )
    print(" nobody broken: accusing | undecided | rounds |\n|---|---|---|---|---|---|---|---|---|---|")
    for sizes, path in SWITCHES:
        fabric = Fabric(sum(sizes), leaf_sizes=sizes, latency_noise=0.05)
        ends = {fabric.leaves[number] for number in path}
        found = list(hunts(replace(fabric, slow_paths={path: loss}), runs))
        hits = [[{each.parts, each.beyond} == ends for each in verdict.suspects] for verdict in found]
        broken = Counter(verdict.decision for verdict in found)
        healthy = list(hunts(fabric, runs))
        told = Counter(verdict.decision for verdict in healthy)
        cells = (
            f"{len(sizes)} x {sizes[0]}" if len(set(sizes)) == 1 else " + ".join(map(str, sizes)),
            " and ".join(str(sizes[number]) for number in path),
            f"{sum(any(hit) for hit in hits)} of {runs}",
            sum(not all(hit) for hit in hits),
            broken[Decision.UNDECIDED],
            broken[Decision.HEALTHY],
            f"{mean(verdict.rounds for verdict in found):.1f}",
            sum(bool(verdict.suspects) for verdict in healthy),
            told[Decision.UNDECIDED],
            f"{mean(verdict.rounds for verdict in healthy):.1f}",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--loss", type=float, default=0.30, help="of the path between two switches")
    options = parser.parse_args()
    print(f"{options.runs} hunts a case, nobody broken, noise 1 % in bandwidth, 5 % in latency\n")
    unlike_paths(options.runs)
    print(f"\n{options.runs} hunts a case, the path between two switches lost {options.loss:.0%}\n")
    slow_path(options.runs, options.loss)


if __name__ == "__main__":
    main()
