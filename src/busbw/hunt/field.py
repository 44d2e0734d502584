"""Who is hunted among: the parts, their names, and the ranks that a test of two of them is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.hunt.noise import Leaf

_LEAST_HERE = 2

Groups = tuple[tuple[int, ...], ...]
"""Parts by who can be tested with whom: all in one group, or the ranks of each host in one of its own."""


@dataclass(frozen=True)
class Field:
    """Parts of one kind. ``names`` and ``ranks`` are by part; ``groups`` says who is tested with whom.
    ``leaves`` are the parts on each lowest switch and ``leaf_names`` the switches, where that is known.
    """

    kind: str  # host or rank
    names: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    groups: Groups
    leaves: tuple[Leaf, ...] = ()
    leaf_names: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Lanes of every test: as many as the part with the fewest ranks has. Where some tests had more,
        their lanes would share a link that others have alone, and look slow.
        """
        return min(map(len, self.ranks), default=0)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Ranks that are in no test, because other parts have fewer."""
        return tuple(sorted(rank for own in self.ranks for rank in own[self.width :]))

    @property
    def part_of(self) -> dict[int, int]:
        """The part that a rank belongs to."""
        return {rank: part for part, ranks in enumerate(self.ranks) for rank in ranks}

    def lanes(self, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """The pairs of ranks of pairs of parts: the first rank of one with the first of the other, and so
        on.
        """
        own = [ranks[: self.width] for ranks in self.ranks]
        return tuple(each for one, other in pairs for each in zip(own[one], own[other], strict=True))


def of_ranks(hosts: Sequence[str], least: int = 1) -> Field:
    """Every rank a part, by ``hosts`` (one name a rank, in rank order); the groups are the hosts, those that
    have at least so many ranks.
    """
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(hosts):
        by_host[host].append(rank)
    groups = [own for own in by_host.values() if len(own) >= least]
    kept = sorted(rank for own in groups for rank in own)
    part = {rank: number for number, rank in enumerate(kept)}
    return Field(
        "rank",
        tuple(f"rank {rank} on {hosts[rank]}" for rank in kept),
        tuple((rank,) for rank in kept),
        tuple(tuple(part[rank] for rank in own) for own in groups),
    )


def fields(hosts: Sequence[str]) -> tuple[Field, ...]:
    """The fields of ranks on ``hosts`` (one name a rank, in rank order). Several hosts: the ranks within each
    host that have partners there, where there are enough for that, and then the hosts with each other. One
    host: its ranks.
    """
    ranks = of_ranks(hosts)
    names = tuple(dict.fromkeys(hosts))
    if len(names) == 1:
        return (ranks,)
    whole = Field("host", names, ranks.groups, (tuple(range(len(names))),))
    return (of_ranks(hosts, 2), whole) if max(map(len, ranks.groups)) > _LEAST_HERE else (whole,)


def on_switches(field: Field, switches: Mapping[str, str]) -> Field:
    """The field with the switch of each host known, where it is of hosts; hosts without one share none."""
    if field.kind != "host":
        return field
    members: dict[str, list[int]] = defaultdict(list)
    for part, name in enumerate(field.names):
        if switch := switches.get(name, ""):
            members[switch].append(part)
    return replace(field, leaves=tuple(map(tuple, members.values())), leaf_names=tuple(members))
