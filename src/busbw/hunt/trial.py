"""Many simulated hunts of one kind: what a hunt would cost and find, before it is started."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

from busbw.hunt.fabric import Fabric, simulate
from busbw.hunt.verdict import Decision, conclude
from busbw.model.hunt import Rules
from busbw.planning.rounds import turns


@dataclass(frozen=True)
class Trial:
    """``named`` of ``slow`` slow parts, over all hunts; ``accused`` others, in ``hunts_accusing`` hunts.
    ``loss`` and ``noise`` are shares; ``every_pair`` is the rounds of the full schedule. With ``per_leaf``,
    the slow ones are switches of so many parts each, by their uplinks.
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

    def to_fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a terminal. Of something that was never seen in n hunts, the rate is below 3 / n (95 %)."""
        bound = f", a rate below {min(1.0, 3 / self.hunts):.1%} (95 %)" if not self.hunts_accusing else ""
        slow = f"{self.bad} switches of {self.per_leaf}" if self.per_leaf else f"{self.bad}"
        what = f"{self.parts} parts, {slow} slow by {self.loss:.1%}, noise {self.noise:.1%} of one test"
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
) -> Trial:
    """Run them; the same for the same arguments."""
    rounds: list[int] = []
    named = accused = hunts_accusing = undecided = 0
    for seed in range(hunts):
        own = replace(rules, seed=rules.seed + seed)
        fabric = Fabric(parts, noise=noise, stalls=stalls, per_leaf=per_leaf)
        among = len(fabric.leaves) or parts
        slow = dict.fromkeys(random.Random(f"{parts} {bad} {seed}").sample(range(among), bad), loss)
        fabric = replace(fabric, slow_leaves=slow) if per_leaf else replace(fabric, slow=slow)
        history = simulate(fabric, own, seed)
        verdict = conclude(own, (tuple(range(parts)),), history, fabric.leaves)
        found = {suspect.parts for suspect in verdict.suspects}
        right = {fabric.leaves[leaf] for leaf in slow} if per_leaf else {(part,) for part in slow}
        rounds.append(verdict.rounds)
        named += len(found & right)
        accused += len(found - right)
        hunts_accusing += bool(found - right)
        undecided += verdict.decision is Decision.UNDECIDED
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
        named,
        accused,
        hunts_accusing,
        undecided,
        per_leaf,
    )
