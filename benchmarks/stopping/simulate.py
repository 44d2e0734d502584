"""Does the interval that a case is printed with hold the true median, and what does it cost in samples?

Series of six kinds of noise with a known median go through the very function that ranks judge a look by, and,
for contrast, through two usual rules: 20 samples with the mean +- t, and looking after every sample until a
plain 95 % interval of the median is narrow enough. The target is +-1 %, the cap 2000 samples. Two more
tables: series that start slower than they go on, and intervals of a fixed number of samples (-n).

    python benchmarks/stopping/simulate.py
"""

from __future__ import annotations

import argparse
import math
import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats.interval import estimate, least_samples, median_ranks
from busbw.stats.launches import student_quantile
from busbw.stats.stopping import decide, judge_look, next_look, reported_confidence
from busbw.stats.verdict import UNSTABLE, judge

Float64Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Float64Array]

CAP: Final = 2000
TARGET: Final = 0.01
SEED: Final = 20_261
LEVEL_NS: Final = 1e6  # far above Limits.small_ns, where the target is another
LIMITS: Final = Limits(precision=TARGET, max_samples=CAP, case_seconds=math.inf)


@dataclass(frozen=True)
class Noise:
    """A kind of noise: ``draw`` gives runs x samples with the true median ``median``."""

    name: str
    median: float
    draw: Draw


def independent(spread: float) -> Draw:
    return lambda random, runs, samples: np.exp(spread * random.normal(size=(runs, samples)))


def normal(random: np.random.Generator, runs: int, samples: int) -> Float64Array:
    return random.normal(1.0, 0.005, (runs, samples))


def autoregressive(rho: float, spread: float) -> Draw:
    """Each sample's logarithm is rho x that of the one before, plus noise that keeps the spread."""

    def draw(random: np.random.Generator, runs: int, samples: int) -> Float64Array:
        steps = random.normal(size=(samples, runs))
        steps[1:] *= math.sqrt(1 - rho * rho)
        for i in range(1, samples):
            steps[i] += rho * steps[i - 1]
        return np.ascontiguousarray(np.exp(spread * steps).T)

    return draw


def mixture(share: float, factor: float, spread: float) -> Draw:
    """Lognormal noise, of which ``share`` is ``factor`` times as slow."""

    def draw(random: np.random.Generator, runs: int, samples: int) -> Float64Array:
        slow = random.random((runs, samples)) < share
        return np.where(slow, factor, 1.0) * independent(spread)(random, runs, samples)

    return draw


def mixture_median(share: float, spread: float) -> float:
    """Of a mixture whose slow part lies wholly above it: the fast part's 0.5 / (1 - share) quantile."""
    return math.exp(spread * NormalDist().inv_cdf(0.5 / (1 - share)))


NOISES: Final = (
    Noise("normal, CV 0.5 %", 1.0, normal),
    Noise("lognormal, 3 %", 1.0, independent(0.03)),
    Noise("AR(1) 0.6, 3 %", 1.0, autoregressive(0.6, 0.03)),
    Noise("AR(1) 0.9, 3 %", 1.0, autoregressive(0.9, 0.03)),
    Noise("1 %, 2 % spikes x 10", mixture_median(0.02, 0.01), mixture(0.02, 10.0, 0.01)),
    Noise("1 %, two modes 70/30, 8 % apart", mixture_median(0.3, 0.01), mixture(0.3, 1.08, 0.01)),
)


def step(samples: int) -> Float64Array:
    """A start that is 20 % slower, and then is not."""
    return np.where(np.arange(CAP) < samples, 1.2, 1.0)


def decay(samples: int) -> Float64Array:
    """A start that is 60 % slower at first and 8 % after ``samples``."""
    return 1 + 0.6 * np.exp(-np.arange(CAP) / (samples / 2))


def with_start(noise: Noise, name: str, factors: Float64Array) -> Noise:
    """``noise`` with a warm-up: its first samples are slower by ``factors``."""
    return replace(
        noise,
        name=f"{noise.name}; {name}",
        draw=lambda random, runs, samples: noise.draw(random, runs, samples) * factors[:samples],
    )


STARTS: Final = tuple(
    with_start(noise, f"first {samples} {how.__name__}", how(samples))
    for noise in (NOISES[1], NOISES[2])
    for samples in (5, 15, 30)
    for how in (step, decay)
)
FIXED: Final = (8, 20, 50, 200)


@dataclass(frozen=True)
class Outcome:
    """One run under one rule: what it cost, what it said, and whether it reached the target. ``settling``
    leading samples were taken for warm-up. ``shown`` is False where a report has no interval.
    """

    samples: int
    centre: float
    low: float
    high: float
    reached: bool
    unstable: bool = False
    settling: int = 0
    shown: bool = True


def busbw_rule(series: Float64Array) -> Outcome:
    """As ``worker.measure`` samples a case, and ``worker.summarize`` reports it."""
    samples, times_ns = next_look(0), series * LEVEL_NS
    while (judged := judge_look(times_ns[:samples], samples, 0.0, LIMITS)).stop is None:
        samples = min(next_look(samples), CAP)
    return outcome(times_ns[:samples], judged.settling, judged.stop)


def uncut_rule(series: Float64Array) -> Outcome:
    """The same without looking for a warm-up."""
    samples, times_ns = next_look(0), series * LEVEL_NS
    while (stop := decide(times_ns[:samples], 0.0, LIMITS)) is None:
        samples = min(next_look(samples), CAP)
    return outcome(times_ns[:samples], 0, stop)


def outcome(times_ns: Float64Array, settling: int, stop: StopReason) -> Outcome:
    kept = times_ns[settling:]
    result = estimate(kept, reported_confidence(stop))
    unstable = UNSTABLE in judge(kept, TARGET).marks
    low, centre, high = (value / LEVEL_NS for value in (result.low, result.median, result.high))
    reached = stop is StopReason.PRECISION
    return Outcome(len(times_ns), centre, low, high, reached, unstable, settling, result.attained)


def given_rule(samples: int) -> Callable[[Float64Array], Outcome]:
    """``-n``, with one call a sample."""
    limits = replace(LIMITS, calls=samples)

    def rule(series: Float64Array) -> Outcome:
        times_ns = series[:samples] * LEVEL_NS
        judged = judge_look(times_ns, samples, 0.0, limits)
        assert judged.stop is StopReason.CALLS
        return outcome(times_ns, judged.settling, judged.stop)

    return rule


def peeking_rule(series: Float64Array) -> Outcome:
    """Look after every sample; stop at the first plain 95 % interval of the median that is narrow enough."""
    ordered: list[float] = []
    samples = least_samples(0.95)
    for value in series[: samples - 1].tolist():
        insort(ordered, value)
    while True:
        insort(ordered, float(series[samples - 1]))
        low, high = median_ranks(samples, 0.95)
        centre = (ordered[(samples - 1) // 2] + ordered[samples // 2]) / 2
        reached = (ordered[high] - ordered[low]) / 2 <= TARGET * centre
        if reached or samples == CAP:
            return Outcome(samples, centre, ordered[low], ordered[high], reached)
        samples += 1


def fixed_rule(series: Float64Array) -> Outcome:
    mean, error = float(series[:20].mean()), float(series[:20].std(ddof=1)) / math.sqrt(20)
    half = student_quantile(0.975, 19) * error
    return Outcome(20, mean, mean - half, mean + half, half <= TARGET * mean)


RULES: Final[dict[str, Callable[[Float64Array], Outcome]]] = {
    "busbw": busbw_rule,
    "peeking": peeking_rule,
    "fixed 20": fixed_rule,
}
ALL_RULES: Final[dict[str, Callable[[Float64Array], Outcome]]] = {
    **RULES,
    "uncut": uncut_rule,
    **{f"-n {samples}": given_rule(samples) for samples in FIXED},
}


@dataclass(frozen=True)
class Summary:
    """Many runs of one noise under one rule; shares of all runs unless the name says otherwise.

    ``coverage_stable`` is the coverage of the runs that were not marked unstable, ``coverage_shown`` of those
    that have an interval in a report; NaN where there are none. ``cut`` is the share that lost leading
    samples as warm-up, ``settling`` how many samples these lost on average.
    """

    runs: int
    samples: float
    coverage: float
    within: float
    reached: float
    unstable: float
    coverage_stable: float
    shown: float
    coverage_shown: float
    cut: float
    settling: float

    def monte_carlo_margin(self, coverage: float) -> float:
        """Two standard errors of a coverage that was simulated so often."""
        return 2 * math.sqrt(coverage * (1 - coverage) / self.runs)


def simulate(noise: Noise, rule: str, runs: int, seed: int = SEED) -> Summary:
    """Run ``rule`` over ``runs`` series of ``noise``. The same seed gives every rule the same series."""
    series = noise.draw(np.random.default_rng(seed), runs, CAP)
    outcomes = [ALL_RULES[rule](row) for row in series]
    covered = np.array([outcome.low <= noise.median <= outcome.high for outcome in outcomes])
    unstable = np.array([outcome.unstable for outcome in outcomes])
    shown = np.array([outcome.shown for outcome in outcomes])
    settling = np.array([outcome.settling for outcome in outcomes])
    return Summary(
        runs=runs,
        samples=float(np.mean([outcome.samples for outcome in outcomes])),
        coverage=_mean(covered),
        within=float(np.mean([abs(o.centre / noise.median - 1) <= TARGET for o in outcomes])),
        reached=float(np.mean([outcome.reached for outcome in outcomes])),
        unstable=_mean(unstable),
        coverage_stable=_mean(covered[~unstable]),
        shown=_mean(shown),
        coverage_shown=_mean(covered[shown]),
        cut=_mean(settling > 0),
        settling=_mean(settling[settling > 0]),
    )


def _mean(values: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else math.nan


def print_rules(runs: int, seed: int) -> None:
    print("samples / coverage of the true median / median or mean within 1 % of it\n")
    _head("noise", *RULES, "reached the target", "unstable", "coverage of the others", "cut")
    for noise in NOISES:
        rows = {rule: simulate(noise, rule, runs, seed) for rule in RULES}
        cells = [f"{row.samples:.0f} / {row.coverage:.3f} / {row.within:.3f}" for row in rows.values()]
        ours = rows["busbw"]
        cells += [f"{share:.3f}" for share in (ours.reached, ours.unstable, ours.coverage_stable)]
        _row(noise.name, *cells, f"{ours.cut:.4f}")


def print_starts(runs: int, seed: int) -> None:
    print("\nsamples / coverage of the settled median / median within 1 % of it\n")
    _head("noise and start", "busbw", "without the cut", "cut", "samples cut")
    for noise in STARTS:
        ours, uncut = simulate(noise, "busbw", runs, seed), simulate(noise, "uncut", runs, seed)
        cells = [f"{row.samples:.0f} / {row.coverage:.3f} / {row.within:.3f}" for row in (ours, uncut)]
        _row(noise.name, *cells, f"{ours.cut:.3f}", f"{ours.settling:.1f}")


def print_fixed(runs: int, seed: int) -> None:
    print("\ncoverage of the true median by all intervals / by those shown / share that is shown\n")
    _head("noise", *(f"{samples} samples" for samples in FIXED))
    for noise in NOISES:
        rows = [simulate(noise, f"-n {samples}", runs, seed) for samples in FIXED]
        cells = [f"{row.coverage:.3f} / {row.coverage_shown:.3f} / {row.shown:.3f}" for row in rows]
        _row(noise.name, *cells)


def _head(*names: str) -> None:
    _row(*names)
    print("|" + "---|" * len(names))


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    print(f"{options.runs} runs, seed {options.seed}, numpy {np.__version__}")
    start = time.monotonic()
    print_rules(options.runs, options.seed)
    print_starts(options.runs, options.seed)
    print_fixed(options.runs, options.seed)
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
