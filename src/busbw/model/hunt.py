"""Values of a hunt for slow parts: what is tested, what came of it.

A *part* is what may be slow and can be left out: a host, or on one host a rank. A *test* is a pair of parts
that exchange data; a *round* is tests that run at once. The *lanes* of a test are the pairs of ranks that it
is made of: of two hosts of 8 GPUs, 8. *Groups* are ranks that have a communicator of their own and run a
collective, all groups of a round at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BANDWIDTH: Final = "bandwidth"  # nanoseconds of one large message, the second shortest of several
LATENCY: Final = "latency"  # nanoseconds of one small message, the mean of many: a few late ones count
QUICKEST: Final = "quickest"  # of the same messages in blocks, the second shortest: what no load makes longer
RESENT: Final = "resent"  # 1 + TCP segments that the ranks of a part sent again: loss hides from best times
BOTH_WAYS: Final = "both-ways"  # as bandwidth, with as much the other way at the same time
SMALL: Final = (LATENCY, QUICKEST)  # of small messages, which take the same way
METRICS: Final = (BANDWIDTH, LATENCY, QUICKEST)
BY_NIC: Final = "BUSBW_BY_NIC"  # the variable that gives ranks the NIC of a hunt, before there is a plan

Lanes = tuple[float, ...]
Directions = tuple[Lanes, Lanes]  # from the first part to the other, and back


class Stage(StrEnum):
    """What a round is for."""

    SCREEN = "screen"  # turns of a tournament: every pair, or as many as were asked for
    CONFIRM = "confirm"  # pairs that are neither quick nor slow yet, and others beside them
    MATRIX = "matrix"  # every pair once
    HALVES = "halves"  # one half of every block against the other
    EACH_RAIL = "each-rail"  # an alltoall in every rail, all rails at once: groups
    EACH_HOST = "each-host"  # an alltoall in every host, all hosts at once: groups
    RAILS = "rails"  # steps of a ring in each rail, all rails at once: pairs are (source, target)
    NODES = "nodes"  # steps of a ring within each host, all hosts at once


@dataclass(frozen=True)
class Round:
    """Pairs, or groups of ranks, that are tested at once. ``number`` counts the rounds of a hunt from 0."""

    number: int
    stage: Stage
    pairs: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class PairTest:
    """What a pair took: nanoseconds by metric, direction and lane."""

    one: int
    other: int
    times_ns: dict[str, Directions]

    def worst_ns(self, metric: str) -> float:
        """Of the slower direction and the slowest lane."""
        return max(max(lanes) for lanes in self.times_ns[metric])


@dataclass(frozen=True)
class GroupTest:
    """What a group's collective took: nanoseconds of a call in each sample, of the slowest of its ranks."""

    ranks: tuple[int, ...]
    times_ns: Lanes

    @property
    def time_ns(self) -> float:
        """The second shortest sample, as of pairs."""
        return sorted(self.times_ns)[:2][-1]


@dataclass(frozen=True)
class RoundResult:
    """A round that was run. ``seconds`` is how long it took, everything in it; ``stalled`` the share of its
    latency tests' time in which something waited for a core, on the host where that was longest.
    """

    round: Round
    tests: tuple[PairTest, ...]
    seconds: float = 0.0
    stalled: float = 0.0
    groups: tuple[GroupTest, ...] = ()

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """The parts of each test, 2 x tests."""
        import numpy as np  # who starts a run's ranks needs no numpy, and reads this module

        return np.array([(test.one, test.other) for test in self.tests], np.int64).reshape(-1, 2).T

    @cached_property
    def _worst_ns(self) -> dict[str, npt.NDArray[np.float64]]:
        import numpy as np

        metrics = set.intersection(*(set(test.times_ns) for test in self.tests)) if self.tests else set()
        return {metric: np.array([test.worst_ns(metric) for test in self.tests]) for metric in metrics}

    def has(self, metric: str) -> bool:
        """Whether every test has it."""
        return not self.tests or metric in self._worst_ns

    def worst_ns(self, metric: str) -> npt.NDArray[np.float64]:
        """Of each test the slower direction and the slowest lane; every test has the metric."""
        return self._worst_ns[metric]


def of_stage(history: Sequence[RoundResult], stage: Stage) -> list[RoundResult]:
    """The rounds of one stage, in their order."""
    return [tested for tested in history if tested.round.stage is stage]


@dataclass(frozen=True)
class Rules:
    """When a part is slow.

    ``floors`` is the least loss that is worth naming, by metric: the share of the bandwidth that is missing,
    of both latencies the share by which they are longer, of resent segments their number. ``metrics`` are
    what is measured, the first of them what decides whether the hunt could decide. ``rounds`` are those of
    new pairs where parts are too many to test every pair. ``accusation`` is the probability with which the
    tests of healthy parts may speak against any of them, ``acquittal`` that with which those of a slow one
    may speak for it.
    """

    metrics: tuple[str, ...] = METRICS
    floors: dict[str, float] = field(
        default_factory=lambda: {BANDWIDTH: 0.05, LATENCY: 0.5, QUICKEST: 0.5, RESENT: 10.0}
    )
    rounds: int = 10
    accusation: float = 1e-3
    acquittal: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Hunt:
    """What the ranks do instead of measuring cases. ``kind`` is isolate (rounds that the rules choose),
    pairs (every pair) or rails (a collective in each rail and in each host, then the steps of their rings).

    A test is ``samples`` of as many messages of ``size_bytes`` as take ``sample_ns``, each way, of which the
    best counts, and ``small_blocks`` blocks of ``small_calls`` exchanges of ``small_bytes``, of which the
    mean does, and the best block. ``wait`` is how a rank waits in MPI: spin, sleep, or auto: it sleeps where
    a message takes long. A round may take ``timeout_s``: after this time, a silent rank counts as hung.
    ``nic`` is the one that the library was confined to on every host, empty where it was not. ``halves``: of
    pairs, only those of each half with the other, and so on.
    """

    kind: str
    size_bytes: int
    rules: Rules = Rules()
    small_bytes: int = 8
    samples: int = 5
    small_blocks: int = 20
    small_calls: int = 25
    sample_ns: float = 20e6
    wait: str = "auto"
    timeout_s: float = 30.0
    nic: str = ""
    halves: bool = False
