"""Where a run took place and with what, out of its record. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from busbw.model.record import HostInfo, RankInfo, RunRecord


@dataclass(frozen=True)
class HostRanks:
    """A host: which ranks it had, who it is to others, and where --topology found it."""

    ranks: tuple[int, ...]
    place: HostInfo
    switches: tuple[str, ...] = ()
    domain: str = ""


@dataclass(frozen=True)
class Library:
    """A shared library. ``ranks`` is empty for those that only rank 0's process tells of."""

    name: str
    version: str
    build_id: str
    path: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """``order`` says what the ranks' order follows, empty where nothing asked for one; ``modules`` are
    (name, file); ``presets`` are NAME@DATE, and ``overridden`` tells of each variable of theirs that another
    value took the place of; ``measured`` the library that was measured, once for each different one;
    ``image`` is what rank 0's container image says of itself (``probes.image``), empty outside one.
    """

    run_id: str
    busbw_version: str
    created: str
    command: tuple[str, ...]
    order: str
    presets: tuple[str, ...]
    overridden: tuple[str, ...]
    hosts: tuple[HostRanks, ...]
    modules: tuple[tuple[str, str], ...]
    measured: tuple[Library, ...]
    libraries: tuple[Library, ...]
    files: tuple[str, ...]
    image: Mapping[str, Any] = field(default_factory=dict)


def provenance(record: RunRecord, files: Sequence[str] = ()) -> Provenance:
    """Gather it; ``files`` are the run folder's files of evidence."""
    order: Mapping[str, Any] = record.settings.get("rank_order") or {}
    modules = record.environment.get("modules", ())
    module_files = record.environment.get("module_files", ())
    if len(module_files) != len(modules):
        module_files = ("",) * len(modules)
    ranks = record.world.ranks if record.world is not None else ()
    return Provenance(
        run_id=record.run_id,
        busbw_version=record.busbw_version,
        created=record.created,
        command=record.argv,
        order=str(order.get("by", "")),
        presets=tuple(record.settings.get("presets_used") or ()),
        overridden=tuple(record.settings.get("overridden") or ()),
        hosts=_hosts(record, order),
        modules=tuple(zip(modules, module_files, strict=True)),
        measured=_measured(ranks),
        libraries=tuple(_mapped(each) for each in record.machine.get("libraries", ())),
        files=tuple(files),
        image=record.machine.get("image", {}),
    )


def _hosts(record: RunRecord, order: Mapping[str, Any]) -> tuple[HostRanks, ...]:
    if record.world is None:
        return ()
    places = {place.host: place for place in record.world.places}
    ordered = {each["host"]: each for each in order.get("hosts", ())}
    found = []
    for host in record.world.hosts:
        place = places.get(host, HostInfo(host))
        # A host's own name is not always the one that it was asked for by.
        names = (getattr(place, each.name) for each in fields(place))
        known: Mapping[str, Any] = next((ordered[name] for name in names if name in ordered), {})
        ranks = tuple(rank.rank for rank in record.world.ranks if rank.host == host)
        switches, domain = tuple(known.get("switches", ())), known.get("domain", "")
        found.append(HostRanks(ranks, place, switches, domain or place.nvlink_domain))
    return tuple(found)


def _measured(ranks: Sequence[RankInfo]) -> tuple[Library, ...]:
    alike: dict[tuple[str, str, str, str], list[int]] = {}
    for rank in ranks:
        what = (rank.library, rank.library_version, rank.library_build_id, rank.library_path)
        if rank.library:
            alike.setdefault(what, []).append(rank.rank)
    return tuple(Library(*what, tuple(who)) for what, who in alike.items())


def _mapped(fields_of: Mapping[str, str]) -> Library:
    path = fields_of.get("path", "")
    name = fields_of.get("soname") or path.rpartition("/")[2]
    return Library(name, fields_of.get("version", ""), fields_of.get("build_id", ""), path)
