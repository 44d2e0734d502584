"""Does the interval that a case is printed with hold the true median, and what does it cost in samples?

Processes that networks show (noise, noise that wanders, levels that switch, drift, a shift) run on while a
case is sampled in passes, through the very functions that ranks call, for both targets: 1 % of a call of
1 ms, and 2.5 % below 50 us. Between passes GAP samples go by unseen. The truth is the stationary median, for
drift and shift the median over the time from the first pass to the last.

    python benchmarks/stopping/simulate.py
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import LOOK_CONFIDENCE, estimate
from busbw.stats.passes import estimate_over, no_narrower
from busbw.stats.stopping import (
    FIRST_LOOK,
    FIXED_CONFIDENCE,
    SMALL_PASSES,
    floor,
    judge_look,
    next_look,
    of_pass,
    over_passes,
    target,
    wanted_passes,
)
from busbw.stats.verdict import UNSTABLE, judge

Float64Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64Array]

SEED: Final = 20_261
GAP: Final = 1500  # samples that go by between two passes
LIMITS: Final = Limits(case_seconds=1e6)
CALL_NS: Final = {0.01: 1e6, 0.025: 6e3}  # a call whose target this is
FIXED: Final = (8, 20, 50, 200)


@dataclass(frozen=True)
class Process:
    """What times do: ``draw`` gives so many in a row; ``median`` is the stationary one, None where there is
    none, and ``target`` the half-width that is asked for.
    """

    name: str
    target: float
    median: float | None
    draw: Draw


def independent(spread: float) -> Draw:
    return lambda random, samples: np.exp(spread * random.normal(size=samples))


def autoregressive(rho: float, spread: float) -> Draw:
    """Each sample's logarithm is rho x that of the one before, plus noise that keeps the spread."""

    def draw(random: np.random.Generator, samples: int) -> Float64Array:
        steps = (random.normal(size=samples) * math.sqrt(1 - rho * rho)).tolist()
        value, logs = random.normal(), []
        for step in steps:
            value = rho * value + step
            logs.append(value)
        return np.exp(spread * np.array(logs))

    return draw


def two_levels(share: float, stay: int) -> Draw:
    """1 for ``share`` of the time and 1.5 for the rest, ``stay`` samples on average, with noise of 1 %."""

    def draw(random: np.random.Generator, samples: int) -> Float64Array:
        out, at, fast = np.empty(samples), 0, bool(random.random() < share)
        while at < samples:
            length = int(random.geometric(1 / (2 * stay * (share if fast else 1 - share))))
            out[at : at + length] = 1.0 if fast else 1.5
            at, fast = at + length, not fast
        return out * independent(0.01)(random, samples)

    return draw


def level_median(share: float) -> float:
    """Of two levels: the fast one's 0.5 / share quantile."""
    return math.exp(0.01 * NormalDist().inv_cdf(0.5 / share))


def drift(noise: float) -> Draw:
    return lambda random, samples: (1 + 2e-5 * np.arange(samples)) * independent(noise)(random, samples)


def shift(random: np.random.Generator, samples: int) -> Float64Array:
    return np.where(np.arange(samples) < 500, 1.0, 1.1) * independent(0.01)(random, samples)


def spiked(random: np.random.Generator, samples: int) -> Float64Array:
    return np.where(random.random(samples) < 0.02, 10.0, 1.0) * independent(0.01)(random, samples)


ANY_TIME: Final[tuple[tuple[str, float | None, Draw], ...]] = (
    ("independent, 1 %", 1.0, independent(0.01)),
    ("independent, 5 %", 1.0, independent(0.05)),
    ("independent, 30 %", 1.0, independent(0.3)),
    ("1 %, 2 % spikes x 10", math.exp(0.01 * NormalDist().inv_cdf(0.5 / 0.98)), spiked),
    ("AR(1) 0.9, 3 %", 1.0, autoregressive(0.9, 0.03)),
    ("AR(1) 0.97, 1 %", 1.0, autoregressive(0.97, 0.01)),
    ("AR(1) 0.97, 3 %", 1.0, autoregressive(0.97, 0.03)),
    ("drift 2 % in 1000, noise 1 %", None, drift(0.01)),
    ("drift 2 % in 1000, noise 5 %", None, drift(0.05)),
    ("shift of 10 % at sample 500, noise 1 %", None, shift),
)
LEVELS: Final = tuple(
    (f"two levels {share:.0%}, stay {stay}", level_median(share), two_levels(share, stay))
    for share, stay in ((0.6, 5), (0.6, 50), (0.6, 500), (0.75, 50), (0.75, 500))
)
PROCESSES: Final = (
    *(Process(name, 0.01, median, draw) for name, median, draw in ANY_TIME),
    *(Process(name, 0.025, median, draw) for name, median, draw in (*ANY_TIME, *LEVELS)),
)


@dataclass(frozen=True)
class Outcome:
    """One case: what it cost, whether its interval holds the truth, and whether it is marked: ``unstable``,
    or stopped by a limit.
    """

    samples: int
    covered: bool
    marked: bool
    unstable: bool


def sampled(process: Process, random: np.random.Generator) -> Outcome:
    """One case as ``rank.measure`` samples it and ``rank.summarize`` reports it."""
    call_ns = CALL_NS[process.target]
    series = process.draw(random, LIMITS.max_samples + SMALL_PASSES * (GAP + FIRST_LOOK)) * call_ns
    passes: list[Float64Array] = []
    stops: list[StopReason] = []
    start, wanted = 0, 1
    while len(passes) < wanted:
        samples, stop = 0, None
        while stop is None:
            samples = next_look(samples, wanted if passes else 2)
            times_ns = series[start : start + samples]
            wanted = wanted if passes else wanted_passes(LIMITS, float(np.median(times_ns)), call_ns)
            samples = min(samples, of_pass(LIMITS, wanted, float(np.median(times_ns))).max_samples)
            times_ns = times_ns[:samples]
            stop = judge_look(times_ns, samples, 0.0, LIMITS, wanted)
        passes.append(times_ns)
        stops.append(stop)
        end, start = start + samples, start + samples + GAP
    truth = float(np.median(series[:end])) if process.median is None else process.median * call_ns
    whole = estimate_over(passes, LOOK_CONFIDENCE)
    half_width = floor(LIMITS, whole.median, len(passes))
    whole = no_narrower(whole, 1 - half_width, 1 + half_width)
    limited = over_passes(stops, wanted, whole, LIMITS) is StopReason.MAX_SAMPLES
    unstable = UNSTABLE in judge(passes, target(LIMITS, whole.median)).marks
    return Outcome(sum(map(len, passes)), whole.low <= truth <= whole.high, unstable or limited, unstable)


@dataclass(frozen=True)
class Summary:
    """Many cases of one process; shares of all of them. ``missed``: not held, and no mark says so."""

    runs: int
    samples: float
    coverage: float
    missed: float
    marked: float
    unstable: float

    def margin(self, share: float) -> float:
        """Two standard errors of a share that was simulated so often."""
        return 2 * math.sqrt(share * (1 - share) / self.runs)


def simulate(process: Process, runs: int, seed: int = SEED) -> Summary:
    random = np.random.default_rng(seed)
    cases = [sampled(process, random) for _ in range(runs)]

    def share(of: Callable[[Outcome], bool]) -> float:
        return sum(map(of, cases)) / runs

    return Summary(
        runs,
        float(np.median([case.samples for case in cases])),
        share(lambda case: case.covered),
        share(lambda case: not case.covered and not case.marked),
        share(lambda case: case.marked),
        share(lambda case: case.unstable),
    )


def fixed(draw: Draw, median: float, samples: int, runs: int, seed: int = SEED) -> tuple[float, float]:
    """What -n gives, one pass at 95 %: the share of intervals that are shown, and of these that hold."""
    random = np.random.default_rng(seed)
    found = [estimate(draw(random, samples), FIXED_CONFIDENCE) for _ in range(runs)]
    shown = [each for each in found if each.attained]
    held = sum(each.low <= median <= each.high for each in shown)
    return len(shown) / runs, held / len(shown) if shown else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    print(f"{options.runs} runs, seed {options.seed}, numpy {np.__version__}\n")
    start = time.monotonic()
    _row("process", "target", "samples", "holds", "misses without a mark", "marked", "unstable")
    print("|" + "---|" * 7)
    for process in PROCESSES:
        row = simulate(process, options.runs, options.seed)
        shares = (row.coverage, row.missed, row.marked, row.unstable)
        _row(process.name, f"{process.target:.1%}", f"{row.samples:.0f}", *(f"{each:.3f}" for each in shares))
    print("\n-n: holds, of the intervals shown (share that is shown)\n")
    _row("process", *(f"{samples} samples" for samples in FIXED))
    print("|" + "---|" * (1 + len(FIXED)))
    for name, median, draw in ANY_TIME:
        if median is not None:
            cells = [fixed(draw, median, samples, options.runs, options.seed) for samples in FIXED]
            _row(name, *(f"{held:.3f} ({shown:.2f})" for shown, held in cells))
    print(f"\n{time.monotonic() - start:.0f} s")


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
