"""What a soak's rule of levels finds and invents, in simulated windows: false alarms of 8 hours, and
whether a loss is seen as often as the soak says. No time is measured, so load does not matter.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from busbw.stats.levels import BLIND, LevelWatch

WINDOWS_OF_8_H = 2880  # of 10 s
LOSS = 0.05
PROBABILITY = 0.95

Series = Callable[[np.random.Generator, int], np.ndarray]


def normal(scatter: float) -> Series:
    return lambda random, count: random.normal(0, scatter, count)


def autoregressive(random: np.random.Generator, count: int) -> np.ndarray:
    """AR .5, deviation 1 %."""
    steps = random.normal(0, 0.01 * math.sqrt(0.75), count)
    steps[0] /= math.sqrt(0.75)
    for place in range(1, count):
        steps[place] += 0.5 * steps[place - 1]
    return steps


def outliers(random: np.random.Generator, count: int) -> np.ndarray:
    """1 %, and one window in 20 is slower by 20 % on average."""
    far = random.exponential(0.2, count) * (random.random(count) < 0.05)
    return random.normal(0, 0.01, count) + far


def heavy(random: np.random.Generator, count: int) -> np.ndarray:
    """Student's t with 2 degrees, scale 1 %."""
    return 0.01 * random.standard_t(2, count)


def two_levels(random: np.random.Generator, count: int) -> np.ndarray:
    """5 % apart, each for 3 windows on average."""
    level = np.cumsum(random.random(count) < 1 / 3) % 2
    return 0.05 * level + random.normal(0, 0.005, count)


SHAPES: dict[str, Series] = {
    "normal, 1 %": normal(0.01),
    "normal, 3 %": normal(0.03),
    "AR .5, 1 %": autoregressive,
    "outliers": outliers,
    "t with 2 degrees": heavy,
    "two levels": two_levels,
}


def alarms(values: np.ndarray) -> int:
    """Changes that a soak of these windows reports."""
    watch = LevelWatch()
    found = (watch.add(float(value)) for value in values)
    return sum(change is not None and change.last is None for change in found)


def seen(values: np.ndarray, random: np.random.Generator, windows: int) -> bool:
    """Whether a loss is reported that begins anywhere in a window and lasts as long as ``windows``."""
    begin = float(random.uniform(BLIND, len(values) - windows - 2))
    place = np.arange(len(values))
    overlap = np.minimum(place + 1, begin + windows) - np.maximum(place, begin)
    lossy = values - math.log1p(-LOSS) * (overlap > 0.5)  # a window's median moves where half of it did
    watch = LevelWatch()
    for number, value in enumerate(lossy[: math.ceil(begin + windows)]):
        change = watch.add(float(value))
        if change is not None and change.after > change.before and number >= int(begin):
            return True
    return False


def plant(values: np.ndarray, random: np.random.Generator) -> tuple[int | None, bool]:
    """What a soak of these windows says of a loss of 5 %, and whether such a loss in it would be seen."""
    watch = LevelWatch()
    for value in values:
        watch.add(float(value))
    windows = watch.shortest(LOSS, PROBABILITY)
    return windows, windows is not None and seen(values, random, windows)


def interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson, 95 %."""
    share, z = hits / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soaks", type=int, default=40, help="of 8 hours, a shape")
    parser.add_argument("--plants", type=int, default=200, help="losses of 5 %%, a shape")
    parser.add_argument("--windows", type=int, default=300, help="of a soak in which a loss is planted")
    parser.add_argument("--length", type=int, default=WINDOWS_OF_8_H, help="windows of a soak without a loss")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    print(f"## False alarms ({asked.soaks} soaks of {asked.length} windows a row, seed {asked.seed})\n")
    print("| windows | a soak | most |\n|---|---|---|")
    for name, series in SHAPES.items():
        found = [alarms(series(random, asked.length)) for _ in range(asked.soaks)]
        print(f"| {name} | {np.mean(found):.2f} | {max(found)} |", flush=True)
    print(f"\n## A loss of 5 % in {asked.windows} windows ({asked.plants} soaks a row)\n")
    print("| windows | said: windows for 0.95 | seen | 95 % interval |\n|---|---|---|---|")
    for name, series in SHAPES.items():
        planted = [plant(series(random, asked.windows), random) for _ in range(asked.plants)]
        said = [windows for windows, _ in planted if windows is not None]
        if not said:
            print(f"| {name} | none | | |", flush=True)
            continue
        hits = sum(found for windows, found in planted if windows is not None)
        low, high = interval(hits, len(said))
        lengths = f"{min(said)} to {max(said)}, {len(said)} soaks"
        print(f"| {name} | {lengths} | {hits / len(said):.3f} | {low:.3f} to {high:.3f} |", flush=True)


if __name__ == "__main__":
    main()
