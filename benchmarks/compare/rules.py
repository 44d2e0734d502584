"""How often do the rules of ``busbw compare`` and ``busbw expect`` call what is not so, and find what is?

Simulated launches, so that the truth is known; every table comes from a fixed seed. Needs no hardware.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from busbw.analysis.compare_arms import CaseKey
from busbw.analysis.expectation import Answer, Judged, against
from busbw.references.reference import Point, Reference, value_at
from busbw.stats.launches import launch_interval
from busbw.stats.ratio import Ratio, more_blocks, paired_ratio, spread_ratio, unpaired_ratio

DELTA, Q = 0.02, 0.01
NEAR, FAR = math.log1p(DELTA / 2), math.log1p(DELTA)
# Of simulated references; what they are called does not matter.
SPEED, SIZE = 100.0, 1 << 20
KEY = CaseKey("all_reduce", "float", "sum", -1, "out-of-place", SIZE)
REFERENCE = Reference("known", "saved", 2, 1, "", "", "", ())


def main() -> None:
    """Print one table, or all."""
    tables = {"expect": expect, "false": false_answers, "modes": modes, "turn": turn, "more": more}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", choices=tables, help="only this one")
    parser.add_argument("--trials", type=int, default=2000)
    given = parser.parse_args()
    for name, table in tables.items():
        if given.table in (None, name):
            table(given.trials)


def expect(trials: int) -> None:
    """One case of one launch against a reference of several, by the run's true share of its speed."""
    print("# expect: share of cases that are expected / NOT EXPECTED / undecided, by the run's true speed")
    speeds = ("good run", "90 %", "80 %", "70 %", "50 %")
    print("scatter  launches  " + "".join(f"{word:<24}" for word in speeds))
    draw = random.Random(1)
    for spread in (0.005, 0.02, 0.05, 0.15):
        for known in (3, 5, 10, 20):
            cells = [
                _answers(lambda spread=spread: draw.gauss(0, spread), known, 1, trials, speed)
                for speed in (1.0, 0.9, 0.8, 0.7, 0.5)
            ]
            print(f"{spread:7.1%}  {known:8}  " + "  ".join(cells))


def false_answers(trials: int) -> None:
    """Good runs that are called NOT EXPECTED, where the scatter alone makes the bound: 50 times the trials,
    since they are few. A run of one launch has no interval of its own here.
    """
    print("# false: good runs, by launches of the run and of the reference; scatter 15 %; +- 95 % margin")
    print("run  reference  below the bound       NOT EXPECTED")
    draw = random.Random(5)
    trials *= 50
    for new in (1, 2, 3, 5, 10):
        for known in (3, 5, 10):
            found = [case_of(lambda: draw.gauss(0, 0.15), known, new) for _ in range(trials)]
            below = sum((case.measured_gb_per_s or 0.0) < (case.bound_gb_per_s or 0.0) for case in found)
            called = sum(case.answer is Answer.BELOW for case in found)
            print(f"{new:3}  {known:9}  {_rate(below, trials)}  {_rate(called, trials)}")


def _rate(count: int, trials: int) -> str:
    """With the normal margin, and the rule of three for none."""
    margin = 1.96 * math.sqrt(count) / trials if count else 3 / trials
    return f"{count / trials:6.3%} +- {margin:6.3%}"


def modes(trials: int) -> None:
    """Launches of two modes, which are not log-normal: some are 20 % slower, all scatter by 0.5 % else."""
    print("# modes: good runs whose launches are in a mode of 80 % of the speed with the probability given")
    print("slow mode  run  reference  expected / NOT EXPECTED / undecided")
    draw = random.Random(6)
    for share in (0.1, 0.3, 0.5):
        for new in (1, 3, 10):
            for known in (3, 5, 10):

                def launch(share: float = share) -> float:
                    return draw.gauss(0, 0.005) - math.log(0.8) * (draw.random() < share)

                print(f"{share:9.0%}  {new:3}  {known:9}  {_answers(launch, known, new, trials)}")


def _answers(launch: Callable[[], float], known: int, new: int, trials: int, speed: float = 1.0) -> str:
    found = Counter(case_of(launch, known, new, speed).answer for _ in range(trials))
    good = found[Answer.EXPECTED] + found[Answer.ABOVE]
    counts = (good, found[Answer.BELOW], found[Answer.UNDECIDED])
    return " / ".join(f"{count / trials:5.1%}" for count in counts)


def case_of(launch: Callable[[], float], known: int, new: int, speed: float = 1.0) -> Judged:
    """A run of ``new`` launches at a share of the speed, held against ``known`` launches by the program's own
    rule. ``launch`` draws the logarithm of a launch's time.
    """
    times = tuple(math.exp(launch()) for _ in range(known))
    point = Point(SIZE, KEY.placement, SPEED / median(times), times)
    reference = replace(REFERENCE, points=(point,))
    expected = value_at(reference, SIZE, KEY.placement)
    assert expected is not None
    own = [math.exp(launch()) / speed for _ in range(new)]
    interval = launch_interval(own)
    judged = Judged(
        KEY, Answer.NO_REFERENCE, "", launches=new,
        measured_gb_per_s=SPEED / (interval.centre if interval is not None else own[0]),
        low_gb_per_s=SPEED / interval.high if interval is not None else None,
        high_gb_per_s=SPEED / interval.low if interval is not None else None,
    )  # fmt: skip
    return against(judged, reference, expected, None)


def turn(trials: int) -> None:
    """Equal things: in blocks, and one after the other, with what drifts told by the user or not."""
    print("# turn: equal things called different at q < 1 %; n launches of each")
    print(f"{'machine':26}   n  in blocks  one after the other  with --launch-spread")
    draw = random.Random(7)
    for name, phi, spread, walk in (
        ("white noise 3 %", 0.0, 0.03, 0.0),
        ("AR(1) 0.9, 3 %", 0.9, 0.03, 0.0),
        ("random walk, 2 % a launch", 0.0, 0.01, 0.02),
    ):
        for n in (8, 12):
            called = [0, 0, 0]
            for _ in range(trials):
                times = _series(draw, 2 * n, phi, spread, walk)
                pairs = [draw.sample(times[i : i + 2], 2) for i in range(0, 2 * n, 2)]
                # What launches differ by at different times: all of the noise, or the walk over one series.
                known = math.hypot(spread * math.sqrt(2), walk * math.sqrt(n))
                ratios = (
                    paired_ratio([a for a, _ in pairs], [b for _, b in pairs]),
                    unpaired_ratio(times[:n], times[n:]),
                    spread_ratio(times[:n], times[n:], known),
                )
                for i, ratio in enumerate(ratios):
                    called[i] += _is_different(ratio, Q)
            cells = [f"{count / trials:.1%}" for count in called]
            print(f"{name:26} {n:3}  {cells[0]:>9}  {cells[1]:>19}  {cells[2]:>20}")


def _series(draw: random.Random, n: int, phi: float, spread: float, walk: float) -> list[float]:
    slow = level = 0.0
    times = []
    for _ in range(n):
        slow = phi * slow + draw.gauss(0, spread * math.sqrt(1 - phi * phi))
        level += draw.gauss(0, walk)
        times.append(math.exp(slow + level + draw.gauss(0, spread)))
    return times


def more(trials: int) -> None:
    """Are the blocks that an undecided row asks for enough?"""
    print("# more: of series that were not decided and asked for up to 60 blocks, decided after as many more")
    print("blocks  rows  effect  scatter  asked (median)  decided then")
    draw = random.Random(3)
    for have in (8, 12):
        for rows in (1, 12):
            for centre, spread in ((0.0, 0.03), (0.03, 0.03), (0.05, 0.05), (0.3, 0.3), (1.0, 1.0)):
                asked, kept = [], 0
                for _ in range(max(trials // 8, 1)):
                    logs = [draw.gauss(centre, spread) for _ in range(have)]
                    ratio = _of(logs)
                    wanted = None if _is_decided(ratio, Q / rows) else more_blocks(ratio, DELTA, Q / rows)
                    if wanted is None or wanted > 60:
                        continue
                    asked.append(wanted)
                    logs += [draw.gauss(centre, spread) for _ in range(wanted)]
                    kept += _is_decided(_of(logs), Q / rows)
                middle = f"{median(asked):g}" if asked else "n/a"
                told = f"{kept} of {len(asked)}" + (f" ({kept / len(asked):.0%})" if asked else "")
                print(f"{have:6}  {rows:4}  {centre:6.0%}  {spread:7.0%}  {middle:>14}  {told}")


def _of(logs: list[float]) -> Ratio:
    return paired_ratio([math.exp(log) for log in logs], [1.0] * len(logs))


def _is_different(ratio: Ratio, p_needed: float) -> bool:
    if ratio.low is None or ratio.high is None or ratio.p is None:
        return False
    return (ratio.low > NEAR or ratio.high < -NEAR) and ratio.p < p_needed


def _is_decided(ratio: Ratio, p_needed: float) -> bool:
    if ratio.low is None or ratio.high is None:
        return False
    return _is_different(ratio, p_needed) or (ratio.low > -FAR and ratio.high < FAR)


if __name__ == "__main__":
    main()
