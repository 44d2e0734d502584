"""Everything that the rules may look at, on rank 0: the facts of all ranks, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from busbw.model.plan import Preflight
from busbw.preflight.facts import NodeFacts, RankFacts


@dataclass(frozen=True)
class Gathered:
    """``ranks`` in rank order."""

    ranks: tuple[RankFacts, ...]
    backend: str
    asked: Preflight

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Of every rank, by rank."""
        return tuple(rank.host for rank in self.ranks)

    @cached_property
    def nodes(self) -> tuple[RankFacts, ...]:
        """The first rank of every host."""
        return tuple(rank for rank in self.ranks if rank.node is not None)

    @property
    def uses_nccl(self) -> bool:
        """Whether NCCL's variables mean something; the null backend stands for it."""
        return self.backend != "mpi"

    def each_node(self) -> Iterator[tuple[str, NodeFacts]]:
        """Host and facts."""
        for rank in self.ranks:
            if rank.node is not None:
                yield rank.host, rank.node

    def wants(self, feature: str) -> str:
        """What is expected of a feature (``net`` -> ``ofi``); empty where nothing is."""
        return next((e.partition("=")[2] for e in self.asked.expects if e.partition("=")[0] == feature), "")
