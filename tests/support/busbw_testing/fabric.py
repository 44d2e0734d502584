"""A fabric with faults, to try the rules of isolate on: seeded, any size."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from busbw.hunt.decide import next_round
from busbw.hunt.field import Groups
from busbw.hunt.noise import Leaf
from busbw.hunt.verdict import Suspect, conclude
from busbw.model.hunt import (
    BANDWIDTH,
    LATENCY,
    QUICKEST,
    Directions,
    PairTest,
    Round,
    RoundResult,
    Rules,
)

_BASE_NS: Final = {BANDWIDTH: 40e6, LATENCY: 100e3}  # what a healthy pair takes; any value would do


@dataclass(frozen=True)
class Fabric:
    """``parts`` parts of which some are slow: ``slow`` has the share of bandwidth that a part lost,
    ``slow_sending`` and ``slow_receiving`` that which it lost one way only, ``slow_pairs`` that of a path
    between two. A test takes the time of its slowest part or path, times the exponential of a normal
    number: of ``noise`` in bandwidth, ``latency_noise`` in latency. A share of ``stalls`` of the tests
    lasts up to twice as long, whoever is tested, but for the quickest messages. In a share of ``restless``
    of the rounds all latencies are up to four times as long: hosts that share cores with something else.
    ``per_leaf`` parts share a switch, or as many as ``leaf_sizes`` has for each; ``slow_leaves`` has what
    the uplinks of a switch lost: tests that leave it are slow, others not; ``slow_paths`` what was lost
    between two switches. ``longer`` is by how much a test between switches takes longer than one within, a
    share, by metric: of a healthy fabric whose paths are not alike. ``hidden``: rules are not told the
    switches.
    """

    parts: int
    slow: Mapping[int, float] = field(default_factory=dict)
    slow_sending: Mapping[int, float] = field(default_factory=dict)
    slow_receiving: Mapping[int, float] = field(default_factory=dict)
    slow_pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)
    noise: float = 0.01
    latency_noise: float = 0.1
    stalls: float = 0.0
    restless: float = 0.0
    per_leaf: int = 0
    slow_leaves: Mapping[int, float] = field(default_factory=dict)
    leaf_sizes: tuple[int, ...] = ()
    slow_paths: Mapping[tuple[int, int], float] = field(default_factory=dict)
    longer: Mapping[str, float] = field(default_factory=dict)
    hidden: bool = False

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The parts on each switch, where that is known."""
        return () if self.hidden else self.switches

    @cached_property
    def switches(self) -> tuple[Leaf, ...]:
        """The parts on each switch, known or not."""
        sizes = self.leaf_sizes or (self.per_leaf,) * (self.parts // max(1, self.per_leaf) + 1)
        ends = [min(self.parts, end) for end in itertools.accumulate(sizes)] if any(sizes) else []
        found = (tuple(range(first, end)) for first, end in itertools.pairwise([0, *ends]))
        return tuple(filter(None, found))

    @cached_property
    def _leaf_of(self) -> dict[int, int]:
        return {part: number for number, leaf in enumerate(self.switches) for part in leaf}

    def _crosses(self, one: int, other: int) -> bool:
        return self._leaf_of.get(one) != self._leaf_of.get(other)

    def _uplinks(self, one: int, other: int) -> float:
        """What a path lost that leaves a switch."""
        if not self._crosses(one, other):
            return 0.0
        ends = tuple(sorted((self._leaf_of[one], self._leaf_of[other])))
        return max(
            self.slow_paths.get((ends[0], ends[1]), 0.0), *(self.slow_leaves.get(e, 0.0) for e in ends)
        )

    def _lost(self, one: int, other: int) -> tuple[float, float]:
        """What a pair lost, there and back."""
        own, sends, receives = self.slow.get, self.slow_sending.get, self.slow_receiving.get
        path = self.slow_pairs.get((one, other), 0.0)
        both = max(own(one, 0.0), own(other, 0.0), path, self._uplinks(one, other))
        there = max(both, sends(one, 0.0), receives(other, 0.0))
        return there, max(both, sends(other, 0.0), receives(one, 0.0))

    def run(self, turn: Round, generator: np.random.Generator) -> RoundResult:
        """What a round gives."""
        count = len(turn.pairs)
        lost = np.array([self._lost(*each) for each in turn.pairs]).reshape(count, 2).T
        stalled = 1 + (generator.random(count) < self.stalls) * generator.random(count)
        spread = np.exp(generator.normal(0, self.noise, (2, count)))
        wide = _BASE_NS[BANDWIDTH] / (1 - lost) * spread * stalled
        small = _BASE_NS[LATENCY] * np.exp(generator.normal(0, self.latency_noise, (2, count))) * stalled
        (own_generator,) = generator.spawn(1)  # so that what the others draw does not depend on it
        quick = _BASE_NS[LATENCY] * np.exp(own_generator.normal(0, self.latency_noise, count))
        if self.restless and generator.random() < self.restless:
            small *= 1 + 3 * generator.random()
        far = np.array([self._crosses(*each) for each in turn.pairs], np.float64)
        wide, small, quick = (
            times * (1 + far * self.longer.get(metric, 0.0))
            for metric, times in ((BANDWIDTH, wide), (LATENCY, small), (QUICKEST, quick))
        )
        times_ns: list[dict[str, Directions]] = [
            {BANDWIDTH: ((there,), (back,)), LATENCY: ((ping,), (pong,)), QUICKEST: ((best,), (best,))}
            for there, back, ping, pong, best in zip(
                *wide.tolist(), *small.tolist(), quick.tolist(), strict=True
            )
        ]
        tests = (PairTest(*each, took) for each, took in zip(turn.pairs, times_ns, strict=True))
        return RoundResult(turn, tuple(tests))


def hunt(
    rules: Rules,
    groups: Groups,
    run: Callable[[Round], RoundResult],
    leaves: Sequence[Leaf] = (),
) -> tuple[RoundResult, ...]:
    """All rounds of a hunt, each of which ``run`` gives."""
    history: tuple[RoundResult, ...] = ()
    while (turn := next_round(rules, groups, history, leaves)) is not None:
        history = (*history, run(turn))
    return history


def simulate(fabric: Fabric, rules: Rules, seed: int) -> tuple[RoundResult, ...]:
    """All rounds of a hunt in the fabric; the same for the same seed."""
    generator = np.random.default_rng(seed)
    everyone = (tuple(range(fabric.parts)),)
    return hunt(rules, everyone, lambda turn: fabric.run(turn, generator), fabric.leaves)


@dataclass(frozen=True)
class Trial:
    """``named`` of ``slow`` slow parts, over all hunts, and ``accused`` others. ``told`` is the mean of the
    losses of those that were named, ``held`` the number of them whose interval holds the loss.
    """

    slow: int
    named: int
    accused: int
    told: float
    held: int


def trial(
    rules: Rules, parts: int, bad: int, loss: float, noise: float, hunts: int, *, one_way: bool = False
) -> Trial:
    """Many hunts of one kind, with parts that lost ``loss``; with ``one_way`` only in what they send, or in
    what they receive, by turns of hunts. The same for the same arguments.
    """
    right: list[Suspect] = []
    accused = 0
    for seed in range(hunts):
        own = replace(rules, seed=rules.seed + seed)
        slow = dict.fromkeys(random.Random(f"{parts} {bad} {seed}").sample(range(parts), bad), loss)
        kind = ("slow_receiving" if seed % 2 else "slow_sending") if one_way else "slow"
        fabric = replace(Fabric(parts, noise=noise), **{kind: slow})
        verdict = conclude(own, (tuple(range(parts)),), simulate(fabric, own, seed))
        hit = [not each.beyond and set(each.parts) <= slow.keys() for each in verdict.suspects]
        right += itertools.compress(verdict.suspects, hit)
        accused += len(hit) - sum(hit)
    return Trial(
        bad * hunts,
        len(right),
        accused,
        sum(suspect.loss for suspect in right) / max(1, len(right)),
        sum(suspect.low <= loss <= suspect.high for suspect in right),
    )
