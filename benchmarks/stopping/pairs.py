"""How often does the interval of one run hold the median of another run of the same process?

Nine passes of a call of 6 us, as ``busbw run`` takes them, with the interval that it prints and with wider
ones; as one of CASES short cases of a window, whose levels are the same; and with passes further apart.

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
CASES = 34  # 8 B to 512 KiB, both placements
Run = list[list[passes.Float64Array]]  # the passes of each case
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


def taken(draw: Draw, runs: int, gap: int, cases: int = 1, samples: int = SAMPLES) -> list[Run]:
    """Runs of so many cases, which are visited in turn, for so many samples, while one process runs on."""
    random = np.random.default_rng(SEED)
    step = samples + gap
    series = (draw(random, SMALL_PASSES * step) * CALL_NS for _ in range(runs))
    return [
        [
            [each[at : at + samples] for at in range(number * step // cases, len(each), step)]
            for number in range(cases)
        ]
        for each in series
    ]


def intervals(run: Run) -> list[tuple[float, float, float]]:
    """Low, median and high of each case."""
    reach, half_width = passes.range_of(run), FLOOR_SHARE * TARGET
    found = [passes.estimate_over(each, LOOK_CONFIDENCE) for each in run]
    found = [passes.no_narrower(each, 1 - half_width, 1 + half_width) for each in found]
    found = [passes.no_narrower(each, *reach) for each in found]
    return [(each.low, each.median, each.high) for each in found]


def cell(made: Sequence[Run], between: Between) -> str:
    """The share of pairs in which one holds the other's median, and the median half-width."""
    before, passes._of_medians = passes._of_medians, between
    low, middle, high = np.moveaxis(np.array([intervals(run) for run in made]), -1, 0)
    passes._of_medians = before
    holds = (low[:, None] <= middle) & (middle <= high[:, None])
    share = (holds.sum() - middle.size) / (middle.size * (len(made) - 1))
    return f"{share:.2f}, +-{float(np.median((high - low) / 2 / middle)):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    columns = ("alone", "Student's t, 98 %", "all passes", "three times as far apart", f"of {CASES} cases")
    print(f"| process | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    for name, draw in PROCESSES.items():
        near, far = (taken(draw, options.runs, gap) for gap in (GAP, 3 * GAP))
        cells = [cell(near, between) for between in (ranks, student, hull)]
        together = cell(taken(draw, options.runs, GAP, CASES, passes.PASS_LOOK), ranks)
        print(f"| {' | '.join((name, *cells, cell(far, ranks), together))} |", flush=True)


if __name__ == "__main__":
    main()
