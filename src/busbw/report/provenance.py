"""Where a run took place and with what, out of its record and as text. Pure.

Every line that is not a row of a table starts with #; a column stands only where some row has a value.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from busbw.model.record import HostInfo, RunRecord
from busbw.report.fields import aligned, fact, facts
from busbw.units import ranges

Values = dict[str, Any]


def provenance(record: RunRecord, files: Sequence[str] = ()) -> Values:
    """Gather it, as plain values; ``files`` are the run folder's files of evidence.

    ``order`` says what the ranks' order follows, empty where nothing asked for one; ``modules`` are (name,
    file); ``presets`` are NAME@DATE, and ``overridden`` names each variable of theirs that another value took
    the place of; ``measured`` is the library that was measured, once for each different one, ``libraries``
    those that rank 0's process had mapped; ``image`` is what rank 0's container image says of itself
    (``machine.image``), empty outside one.
    """
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
    return {
        "run_id": record.run_id,
        "busbw_version": record.busbw_version,
        "created": measured_words(record) if record.created_by_file else record.created,
        "command": record.argv,
        "order": str(order.get("by", "")),
        "presets": tuple(record.settings.get("presets_used") or ()),
        "overridden": tuple(record.settings.get("overridden") or ()),
        "hosts": _hosts(record, order),
        "modules": list(zip(modules, module_files, strict=True)),
        "measured": [_library(*what, ranks=ranks) for what, ranks in alike.items()],
        "libraries": [
            _library(
                each.get("soname") or each.get("path", "").rpartition("/")[2],
                *(each.get(name, "") for name in ("version", "build_id", "path")),
            )
            for each in record.machine.get("libraries", ())
        ],
        "files": tuple(files),
        "image": record.machine.get("image", {}),
    }


def _library(name: str, version: str, build_id: str, path: str, ranks: Sequence[int] = ()) -> Values:
    return {"name": name, "version": version, "build_id": build_id, "path": path, "ranks": tuple(ranks)}


def measured_words(record: RunRecord) -> str:
    """When a run was measured; of a log that does not say it, what its file's date is."""
    when = record.created[:19].replace("T", " ")
    if record.created_by_file:
        told = record.source.fields["created"] if record.source is not None else ""
        return f"not stated ({'file dated' if told == 'file' else told} {when})"
    return when


def _hosts(record: RunRecord, order: Mapping[str, Any]) -> list[Values]:
    """Each host: which ranks it had, who it is to others, and where --topology found it."""
    if record.world is None:
        return []
    places = {place.host: place for place in record.world.places}
    ordered = {each["host"]: each for each in order.get("hosts", ())}
    found = []
    for host in record.world.hosts:
        place = asdict(places.get(host, HostInfo(host)))
        # A host's own name is not always the one that it was asked for by.
        known: Mapping[str, Any] = next((ordered[name] for name in place.values() if name in ordered), {})
        ranks = tuple(rank.rank for rank in record.world.ranks if rank.host == host)
        domain = known.get("domain") or place["nvlink_domain"]
        switches = tuple(known.get("switches", ()))
        found.append({"ranks": ranks, "place": place, "switches": switches, "domain": domain})
    return found


# ---- as text ----------------------------------------------------------------------------------------------


def _host_cells(host: Values) -> dict[str, str]:
    """By their titles; a vendor's and a product's name may have spaces, so they are last."""
    place = host["place"]
    return {
        "host": place["host"],
        "ranks": ranges(host["ranks"]),
        "instance": place["instance"],
        "slurm node": place["slurm_node"],
        "job": place["slurm_job"],
        "pod": "/".join(filter(None, (place["pod_namespace"], place["pod"]))),
        "node": place["kubernetes_node"],
        "switches": "/".join(host["switches"]) or place["slurm_topology"],
        "NVLink domain": host["domain"],
        "image": place["image"],
        "product": place["product"],
        "vendor": place["vendor"],
    }


def provenance_lines(told: Values) -> Iterator[str]:
    """The whole of it."""
    yield fact("run", f"{told['run_id']}, busbw {told['busbw_version']}, {told['created']}")
    said = (
        ("command", shlex.join(told["command"])),
        ("preset", ", ".join(told["presets"])),
        *(("override", text) for text in told["overridden"]),
        ("ranks", told["order"] and f"in the order of {told['order']}"),
    )
    yield from facts((name, text) for name, text in said if text)
    if rows := list(map(_host_cells, told["hosts"])):
        titles = [title for title in rows[0] if any(row[title] for row in rows)]
        yield from _table(titles, [[row[title] for title in titles] for row in rows])
    if image := told["image"]:
        yield from (
            "#",
            f"# image of rank 0: {image.get('image', '')}, on {image.get('base', 'an unknown base')}",
        )
        # Versions that were asked for, and packages that came without one.
        parts = {**image.get("packages", {}), **image.get("versions", {})}
        yield from _table(("part", "version"), [(name, str(version)) for name, version in parts.items()])
    if told["modules"]:
        yield from ("#", "# modules loaded where rank 0 ran")
        yield from _table(("module", "file"), told["modules"])
    if libraries := [*told["measured"], *told["libraries"]]:
        yield from ("#", "# libraries: what was measured, by rank, and what rank 0's process had mapped")
        cells = [
            (each["name"], ranges(each["ranks"]), each["version"], each["build_id"], each["path"])
            for each in libraries
        ]
        yield from _table(("library", "ranks", "version", "build id", "path"), cells)
    if told["files"]:
        yield from ("#", f"# files in the run's folder: {', '.join(told['files'])}")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest value; what is empty is a dash. Nothing without rows."""
    if not rows:
        return
    head, *lines = aligned([titles, *([value or "-" for value in row] for row in rows)])
    yield f"# {head}"
    yield from (f"  {line}" for line in lines)
