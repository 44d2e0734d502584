"""Hunts in simulated fabrics: who was named, who was accused wrongly, how many rounds it took.

A test takes the time of its slowest part or path, times the exponential of a normal number. Where all are
alike small messages are measured too; they scatter by 10 % (their mean) and 5 % (the quickest). Prints a row
a case as a Markdown table; the same for the same arguments.

    python benchmarks/isolate/simulate.py --parts 16
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np
import numpy.typing as npt

from busbw.hunt.decide import next_round
from busbw.hunt.verdict import Decision, HuntVerdict, conclude
from busbw.model.hunt import BANDWIDTH, LATENCY, METRICS, QUICKEST, PairTest, Round, RoundResult, Rules

Floats = npt.NDArray[np.float64]
_WIDE_NS, _SMALL_NS = 40e6, 100e3  # what a healthy pair takes; any value would do
_SMALL_NOISE = {LATENCY: 0.1, QUICKEST: 0.05}


@dataclass(frozen=True)
class Case:
    """``lost`` draws the share of bandwidth that every pair lost, a symmetric matrix, and the parts that are
    to be named; none: a path or groups are. A share of ``stalls`` of the tests lasts up to twice as long.
    """

    name: str
    noise: float = 0.01
    stalls: float = 0.0
    lost: Callable[[int, np.random.Generator], tuple[Floats, set[int]]] = lambda parts, _: (
        np.zeros((parts, parts)),
        set(),
    )
    healthy: bool = True


def one_part(loss: float) -> Callable[[int, np.random.Generator], tuple[Floats, set[int]]]:
    """One part lost so much."""

    def lost(parts: int, generator: np.random.Generator) -> tuple[Floats, set[int]]:
        bad = int(generator.integers(parts))
        return _of_parts(parts, [bad], loss), {bad}

    return lost


def half_old(parts: int, generator: np.random.Generator) -> tuple[Floats, set[int]]:
    """Half of the parts have old NICs, of 70 % of the bandwidth."""
    old = generator.permutation(parts)[: parts // 2]
    return _of_parts(parts, old.tolist(), 0.3), set(old.tolist())


def leaves_of_8(parts: int, generator: np.random.Generator) -> tuple[Floats, set[int]]:
    """Eight parts share a switch, of which nothing is known; between switches there is 70 %."""
    leaf = generator.permutation(parts) // 8
    return 0.3 * (leaf[:, None] != leaf), set()


def leaves_and_part(loss: float) -> Callable[[int, np.random.Generator], tuple[Floats, set[int]]]:
    """The same, and one part lost so much beside."""

    def lost(parts: int, generator: np.random.Generator) -> tuple[Floats, set[int]]:
        apart, _ = leaves_of_8(parts, generator)
        own, bad = one_part(loss)(parts, generator)
        return np.maximum(apart, own), bad

    return lost


def one_link(parts: int, generator: np.random.Generator) -> tuple[Floats, set[int]]:
    """The path between two parts lost 30 %."""
    lost = np.zeros((parts, parts))
    one, other = generator.permutation(parts)[:2]
    lost[one, other] = lost[other, one] = 0.3
    return lost, set()


def _of_parts(parts: int, bad: Sequence[int], loss: float) -> Floats:
    lost = np.zeros((parts, parts))
    lost[bad, :] = lost[:, bad] = loss
    return lost


CASES = (
    *(Case(f"all alike, noise {noise:.0%}", noise) for noise in (0.01, 0.03, 0.05)),
    *(Case(f"all alike, stalls in {share:.0%}", stalls=share) for share in (0.2, 0.4)),
    *(
        Case(f"one part slow by {loss:.0%}, noise {noise:.0%}", noise, lost=one_part(loss), healthy=False)
        for loss in (0.05, 0.1, 0.3)
        for noise in (0.01, 0.03)
    ),
    Case("one slow by 30%, stalls in 20%", stalls=0.2, lost=one_part(0.3), healthy=False),
    Case("half of the parts old NICs", lost=half_old, healthy=False),
    Case("leaves of 8, not known", lost=leaves_of_8, healthy=False),
    Case("the same, one part slow by 10%", lost=leaves_and_part(0.1), healthy=False),
    Case("one link slow by 30%", lost=one_link, healthy=False),
)


def hunt(case: Case, parts: int, seed: int) -> tuple[HuntVerdict, set[int], Floats]:
    """One hunt: its verdict, the parts that are slow, and what every pair lost."""
    generator = np.random.default_rng((parts, seed, sum(map(ord, case.name))))
    lost, bad = case.lost(parts, generator)
    rules = Rules(METRICS if case.healthy else (BANDWIDTH,), seed=seed)
    everyone = (tuple(range(parts)),)
    history: tuple[RoundResult, ...] = ()
    while (turn := next_round(rules, everyone, history)) is not None:
        history = (*history, run(case, turn, lost, generator))
    return conclude(rules, everyone, history), bad, lost


def run(case: Case, turn: Round, lost: Floats, generator: np.random.Generator) -> RoundResult:
    """What a round gives."""
    one, other = np.array(turn.pairs).T
    count = len(one)
    stalled = 1 + (generator.random(count) < case.stalls) * generator.random(count)
    spread = np.exp(generator.normal(0, case.noise, (2, count)))
    wide = _WIDE_NS / (1 - lost[one, other]) * spread * stalled
    late, quick = (_SMALL_NS * np.exp(generator.normal(0, noise, count)) for noise in _SMALL_NOISE.values())
    columns = (turn.pairs, *wide.tolist(), (late * stalled).tolist(), quick.tolist())
    tests = (
        PairTest(
            *pair,
            {BANDWIDTH: ((there,), (back,)), LATENCY: ((mean,), (mean,)), QUICKEST: ((best,), (best,))},
        )
        for pair, there, back, mean, best in zip(*columns, strict=True)
    )
    return RoundResult(turn, tuple(tests))


def trial(work: tuple[int, int, int]) -> tuple[int, ...]:
    """Numbers of one hunt: rounds; parts named that are slow, and others; paths named that are, and others;
    and whether it was healthy, slow, undecided; and undecided with groups named.
    """
    number, parts, seed = work
    verdict, bad, lost = hunt(CASES[number], parts, seed)
    of_parts = [part for each in verdict.suspects if not each.beyond for part in each.parts]
    paths = [each for each in (*verdict.suspects, *verdict.open) if each.beyond]
    right = sum(bool(lost[np.ix_(each.parts, each.beyond)].min() > 0) for each in paths)
    decided = [verdict.decision is each for each in (Decision.HEALTHY, Decision.SLOW, Decision.UNDECIDED)]
    counts = (
        verdict.rounds,
        sum(part in bad for part in of_parts),
        sum(part not in bad for part in of_parts),
    )
    return (*counts, right, len(paths) - right, *map(int, decided), len(bad), int(right > 0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hunts", type=int, default=300, help="a case")
    parser.add_argument("--parts", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--cases", default="", help="only those whose name this pattern finds")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    heads = "case | healthy | slow | undecided | slow parts named | paths named in | others accused"
    print(f"| N | {heads} | rounds (median, most) | ms a hunt |")
    print(f"|{'---|' * 10}")
    for parts in options.parts:
        for number, case in enumerate(CASES):
            if re.search(options.cases, case.name):
                start_s = time.monotonic()
                work = [(number, parts, seed) for seed in range(options.hunts)]
                with Pool(options.processes) as pool:
                    found = np.array(pool.map(trial, work, chunksize=max(1, math.ceil(options.hunts / 20))))
                cost_ms = 1e3 * (time.monotonic() - start_s) * options.processes / options.hunts
                print(f"| {parts} | {case.name} | {row(found)} | {cost_ms:.0f} |", flush=True)


def row(found: npt.NDArray[np.int64]) -> str:
    """One case in words."""
    rounds, named, wrong, _, wrong_paths, *decided, bad, with_paths = found.T
    recall = f"{named.sum()} of {bad.sum()}" if bad.sum() else "-"
    cells = [*(str(each.sum()) for each in decided), recall, str(with_paths.sum())]
    cells += [f"{wrong.sum()} parts, {wrong_paths.sum()} paths"]
    return " | ".join([*cells, f"{np.median(rounds):.0f}, {rounds.max()}"])


if __name__ == "__main__":
    main()
