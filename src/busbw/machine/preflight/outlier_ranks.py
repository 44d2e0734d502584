"""Which ranks are not like the others, and how to say it in a line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from busbw.model.finding import Finding, Severity, strictly, worst_first
from busbw.units import first_of

F = TypeVar("F")
_MOST_NAMED: Final = 4


def by_value(values: Mapping[int, str]) -> list[tuple[str, list[int]]]:
    """The values, each with its places in order, the most frequent first: the usual one. Of equally frequent
    ones that is the first place's.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for place, value in sorted(values.items()):
        places[value].append(place)
    return sorted(places.items(), key=lambda item: (-len(item[1]), item[1][0]))


def first_place(groups: Iterable[tuple[str, list[int]]]) -> int:
    """The first of all places of some values."""
    return min(places[0] for _, places in groups)


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
    groups = by_value({rank: value for rank, value in values.items() if value})
    if len(groups) > 1:
        first = first_place(groups[1:])
        claim = f"{what}: {_difference(groups, hosts)}"
        yield Finding(severity, claim, hint=hint, rank=first, host=hosts[first])


def where(ranks: Sequence[int], hosts: Sequence[str], everywhere: str) -> tuple[str, int | None, str]:
    """Some ranks in words, ``everywhere`` where that is all of them; else also the first and its host."""
    if len(ranks) == len(hosts):
        return everywhere, None, ""
    return name_ranks(ranks, hosts), ranks[0], hosts[ranks[0]]


def _difference(groups: Sequence[tuple[str, list[int]]], hosts: Sequence[str]) -> str:
    """What the odd ones have and what the others: ``2.27.7 on rank 2 (h3), 2.30.4 on the other 3``."""
    (usual, at), *rest = groups
    said = [f"{value} on {name_ranks(places, hosts)}" for value, places in rest[:_MOST_NAMED]]
    if len(rest) > _MOST_NAMED:
        said.append(f"other values on {sum(len(places) for _, places in rest[_MOST_NAMED:])} more")
    is_most = len(at) > sum(len(places) for _, places in rest)  # else none can be called odd
    said.append(f"{usual} on " + (f"the other {len(at)}" if is_most else name_ranks(at, hosts)))
    return ", ".join(said)


def judged(
    checks: Mapping[str, Callable[[F], Iterator[Finding]]], facts: F, *, strict: bool
) -> tuple[Finding, ...]:
    """What all checks find in the facts, the worst first."""
    found = [replace(each, check=name) for name, find in checks.items() for each in find(facts)]
    return worst_first(strictly(found) if strict else found)
