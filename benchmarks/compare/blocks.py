"""How often does `busbw compare` call equal things different, and find what differs?

    blocks.py [null, power or groups] [--trials 400]

Simulated launches of 20 sizes, so that the truth is known; every table comes from a fixed seed and goes
through the program's own rule. Needs no hardware.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from busbw.judge.compare import Comparison, Verdict, compare
from busbw.judge.compare_arms import Arm, CaseKey, Observed
from busbw.judge.scatter import Prior, Scatter, SizeClass

SCATTER = 0.02  # of a launch
SIZES = [1 << (20 + at) for at in range(20)]
DIFFERING = 5
GAIN = 0.10
BLOCKS = (3, 5, 8)
Draw = Callable[[random.Random], float]


def normal(draw: random.Random) -> float:
    return draw.gauss(0, 1)


def lognormal(draw: random.Random) -> float:
    """Skewed by 0.95 and in units of its deviation."""
    return (draw.lognormvariate(0, 0.3) - math.exp(0.045)) / 0.332


def heavy(draw: random.Random) -> float:
    """Student's t with 2 degrees: it has no deviation; half of all values are as near as a normal's."""
    return draw.gauss(0, 1) / math.sqrt(draw.expovariate(1)) * 0.826


def two_levels(draw: random.Random) -> float:
    """60 % of the launches at one level, 40 % at another, 20 deviations above (6 and 9 us at 2 %)."""
    return draw.gauss(0, 1) + (20.3 if draw.random() < 0.4 else 0.0)


LAWS: dict[str, Draw] = {"normal": normal, "lognormal": lognormal, "t(2)": heavy, "two levels": two_levels}


@dataclass(frozen=True)
class Machine:
    """``prior`` is what is thought of its launches; ``shared``: how much of a launch's oddness is that of all
    its sizes; ``walk``: drift from launch to launch, relative.
    """

    law: Draw = normal
    prior: float = SCATTER
    shared: float = 0.0
    walk: float = 0.0
    known: int = 12  # launches that the prior is from; 0: a default

    def launches(self, draw: random.Random, blocks: int, gains: list[float], *, pairs: bool) -> list[Arm]:
        """Two arms: in turn, or the first all before the second."""
        count, level, drifts = 2 * blocks, 0.0, []
        for _ in range(count):
            level += draw.gauss(0, self.walk)
            drifts.append(level)
        order = [0, 1] * blocks if pairs else [0] * blocks + [1] * blocks
        times: list[list[list[float]]] = [[[] for _ in SIZES] for _ in range(2)]
        for side, drift in zip(order, drifts, strict=True):
            together = self.law(draw)
            for at in range(len(SIZES)):
                own = math.sqrt(1 - self.shared) * self.law(draw) + math.sqrt(self.shared) * together
                shift = gains[at] if side else 0.0
                times[side][at].append(1e6 * math.exp(SCATTER * own + drift - shift))
        return [_arm(name, own, pairs=pairs) for name, own in zip("ab", times, strict=True)]

    def compare(self, draw: random.Random, blocks: int, gains: list[float], *, pairs: bool) -> Comparison:
        prior = Prior(True, {("", SizeClass.LARGE): Scatter(self.prior, self.known)})
        return compare(self.launches(draw, blocks, gains, pairs=pairs), prior=prior)


def _arm(name: str, times: list[list[float]], *, pairs: bool) -> Arm:
    cases = {
        CaseKey("all_reduce", "float", "sum", -1, "out-of-place", size): Observed(
            tuple(own), tuple(range(len(own))) if pairs else ()
        )
        for size, own in zip(SIZES, times, strict=True)
    }
    return Arm(name, 2, 1, "", "", {"backend": "nccl"}, cases, "series" if pairs else "")


NONE = [0.0] * len(SIZES)
SOME = [math.log1p(GAIN) if at < DIFFERING else 0.0 for at in range(len(SIZES))]
MACHINES = {
    **{f"{name}, scatter known": Machine(law) for name, law in LAWS.items()},
    "normal, sizes share half": Machine(shared=0.5),
    "normal, sizes share all": Machine(shared=1.0),
    **{f"{name}, prior 5 times too small": Machine(law, SCATTER / 5) for name, law in LAWS.items()},
    "normal, default 1 %": Machine(prior=0.01),
    "normal, prior 7 times too large": Machine(prior=0.15),
    "the same, sizes share all": Machine(prior=0.15, shared=1.0),
}


def _is_called(verdict: Verdict) -> bool:
    return verdict in (Verdict.FASTER, Verdict.SLOWER)


def null(trials: int) -> None:
    """Equal setups in blocks: tables of 20 sizes with any false verdict."""
    print("# null: tables of 20 equal sizes in which any is called FASTER or SLOWER; n blocks")
    print(f"{'launches':34}" + "".join(f"{n:>8}" for n in BLOCKS))
    for name, machine in MACHINES.items():
        draw = random.Random(1)
        cells = []
        for n in BLOCKS:
            found = (machine.compare(draw, n, NONE, pairs=True) for _ in range(trials))
            bad = sum(any(_is_called(row.verdict) for row in each.rows) for each in found)
            cells.append(f"{bad / trials:8.2%}")
        print(f"{name:34}" + "".join(cells))


def power(trials: int) -> None:
    """Some sizes differ: how many of them are called, and how many of those called do not differ."""
    print(f"# power: {GAIN:.0%} at {DIFFERING} of 20 sizes: share found / share of false ones; n blocks")
    print(f"{'launches':34}" + "".join(f"{n:>17}" for n in BLOCKS))
    for name, machine in MACHINES.items():
        draw = random.Random(2)
        cells = []
        for n in BLOCKS:
            true = called = 0
            for _ in range(trials):
                rows = machine.compare(draw, n, SOME, pairs=True).rows
                called += sum(_is_called(row.verdict) for row in rows)
                true += sum(row.verdict is Verdict.FASTER for row in rows[:DIFFERING])
            false = (called - true) / max(called, 1)
            cells.append(f"{true / trials / DIFFERING:8.1%} /{false:7.2%}")
        print(f"{name:34}" + "".join(cells))


def groups(trials: int) -> None:
    """Equal runs, one after the other, with 1 to 12 launches each: drift is in their ratio."""
    print("# groups: tables of equal runs with any false verdict; n launches each, one run after the other")
    counts = (1, 3, 5, 12)
    print(f"{'launches':34}" + "".join(f"{n:>8}" for n in counts))
    machines = {
        "scatter known": Machine(),
        "sizes share all": Machine(shared=1.0),
        "prior 5 times too small": Machine(prior=SCATTER / 5),
        "default 5 times too small": Machine(prior=SCATTER / 5, known=0),
        "default right": Machine(known=0),
        "drift of 0.5 % a launch": Machine(walk=0.005),
        "drift of 2 % a launch": Machine(walk=0.02),
    }
    for name, machine in machines.items():
        draw = random.Random(3)
        cells = []
        for n in counts:
            found = (machine.compare(draw, n, NONE, pairs=False) for _ in range(trials))
            bad = sum(any(_is_called(row.verdict) for row in each.rows) for each in found)
            cells.append(f"{bad / trials:8.2%}")
        print(f"{name:34}" + "".join(cells))


def main() -> None:
    """Print one table, or all."""
    tables = {"null": null, "power": power, "groups": groups}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", choices=tables, help="only this one")
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    for name, table in tables.items():
        if given.table in (None, name):
            table(given.trials)


if __name__ == "__main__":
    main()
