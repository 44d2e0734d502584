"""Many simulated hunts of one kind: what a hunt would cost and find, before it is started."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from busbw.hunt.fabric import Fabric, simulate
from busbw.hunt.verdict import Decision, Suspect, conclude
from busbw.model.hunt import LATENCY, QUICKEST, Rules
from busbw.planning.rounds import turns


@dataclass(frozen=True)
class Trial:
    """``named`` of ``slow`` slow parts, over all hunts; ``accused`` others, in ``hunts_accusing`` hunts.
    ``loss`` and ``noise`` are shares; ``every_pair`` is the rounds of the full schedule. With ``per_leaf``,
    the slow ones are switches of so many parts each, by their uplinks. With ``one_way``, parts are slow
    only in what they send, or in what they receive, by turns of hunts. ``longer`` is the share by which
    latency between switches is longer than within one; ``hidden``: the rules were not told the switches.
    ``told`` is the mean of the losses of those that were named, ``held`` the number of them whose interval
    holds the loss.
    """

    parts: int
    bad: int
    loss: float
    noise: float
    stalls: float
    hunts: int
    rounds: float
    most_rounds: int
    every_pair: int
    slow: int
    named: int
    accused: int
    hunts_accusing: int
    undecided: int
    per_leaf: int = 0
    one_way: bool = False
    told: float = 0.0
    held: int = 0
    longer: float = 0.0
    hidden: bool = False

    def to_fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a terminal. Of something that was never seen in n hunts, the rate is below 3 / n (95 %)."""
        bound = f", a rate below {min(1.0, 3 / self.hunts):.1%} (95 %)" if not self.hunts_accusing else ""
        slow = f"{self.bad} switches of {self.per_leaf}" if self.per_leaf else f"{self.bad}"
        what = f"{self.parts} parts, {slow} slow by {self.loss:.1%}, noise {self.noise:.1%} of one test"
        if self.longer:
            what += f", latency between switches {self.longer:.0%} longer"
        cost = f"{self.rounds:.1f} on average, {self.most_rounds} at most"
        return [
            f"# simulated {self.hunts} hunts: {what}",
            f"rounds     {cost}; every pair takes {self.every_pair}",
            *(
                [f"named      {self.named} of {self.slow} slow {'switches' if self.per_leaf else 'parts'}"]
                if self.slow
                else []
            ),
            f"accused    {self.accused} healthy parts, in {self.hunts_accusing} hunts{bound}",
            f"undecided  {self.undecided} hunts",
        ]


def trial(
    rules: Rules,
    parts: int,
    bad: int,
    loss: float,
    noise: float,
    hunts: int,
    stalls: float = 0.0,
    per_leaf: int = 0,
    one_way: bool = False,
    longer: float = 0.0,
    hidden: bool = False,
    tell: Callable[[int], None] = lambda done: None,
) -> Trial:
    """Run them; the same for the same arguments. ``tell`` hears after each how many are done."""
    rounds: list[int] = []
    right: list[Suspect] = []
    accused = hunts_accusing = undecided = 0
    for seed in range(hunts):
        own = replace(rules, seed=rules.seed + seed)
        fabric = Fabric(parts, noise=noise, stalls=stalls, per_leaf=per_leaf)
        fabric = replace(fabric, longer=dict.fromkeys((LATENCY, QUICKEST), longer), hidden=hidden)
        among = len(fabric.switches) or parts
        slow = dict.fromkeys(random.Random(f"{parts} {bad} {seed}").sample(range(among), bad), loss)
        fabric = _with_slow(fabric, slow, seed, one_way=one_way)
        verdict = conclude(own, (tuple(range(parts)),), simulate(fabric, own, seed), fabric.leaves)
        bad_parts = {fabric.switches[each] if per_leaf else (each,) for each in slow}
        hit = [each.parts in bad_parts and not each.beyond for each in verdict.suspects]
        right += itertools.compress(verdict.suspects, hit)
        wrong = len(hit) - sum(hit)
        rounds.append(verdict.rounds)
        accused += wrong
        hunts_accusing += bool(wrong)
        undecided += verdict.decision is Decision.UNDECIDED
        tell(seed + 1)
    return Trial(
        parts,
        bad,
        loss,
        noise,
        stalls,
        hunts,
        sum(rounds) / hunts,
        max(rounds),
        turns(parts),
        bad * hunts,
        len(right),
        accused,
        hunts_accusing,
        undecided,
        per_leaf,
        one_way,
        sum(suspect.loss for suspect in right) / max(1, len(right)),
        sum(suspect.low <= loss <= suspect.high for suspect in right),
        longer,
        hidden,
    )


def _with_slow(fabric: Fabric, slow: Mapping[int, float], seed: int, *, one_way: bool) -> Fabric:
    if fabric.per_leaf:
        return replace(fabric, slow_leaves=slow)
    if not one_way:
        return replace(fabric, slow=slow)
    return replace(fabric, slow_receiving=slow) if seed % 2 else replace(fabric, slow_sending=slow)
