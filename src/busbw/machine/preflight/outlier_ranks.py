"""Which ranks are not like the others, and how to say it in a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.units import first_of

V = TypeVar("V", bound=Hashable)
F = TypeVar("F")
_MOST_NAMED: Final = 4


@dataclass(frozen=True)
class Split(Generic[V]):
    """Values, each with its places in order, the most frequent first. ``has_majority``: more than half of
    the places have that one, so that the rest can be called odd.
    """

    groups: tuple[tuple[V, tuple[int, ...]], ...]

    @property
    def has_majority(self) -> bool:
        """Whether one value holds more than half of all places."""
        return 2 * len(self.groups[0][1]) > sum(len(places) for _, places in self.groups)

    @property
    def odd(self) -> int:
        """The first place that differs from the most frequent value."""
        return min(places[0] for _, places in self.groups[1:])


def split(values: Mapping[int, V]) -> Split[V] | None:
    """The values that places have, None where all have one. Of equally frequent ones the first place's
    counts as the usual one.
    """
    places: dict[V, list[int]] = defaultdict(list)
    for place, value in sorted(values.items()):
        places[value].append(place)
    if len(places) < 2:
        return None
    groups = sorted(places.items(), key=lambda item: (-len(item[1]), item[1][0]))
    return Split(tuple((value, tuple(at)) for value, at in groups))


def name_ranks(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    """``rank 2 (h3)``, ``ranks 0, 1 (h1)`` or ``all ranks of h3``; ``hosts`` is each rank's, by rank."""
    places = list(dict.fromkeys(hosts[rank] for rank in ranks))
    whole = [host for host in places if sum(host == other for other in hosts) > 1]
    if len(places) == 1 and places == whole and len(ranks) == sum(host == places[0] for host in hosts):
        return f"all ranks of {places[0]}"
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"{word} {few([str(rank) for rank in ranks])} ({few(places)})"


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return first_of(names, _MOST_NAMED)


def only(hosts: Sequence[str]) -> str:
    """The host that a finding is about, empty where it is about several."""
    return hosts[0] if len(hosts) == 1 else ""


def odd_ranks(
    severity: Severity, what: str, values: Mapping[int, str], hosts: Sequence[str], *, hint: str
) -> Iterator[Finding]:
    """That ranks have not one value of ``what``; nothing where they do, or where it is not known."""
    found = split({rank: value for rank, value in values.items() if value})
    if found is not None:
        claim = f"{what}: {difference(found, hosts)}"
        yield Finding(severity, claim, hint=hint, rank=found.odd, host=hosts[found.odd])


def where(ranks: Sequence[int], hosts: Sequence[str], everywhere: str) -> tuple[str, int | None, str]:
    """Some ranks in words, ``everywhere`` where that is all of them; else also the first and its host."""
    if len(ranks) == len(hosts):
        return everywhere, None, ""
    return name_ranks(ranks, hosts), ranks[0], hosts[ranks[0]]


def difference(found: Split[str], hosts: Sequence[str]) -> str:
    """What the odd ones have and what the others: ``2.27.7 on rank 2 (h3), 2.30.4 on the other 3``."""
    (usual, at), *rest = found.groups
    said = [f"{value} on {name_ranks(places, hosts)}" for value, places in rest[:_MOST_NAMED]]
    if len(rest) > _MOST_NAMED:
        said.append(f"other values on {sum(len(places) for _, places in rest[_MOST_NAMED:])} more")
    said.append(f"{usual} on " + (f"the other {len(at)}" if found.has_majority else name_ranks(at, hosts)))
    return ", ".join(said)


def judged(
    checks: Mapping[str, Callable[[F], Iterator[Finding]]], facts: F, *, strict: bool
) -> tuple[Finding, ...]:
    """What all checks find in the facts, the worst first."""
    found = [replace(each, check=name) for name, find in checks.items() for each in find(facts)]
    return worst_first(strictly(found) if strict else found)
