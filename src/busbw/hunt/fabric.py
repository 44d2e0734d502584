"""A fabric with faults, to try the rules on and to plan a hunt: pure, seeded, any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from busbw.hunt.decide import Groups, next_round
from busbw.hunt.leaves import Leaf
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, PairTest, Round, RoundResult, Rules

_BASE_NS: Final = {BANDWIDTH: 40e6, LATENCY: 100e3}  # what a healthy pair takes; any value would do


@dataclass(frozen=True)
class Fabric:
    """``parts`` parts of which some are slow: ``slow`` has the share of bandwidth that a part lost,
    ``slow_sending`` and ``slow_receiving`` that which it lost one way only, ``slow_pairs`` that of a path
    between two. A test takes the time of its slowest part or path, times the
    exponential of a normal number: of ``noise`` in bandwidth, ``latency_noise`` in latency. A share of
    ``stalls`` of the tests lasts up to twice as long, whoever is tested, but for the quickest messages. In a
    share of ``restless`` of the rounds all latencies are up to four times as long: hosts that share cores
    with something else. ``per_leaf`` parts share a switch; ``slow_leaves`` has what the uplinks of a switch
    lost: tests that leave it are slow, others not.
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

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The parts on each switch, where that is known."""
        if not self.per_leaf:
            return ()
        firsts = range(0, self.parts, self.per_leaf)
        return tuple(tuple(range(first, min(self.parts, first + self.per_leaf))) for first in firsts)

    def _uplinks(self, one: int, other: int) -> float:
        """What a path lost that leaves a switch."""
        if not self.slow_leaves or one // self.per_leaf == other // self.per_leaf:
            return 0.0
        return max(self.slow_leaves.get(part // self.per_leaf, 0.0) for part in (one, other))

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
        tests = tuple(
            PairTest(
                one,
                other,
                {BANDWIDTH: ((there,), (back,)), LATENCY: ((ping,), (pong,)), QUICKEST: ((best,), (best,))},
            )
            for (one, other), there, back, ping, pong, best in zip(
                turn.pairs, *wide.tolist(), *small.tolist(), quick.tolist(), strict=True
            )
        )
        return RoundResult(turn, tests)


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
