"""How often do the rules of ``busbw compare`` and ``busbw expect`` call what is not so, and find what is?

Simulated launches, so that the truth is known; every table comes from a fixed seed. Needs no hardware.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from statistics import median, stdev

from busbw.analysis.expectation import OWN_TOLERANCE
from busbw.stats.prediction import WIDEST, least_share
from busbw.stats.ratio import Ratio, more_blocks, paired_ratio, spread_ratio, unpaired_ratio

DELTA, Q = 0.02, 0.01
NEAR, FAR = math.log1p(DELTA / 2), math.log1p(DELTA)


def main() -> None:
    """Print one table, or all."""
    tables = {"expect": expect, "turn": turn, "more": more}
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
            cells = []
            for speed in (1.0, 0.9, 0.8, 0.7, 0.5):
                found = Counter(_expected(draw, spread, known, speed) for _ in range(trials))
                cells.append(" / ".join(f"{found[word] / trials:5.1%}" for word in ("yes", "no", "?")))
            print(f"{spread:7.1%}  {known:8}  " + "  ".join(cells))


def _expected(draw: random.Random, spread: float, known: int, speed: float) -> str:
    logs = [draw.gauss(0, spread) for _ in range(known)]
    share = speed * math.exp(median(logs) - draw.gauss(0, spread))
    noise = least_share(stdev(logs), known, 1)
    if share < min(1 - OWN_TOLERANCE, noise):
        return "no"
    return "yes" if noise >= 1 - WIDEST else "?"


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
