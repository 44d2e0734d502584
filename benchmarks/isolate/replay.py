"""What today's rules make of the recorded hunts between eight hosts: the same rounds, the same verdict?

The rules choose each round from those before it. Where they would have chosen another one than was run, what
they would have found there is not known; the verdict is that of the rounds that were run.

    python benchmarks/isolate/replay.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from busbw_testing.recorded_hunts import HOSTS, Recorded, recorded

from busbw.hunt.decide import next_round
from busbw.hunt.verdict import conclude

EVERYONE = (tuple(range(HOSTS)),)


def main() -> None:
    counts: dict[str, Counter[str]] = {}
    for each in recorded():
        row = counts.setdefault(each.fault, Counter())
        verdict = conclude(each.rules, EVERYONE, each.rounds)
        named = tuple(f"h{suspect.parts[0] + 1}" for suspect in verdict.suspects if len(suspect.parts) == 1)
        row["hunts"] += 1
        row["same rounds"] += chooses_the_same(each)
        row["same verdict"] += (verdict.decision.value, named) == (each.decided, each.named)
        row["named"] += bool(each.place) and each.place in named
        row["others accused"] += bool({*named} - {each.place})
        row["undecided"] += verdict.decision.value == "undecided"
    heads = ["hunts", "same rounds", "same verdict", "named", "others accused", "undecided"]
    print(f"| fault | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for fault, row in counts.items():
        print(f"| {fault} | {' | '.join(str(row[head]) for head in heads)} |")


def chooses_the_same(hunt: Recorded) -> bool:
    """Whether every round, and the end, is what the rules choose now; in whatever order of its pairs."""
    for number in range(len(hunt.rounds) + 1):
        turn = next_round(hunt.rules, EVERYONE, hunt.rounds[:number])
        was = hunt.rounds[number].round if number < len(hunt.rounds) else None
        if turn is None or was is None:
            return turn is was
        if (turn.stage, {*turn.pairs}) != (was.stage, {*was.pairs}):
            return False
    return True


if __name__ == "__main__":
    main()
