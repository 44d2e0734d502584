"""Which tests to make next: pure functions of the rounds that were run.

First every pair is tested, the turns of a tournament in random order, and some pairs again, by which the
noise is known; of many parts, as many turns as were asked for. Then every pair is tested again that is
neither quick nor slow yet; the others are tested beside it, so that rounds are alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Final

import numpy as np

from busbw.hunt.evidence import Evidence, all_pairs, judge
from busbw.hunt.field import Groups
from busbw.hunt.noise import Leaf
from busbw.hunt.rounds import Pair, matchings, turns
from busbw.model.hunt import Round, RoundResult, Rules, Stage, of_stage

LEAST_PARTS: Final = 4  # no third part says which of a slow pair it is
_REPEATED: Final = 2  # turns that are tested twice
_LEAST_ROUNDS: Final = 8
_MOST_PASSES: Final = 12  # times the rounds of the first stage: then noise hides what was asked for
_MOST_BESIDE: Final = 2  # times, for metrics that do not decide


def next_round(
    rules: Rules, groups: Groups, history: Sequence[RoundResult], leaves: Sequence[Leaf] = ()
) -> Round | None:
    """The round to run now; None where the hunt is over, or there is nobody to pair. ``leaves``: the parts on
    each switch, where that is known.
    """
    parts = sum(map(len, groups))
    if parts < LEAST_PARTS or all(len(group) < 2 for group in groups):
        return None  # whatever came of it, it would not say which part is slow
    screens, first = len(of_stage(history, Stage.SCREEN)), max(first_rounds(rules, len(g)) for g in groups)
    if screens < first:
        pairs: list[Pair] = []
        for group in (each for each in groups if len(each) > 1):
            place = screens % _tested_turns(rules, len(group))  # where they are over, again from the first
            turn = next(itertools.islice(matchings(len(group), f"{rules.seed} {group[0]}"), place, None))
            pairs += [(group[one], group[other]) for one, other in turn]
        return Round(len(history), Stage.SCREEN, tuple(pairs))
    if len(history) >= most_rounds(first):
        return None
    metrics = rules.metrics if len(history) < _MOST_BESIDE * first else rules.metrics[:1]
    judged = [judge(rules, metric, groups, history, leaves) for metric in metrics]
    again = _again([each for each in judged if each is not None], groups, f"{rules.seed} {len(history)}")
    return Round(len(history), Stage.CONFIRM, again) if again else None


def _tested_turns(rules: Rules, parts: int) -> int:
    """Turns of the tournament that are tested, of a group of so many parts."""
    return turns(parts) if all_pairs(rules, parts) else rules.rounds


def first_rounds(rules: Rules, parts: int) -> int:
    """Rounds of the first stage in a group of so many parts."""
    return max(_LEAST_ROUNDS, _tested_turns(rules, parts) + _REPEATED) if parts > 1 else 0


def most_rounds(first: int) -> int:
    """Rounds after which a hunt ends undecided, by those of its first stage."""
    return _MOST_PASSES * first


def _again(judged: Sequence[Evidence], groups: Groups, seed: str) -> tuple[Pair, ...]:
    """Pairs that ask for another test, those with the fewest tests first, and others beside them; empty where
    none asks.
    """
    asked: dict[Pair, int] = {}
    for found in judged:
        count = np.bincount(found.tests.pair)[found.ask]
        asked |= dict(zip(found.pairs(found.ask), count.tolist(), strict=True))
        asked |= {pair: 0 for group in groups for pair in found.unmet(sorted(group))}
    if not asked:
        return ()
    draw = random.Random(seed)
    tested = list(dict.fromkeys((*judged[0].pairs(np.ones_like(judged[0].ask)), *asked)))
    draw.shuffle(tested)
    chosen: list[Pair] = []
    busy: set[int] = set()
    for pair in sorted(tested, key=lambda each: asked.get(each, np.inf)):
        if busy.isdisjoint(pair):
            chosen.append(pair)
            busy.update(pair)
    return tuple(sorted(chosen))
