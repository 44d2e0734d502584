"""What interleaving saves: launches in random blocks against each setup so many times in a row.

    cost.py RESULTS.json

RESULTS.json is written by null.py: launches of one and the same thing, in the order in which they were made,
so the true difference of any two groups of them is nothing. From every stretch of it both plans are made:

- in a row: the first n launches are A, the next n are B, compared as two groups;
- in blocks: the same 2 n launches, two that follow each other a block, A and B in random order, in pairs.

Both see the same launches on the same machine in the same minutes. Printed for each n: the root mean square
of the difference that the plan finds, and how often it calls the equal setups different (interval beyond
half of 2 %, and p below 1 %).
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from statistics import mean

from busbw.judge.compare import Rule
from busbw.judge.scatter import HOST_BOUND
from busbw.stats.ratio import Difference, Ratio, in_groups, in_pairs, of_class, ratio

SIZES = (8, 12, 18, 27, 40, 60, 80)
CASE = "out-of-place"
AIMS = (0.08, 0.04, 0.025)


def main() -> None:
    body = json.loads(Path(sys.argv[1]).read_text())
    launches = [launch for launch in body["launches"] if launch["time_ns"]]
    cases = sorted({case for launch in launches for case in launch["time_ns"] if case.endswith(CASE)})
    seconds = mean(launch["seconds"] for launch in launches)
    print(f"{len(launches)} launches of one setup, {seconds:.1f} s each, {body['cores']} cores")
    for case in cases:
        times = [launch["time_ns"][case] for launch in launches]
        print(
            f"# {case} B: n of each, root mean square in a row and in blocks, false calls of both, stretches"
        )
        told = {}
        for n in SIZES:
            if 2 * n > len(times):
                break
            told[n] = row = plans(times, n)
            print(
                f"{n:>4} {row['in a row']:>7.1%} {row['in blocks']:>7.1%}"
                f" {row['false in a row']:>7.1%} {row['false in blocks']:>7.1%} {row['stretches']:>4}"
            )
        say(told, seconds)


def plans(times: list[float], n: int) -> dict[str, float]:
    draw, rule = random.Random(n), Rule()
    errors: dict[str, list[float]] = {"row": [], "blocks": []}
    false = {"row": 0, "blocks": 0}
    starts = range(0, len(times) - 2 * n + 1, max(1, n // 4))
    for start in starts:
        stretch = times[start : start + 2 * n]
        pairs = [draw.sample(stretch[i : i + 2], 2) for i in range(0, 2 * n, 2)]
        made = {
            "row": in_groups(stretch[:n], stretch[n:]),
            "blocks": in_pairs([a for a, _ in pairs], [b for _, b in pairs]),
        }
        for name, seen in made.items():
            errors[name].append(seen.centre**2)
            false[name] += is_called(judged(seen), rule)
    return {
        "in a row": math.sqrt(mean(errors["row"])),
        "in blocks": math.sqrt(mean(errors["blocks"])),
        "false in a row": false["row"] / len(starts),
        "false in blocks": false["blocks"] / len(starts),
        "stretches": len(starts),
    }


def judged(seen: Difference) -> Ratio:
    return ratio(seen, of_class(HOST_BOUND, [seen]))


def is_called(made: Ratio, rule: Rule) -> bool:
    edge = math.log1p(rule.delta / 2)
    return made.p < rule.q and (made.low > edge or made.high < -edge)


def say(told: dict[int, dict[str, float]], seconds: float) -> None:
    """The launches that each plan needs for an error, and how long they take."""
    for aim in AIMS:
        words = []
        for plan in ("in blocks", "in a row"):
            enough = [n for n, row in told.items() if row[plan] <= aim]
            n = enough[0] if enough else max(told)
            cost = f"{n} of each, {2 * n * seconds:.0f} s"
            words.append(f"{plan} {cost}" if enough else f"{plan} not with {cost}")
        print(f"within {aim:.1%}: {'; '.join(words)}")


if __name__ == "__main__":
    main()
