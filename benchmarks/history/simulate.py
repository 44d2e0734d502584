"""How often are changes of level invented, missed and explained wrongly?

Series of launches go one by one through the very function that a run's end calls
(``judge.levels.changes_of``). No time is measured, so load does not matter.

    python benchmarks/history/simulate.py [--points 10000] [--series 400]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.judge.levels import changes_of
from busbw.judge.references.load import built_in
from busbw.model.history import Change, Launch, Point, Testbed

Float64Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Float64Array]
SEED: Final = 20_261
SCATTER: Final = 0.02
SHIFT: Final = 0.05
AFTER: Final = 14  # launches after a shift
BEFORE: Final = (15, 30, 60, 100)


def independent(rng: np.random.Generator, count: int) -> Float64Array:
    return rng.normal(0.0, SCATTER, count)


def autoregressive(phi: float, rng: np.random.Generator, count: int) -> Float64Array:
    """Of the same standard deviation."""
    steps = independent(rng, count) * math.sqrt(1 - phi * phi)
    found = np.empty(count)
    found[0] = steps[0] / math.sqrt(1 - phi * phi)
    for at in range(1, count):
        found[at] = phi * found[at - 1] + steps[at]
    return found


def with_outliers(share: float, rng: np.random.Generator, count: int) -> Float64Array:
    """That share of the launches is slower by 10 % and more, 30 % on average."""
    slow = 0.1 + rng.exponential(0.2, count)
    return independent(rng, count) + np.where(rng.random(count) < share, slow, 0.0)


def two_levels(stays: tuple[float, float], rng: np.random.Generator, count: int) -> Float64Array:
    """30 % apart, with a mean stay of so many launches on each."""
    found, level = np.empty(count), 0
    for at in range(count):
        found[at] = 0.3 * level
        level ^= int(rng.random() < 1 / stays[level])
    return found + independent(rng, count) / 4


def drifting(rng: np.random.Generator, count: int) -> Float64Array:
    """10 % over the whole series."""
    return independent(rng, count) + np.linspace(0.0, 0.1, count)


HEALTHY: Final[Mapping[str, Draw]] = {
    "independent": independent,
    "AR(1) 0.5": partial(autoregressive, 0.5),
    "outliers, 2 %": partial(with_outliers, 0.02),
    "outliers, 5 %": partial(with_outliers, 0.05),
    "two levels, stays 3 and 3": partial(two_levels, (3, 3)),
    "two levels, stays 3 and 2": partial(two_levels, (3, 2)),
    "two levels, stays 3 and 1": partial(two_levels, (3, 1)),
    "two levels, stays 1 and 3": partial(two_levels, (1, 3)),
    "two levels, stays 2 and 2": partial(two_levels, (2, 2)),
    "drift": drifting,
}


def found_in(logs: Float64Array, explains: Sequence[Mapping[str, str]] | None = None) -> list[Change]:
    """The changes that launches show; each ``at`` and ``found`` is a launch's place."""
    points = [Point(at, at, math.exp(log)) for at, log in enumerate(logs)]
    bed = Testbed("", {}, {})

    def launches(numbers: Sequence[int]) -> Mapping[int, Launch]:
        return {
            number: Launch("", "", bed, "", {}, explains[number] if explains is not None else {"version": ""})
            for number in numbers
        }

    return changes_of(points, (), 0, launches)


def shifted(before: int, after: int, rng: np.random.Generator) -> Float64Array:
    logs = independent(rng, before + after)
    logs[before:] += SHIFT
    return logs


def with_versions(before: int, count: int, rng: np.random.Generator) -> list[dict[str, str]]:
    """The library changes with the shift, the driver at any other launch, and the nodes with each."""
    driver = int(rng.choice([at for at in range(1, count) if at != before]))
    return [
        {
            "version": "2.28" if at >= before else "2.27",
            "driver": "570" if at >= driver else "560",
            "nodes": f"node{rng.integers(100)}, node{rng.integers(100)}",
        }
        for at in range(count)
    ]


def print_healthy(points: int) -> None:
    print("| healthy series | alarms in 1,000 launches |\n|---|---|")
    for name, draw in HEALTHY.items():
        alarms = len(found_in(draw(np.random.default_rng(SEED), points)))
        print(f"| {name} | {1000 * alarms / points:.2f} |", flush=True)


def print_real() -> None:
    """The launches behind the curves of 4 x H200 that come with busbw, ten a size: about the mean of their
    size, one size behind the other, for ten launches are too few for a series of their own.
    """
    print("\n| real launches (4 x H200, ten a size) | launches | deviation | alarms |\n|---|---|---|---|")
    for reference in built_in():
        points = [point for point in reference.points if len(point.times_us) >= 10]
        if points:
            logs = [np.log(point.times_us) for point in points]
            series = np.concatenate([own - own.mean() for own in logs])
            alarms = len(found_in(series))
            print(f"| {reference.name} | {len(series)} | {series.std():.1%} | {alarms} |", flush=True)


def print_shifted(series: int) -> None:
    print("\n| launches before | found within 3 | within 6 | more than one alarm | false before |"
          "\n|---|---|---|---|---|")  # fmt: skip
    for before in BEFORE:
        rng = np.random.default_rng(SEED + before)
        found = [found_in(shifted(before, AFTER, rng)) for _ in range(series)]
        waits = [[each.found - before + 1 for each in own if each.found >= before] for own in found]
        within = [sum(bool(own) and own[0] <= most for own in waits) / series for most in (3, 6)]
        more = sum(len(own) > 1 for own in waits) / series
        early = sum(any(each.found < before for each in own) for own in found) / series
        print(f"| {before} | {within[0]:.3f} | {within[1]:.3f} | {more:.3f} | {early:.3f} |", flush=True)


def print_explained(series: int) -> None:
    print("\n| launches after | changes | the one version that changed there is named, alone | among others |"
          "\n|---|---|---|---|")  # fmt: skip
    right = "version 2.27 -> 2.28"
    for after in (3, 6, AFTER):
        rng = np.random.default_rng(SEED - after)
        named = []
        for _ in range(series):
            logs, explains = shifted(60, after, rng), with_versions(60, 60 + after, rng)
            own = [each for each in found_in(logs, explains) if each.found >= 60]
            named += [each.explained for each in own[:1]]
        alone = sum(each == (right,) for each in named) / max(len(named), 1)
        among = sum(right in each for each in named) / max(len(named), 1) - alone
        print(f"| {after} | {len(named)} | {alone:.3f} | {among:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--series", type=int, default=400)
    options = parser.parse_args()
    print_healthy(options.points)
    print_real()
    print_shifted(options.series)
    print_explained(options.series)


if __name__ == "__main__":
    main()
