"""Which hosts share switches, from what --topology names, and the rank order that follows. Pure, but for
reading the files and asking Slurm.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import UsageError, why
from busbw.launch.scheduler import call
from busbw.launch.topology.kinds import KINDS, Document, Place, Row
from busbw.record.folder import RUN_FILE
from busbw.units import first_of

if TYPE_CHECKING:
    from busbw.plan.flags.launch import LaunchSettings

# The word that stands for what the cluster's own Slurm says.
SLURM: Final = "slurm"
# How many hosts a line for people names.
_MOST_NAMED: Final = 8
_NUMERIC: Final = re.compile(r"[\d.]+\Z|.*:")


@dataclass(frozen=True)
class Topology:
    """What all sources say together. ``places`` have the sources' own names of hosts; ``also`` has for a name
    the others of the same host. ``sources`` are (what it is, where it was read).
    """

    sources: tuple[tuple[str, str], ...]
    places: Mapping[str, Place]
    also: Mapping[str, tuple[str, ...]]

    def find(self, names: Iterable[str]) -> Place | None:
        """The place of a host by any of its names, through other names that it is known to have."""
        known = list(dict.fromkeys(form for name in names for form in _forms(name)))
        for name in known:  # it grows
            known += [other for other in self.also.get(name, ()) if other not in known]
        found = [self.places[name] for name in known if name in self.places]
        place = Place(
            next((each.switches for each in found if each.switches), ()),
            next((each.domain for each in found if each.domain), ""),
        )
        return place if place != Place() else None


@dataclass(frozen=True)
class RankOrder:
    """Hosts so that neighbours share the lowest switch. ``hosts`` has them all, those that no source knows
    (``unknown``) last, each group in the order that was given.
    """

    sources: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    count: int | None = None  # of hosts, where some stand in it by several names

    @property
    def by(self) -> str:
        """What it follows, and from where: ``aws (topology.json)``."""
        return ", ".join(f"{kind} ({where})" for kind, where in self.sources)

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user."""
        lowest = dict.fromkeys((place.switches, place.domain) for place in self.places.values())
        count = len(self.places) if self.count is None else self.count
        shared = f"{count} hosts at {len(lowest)} lowest switches or NVLink domains"
        lines = [f"rank order by {self.by}: {shared}"]
        if self.unknown:
            lines.append(f"not in the topology, so last: {first_of(self.unknown, _MOST_NAMED)}")
        return tuple(lines)

    def within(self, hosts: Iterable[str]) -> RankOrder:
        """The order of these hosts alone."""
        kept = frozenset(hosts)
        return replace(
            self,
            hosts=tuple(host for host in self.hosts if host in kept),
            unknown=tuple(host for host in self.unknown if host in kept),
            places={host: place for host, place in self.places.items() if host in kept},
        )

    def to_fields(self) -> dict[str, Any]:
        """Plain JSON values, for the record."""
        places = {host: self.places.get(host, Place()) for host in self.hosts}
        return {
            "by": self.by,
            "hosts": [
                {"host": host, "switches": list(place.switches), "domain": place.domain}
                for host, place in places.items()
            ],
            "unknown": list(self.unknown),
        }


def read_topology(launch: LaunchSettings) -> Topology | None:
    """What --topology names; None without it. Raises UsageError for what cannot be read or is not understood,
    SiteError where Slurm does not answer.
    """
    return read([(name, _text(name)) for name in launch.topology]) if launch.topology else None


def _text(name: str) -> str:
    if name == SLURM:
        return call("scontrol", "show", "topology")
    path = Path(name) / RUN_FILE if Path(name).is_dir() else Path(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read --topology {name}: {why(error)}", hint="name a file, a run's folder, or slurm"
        ) from error


def read(texts: Sequence[tuple[str, str]]) -> Topology:
    """What (where it was read, text) pairs say. Raises UsageError for a text of no known kind, and where none
    says where hosts hang.
    """
    places, names = dict[str, Place](), list[tuple[str, ...]]()
    sources = list[tuple[str, str]]()
    for where, text in texts:
        kind, rows = _read(where, text)
        sources.append((kind, where))
        for name, place in {row[0]: place for row, place in rows if place is not None}.items():
            before = places.get(name, Place())
            places[name] = Place(before.switches or place.switches, before.domain or place.domain)
        # A name that one source gives to several hosts, such as 127.0.0.1, identifies none.
        groups = [row for row, _ in rows if len(row) > 1]
        uses = Counter(name for group in groups for name in group)
        names += (tuple(name for name in group if uses[name] == 1) for group in groups)
    if not any(place != Place() for place in places.values()):
        read_from = ", ".join(where for where, _ in texts)
        raise UsageError(f"--topology {read_from} has no switches for any host", hint=_hint())
    return Topology(tuple(sources), places, _also([*names, *((name,) for name in places)]))


def order(topology: Topology, hosts: Iterable[Sequence[str]]) -> RankOrder:
    """The rank order of hosts, each given by all of its names, the one that is used first. Raises UsageError
    where the topology knows none of them.
    """
    found = {names[0]: topology.find(names) for names in hosts}
    places = {host: place for host, place in found.items() if place is not None}
    if not places:
        where = ", ".join(path for _, path in topology.sources)
        raise UsageError(
            f"--topology {where} has none of the hosts: {first_of(found, _MOST_NAMED)}",
            hint="add a --topology file that says which host is which (lines `HOST INSTANCE`, a run)",
        )
    unknown = tuple(host for host in found if host not in places)
    return RankOrder(topology.sources, (*_sorted(places), *unknown), unknown, places)


def order_of(topology: Topology | None) -> RankOrder | None:
    """The order of all names that the topology has, for engines that choose the hosts later; None without
    one.
    """
    if topology is None:
        return None
    names = dict.fromkeys((*topology.places, *topology.also))
    found = order(topology, [(name,) for name in names if topology.find((name,)) is not None])
    return replace(found, count=sum(place != Place() for place in topology.places.values()))


def _sorted(places: Mapping[str, Place]) -> list[str]:
    """Switch by switch from the top, each in the order of its first host, so that what was near stays where
    it was. An NVLink domain is one piece, though its hosts may have different switches: it hangs below the
    lowest switch that they share, whichever of them comes first, so that a second sort changes nothing.
    """
    shared: dict[str, tuple[str, ...]] = {}
    for place in places.values():
        if place.domain and place.switches:
            shared[place.domain] = _common(shared.get(place.domain, place.switches), place.switches)
    # Every path ends with a mark of its own: a host with fewer layers is no better than its neighbours.
    paths = {
        host: (
            *(shared.get(place.domain, ()) if place.domain else place.switches),
            (place.domain,),
            *place.switches,
            (),
        )
        for host, place in places.items()
    }
    first: dict[tuple[object, ...], int] = {}
    keys = {
        host: [first.setdefault(path[:depth], len(first)) for depth in range(1, len(path) + 1)]
        for host, path in paths.items()
    }
    return sorted(places, key=keys.__getitem__)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """What two paths from the top share."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(switch for switch, _ in pairs)


def _read(where: str, text: str) -> tuple[str, list[Row]]:
    document: Document = text
    if text.lstrip().startswith(("{", "[")):
        try:
            document = json.loads(text)
        except ValueError as error:
            raise UsageError(f"--topology {where} is not JSON: {error}", hint=_hint()) from error
    kind = next((kind for kind in KINDS if kind.fits(document)), None)
    if kind is None:
        raise UsageError(f"--topology {where} has no known format", hint=_hint())
    try:
        rows = list(kind.read(document))
        hash(tuple(rows))  # a TypeError where a name is a list
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--topology {where} looks like {kind.name}, but is damaged ({type(error).__name__}: {error})",
            hint=f"write it again with: {kind.made_by}",
        ) from error
    return kind.name, rows


def _hint() -> str:
    return f"give the output of one of: {'; '.join(kind.made_by for kind in KINDS)}"


def _also(groups: Iterable[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """For each name the other names of its host; a short name only where it is one host's."""
    also: dict[str, dict[str, None]] = {}
    shorts: dict[str, set[str]] = {}
    for names in groups:
        for name in names:
            also.setdefault(name, {}).update(dict.fromkeys(other for other in names if other != name))
            for short in _forms(name)[1:]:
                shorts.setdefault(short, set()).add(name)
    for short, longs in shorts.items():
        if len(longs) == 1:
            also.setdefault(short, {}).update(dict.fromkeys(longs))
    return {name: tuple(others) for name, others in also.items() if others}


def _forms(name: str) -> tuple[str, ...]:
    """A host as it was named, without a user and brackets, and by its short name."""
    plain = name.rpartition("@")[2].strip("[]")
    short = plain.partition(".")[0]
    return (plain,) if short == plain or _NUMERIC.match(plain) else (plain, short)
