"""Where a run took place and with what, out of its record and as text. Pure.

Every line that is not a row of a table starts with #; a column stands only where some row has a value.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from busbw.model.record import HostInfo, RunRecord
from busbw.report.fields import aligned
from busbw.units import ranges


@dataclass(frozen=True)
class HostRanks:
    """A host: which ranks it had, who it is to others, and where --topology found it."""

    ranks: tuple[int, ...]
    place: HostInfo
    switches: tuple[str, ...] = ()
    domain: str = ""


@dataclass(frozen=True)
class LibraryUse:
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
    ``image`` is what rank 0's container image says of itself (``machine.image``), empty outside one.
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
    measured: tuple[LibraryUse, ...]
    libraries: tuple[LibraryUse, ...]
    files: tuple[str, ...]
    image: Mapping[str, Any] = field(default_factory=dict)


def provenance(record: RunRecord, files: Sequence[str] = ()) -> Provenance:
    """Gather it; ``files`` are the run folder's files of evidence."""
    order: Mapping[str, Any] = record.settings.get("rank_order") or {}
    modules = record.environment.get("modules", ())
    module_files = record.environment.get("module_files", ())
    if len(module_files) != len(modules):
        module_files = ("",) * len(modules)
    alike: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for rank in record.world.ranks if record.world is not None else ():
        if rank.library:
            what = (rank.library, rank.library_version, rank.library_build_id, rank.library_path)
            alike[what].append(rank.rank)
    return Provenance(
        run_id=record.run_id,
        busbw_version=record.busbw_version,
        created=measured_words(record) if record.created_by_file else record.created,
        command=record.argv,
        order=str(order.get("by", "")),
        presets=tuple(record.settings.get("presets_used") or ()),
        overridden=tuple(record.settings.get("overridden") or ()),
        hosts=_hosts(record, order),
        modules=tuple(zip(modules, module_files, strict=True)),
        measured=tuple(LibraryUse(*what, tuple(who)) for what, who in alike.items()),
        libraries=tuple(
            LibraryUse(
                each.get("soname") or each.get("path", "").rpartition("/")[2],
                *(each.get(name, "") for name in ("version", "build_id", "path")),
            )
            for each in record.machine.get("libraries", ())
        ),
        files=tuple(files),
        image=record.machine.get("image", {}),
    )


def measured_words(record: RunRecord) -> str:
    """When a run was measured; of a log that does not say it, what its file's date is."""
    when = record.created[:19].replace("T", " ")
    if record.created_by_file:
        told = record.source.fields["created"] if record.source is not None else ""
        return f"not stated ({'file dated' if told == 'file' else told} {when})"
    return when


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


# ---- as text ----------------------------------------------------------------------------------------------

# Titles and values; a vendor's and a product's name may have spaces, so they are last.
_HOST_COLUMNS: Final[Mapping[str, Callable[[HostRanks], str]]] = {
    "host": lambda host: host.place.host,
    "ranks": lambda host: ranges(host.ranks),
    "instance": lambda host: host.place.instance,
    "slurm node": lambda host: host.place.slurm_node,
    "job": lambda host: host.place.slurm_job,
    "pod": lambda host: "/".join(filter(None, (host.place.pod_namespace, host.place.pod))),
    "node": lambda host: host.place.kubernetes_node,
    "switches": lambda host: "/".join(host.switches) or host.place.slurm_topology,
    "NVLink domain": lambda host: host.domain,
    "image": lambda host: host.place.image,
    "product": lambda host: host.place.product,
    "vendor": lambda host: host.place.vendor,
}


def provenance_lines(told: Provenance) -> Iterator[str]:
    """The whole of it."""
    yield f"# run      {told.run_id}, busbw {told.busbw_version}, {told.created}"
    if told.command:
        yield f"# command  {shlex.join(told.command)}"
    if told.presets:
        yield f"# preset   {', '.join(told.presets)}"
    for line in told.overridden:
        yield f"# override {line}"
    if told.order:
        yield f"# ranks    in the order of {told.order}"
    if told.hosts:
        columns = {title: [value(host) for host in told.hosts] for title, value in _HOST_COLUMNS.items()}
        shown = {title: column for title, column in columns.items() if any(column)}
        yield from _table(tuple(shown), list(zip(*shown.values(), strict=True)))
    if image := told.image:
        yield "#"
        yield f"# image of rank 0: {image.get('image', '')}, on {image.get('base', 'an unknown base')}"
        # Versions that were asked for, and packages that came without one.
        parts = {**image.get("packages", {}), **image.get("versions", {})}
        yield from _table(("part", "version"), [(name, str(version)) for name, version in parts.items()])
    if told.modules:
        yield "#"
        yield "# modules loaded where rank 0 ran"
        yield from _table(("module", "file"), told.modules)
    if told.measured or told.libraries:
        yield "#"
        yield "# libraries: what was measured, by rank, and what rank 0's process had mapped"
        rows = [
            (each.name, ranges(each.ranks), each.version, each.build_id, each.path)
            for each in (*told.measured, *told.libraries)
        ]
        yield from _table(("library", "ranks", "version", "build id", "path"), rows)
    if told.files:
        yield "#"
        yield f"# files in the run's folder: {', '.join(told.files)}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest value; what is empty is a dash. Nothing without rows."""
    if not rows:
        return
    head, *lines = aligned([titles, *([value or "-" for value in row] for row in rows)])
    yield f"# {head}"
    yield from (f"  {line}" for line in lines)
