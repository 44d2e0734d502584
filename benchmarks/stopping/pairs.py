"""How often does the interval of one run hold the median of another run of the same process?

Nine passes of a call of 6 us, as ``busbw run`` takes them, with the interval that it prints and with wider
ones; also with passes three times as far apart.

    python benchmarks/stopping/pairs.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from simulate import SEED, Draw, autoregressive, independent, two_levels

from busbw.stats import passes
from busbw.stats.interval import LOOK_CONFIDENCE, median_ranks
from busbw.stats.stopping import FLOOR_SHARE, SMALL_PASSES

CALL_NS, TARGET, SAMPLES, GAP = 6e3, 0.025, 10, 1500
Between = Callable[[Sequence[float], float, float], tuple[float, float]]


def wandering(spread: float, samples: int) -> Draw:
    """A level that forgets itself in so many samples, beside noise of 2 %."""
    level = autoregressive(1 - 1 / samples, spread)
    return lambda random, count: level(random, count) * independent(0.02)(random, count)


PROCESSES: dict[str, Draw] = {
    "independent, 5 %": independent(0.05),
    "AR(1) 0.97, 3 %": autoregressive(0.97, 0.03),
    "wanders by 3 % in 300 samples": wandering(0.03, 300),
    "wanders by 3 % in 1,500 samples": wandering(0.03, 1500),
    "wanders by 6 % in 1,500 samples": wandering(0.06, 1500),
    "two levels 60%, stay 500": two_levels(0.6, 500),
}


def ranks(medians: Sequence[float], *_: float) -> tuple[float, float]:
    """What is printed: the second to the eighth of nine."""
    first, last = median_ranks(len(medians), passes.BETWEEN_CONFIDENCE)
    return medians[first], medians[last]


def student(medians: Sequence[float], mean: float, scatter: float) -> tuple[float, float]:
    """Student's t at 98 %, which is 90 % for the difference of two."""
    half = 2.896 * scatter / np.sqrt(len(medians))
    return mean - half, mean + half


def hull(medians: Sequence[float], *_: float) -> tuple[float, float]:
    """All medians: one slow moment in nine passes is the interval then."""
    return medians[0], medians[-1]


def taken(draw: Draw, runs: int, gap: int) -> list[list[passes.Float64Array]]:
    random = np.random.default_rng(SEED)
    step = SAMPLES + gap
    series = (draw(random, SMALL_PASSES * step) * CALL_NS for _ in range(runs))
    return [[each[at : at + SAMPLES] for at in range(0, len(each), step)] for each in series]


def cell(made: Sequence[Sequence[passes.Float64Array]], between: Between) -> str:
    """The share of pairs in which one holds the other's median, and the median half-width."""
    before, passes._of_medians = passes._of_medians, between
    found = [passes.estimate_over(each, LOOK_CONFIDENCE) for each in made]
    passes._of_medians = before
    found = [passes.no_narrower(each, FLOOR_SHARE * TARGET) for each in found]
    low, middle, high = np.array([(each.low, each.median, each.high) for each in found]).T
    holds = (low[:, None] <= middle) & (middle <= high[:, None])
    share = (holds.sum() - len(found)) / (len(found) * (len(found) - 1))
    return f"{share:.2f}, +-{float(np.median((high - low) / 2 / middle)):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    print("| process | printed | Student's t, 98 % | all passes | printed, three times as far apart |")
    print("|---|---|---|---|---|")
    for name, draw in PROCESSES.items():
        near, far = (taken(draw, options.runs, gap) for gap in (GAP, 3 * GAP))
        cells = [cell(near, between) for between in (ranks, student, hull)]
        print(f"| {' | '.join((name, *cells, cell(far, ranks)))} |", flush=True)


if __name__ == "__main__":
    main()
