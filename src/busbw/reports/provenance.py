"""Where a run took place and with what, as text. Pure.

Every line that is not a row of a table starts with #; a column stands only where some row has a value.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from busbw.analysis.provenance import HostRanks, Library, Provenance

HostColumn = tuple[str, Callable[[HostRanks], str]]
# Titles and values; a vendor's and a product's name may have spaces, so they are last.
HOST_COLUMNS: Final[tuple[HostColumn, ...]] = (
    ("host", lambda host: host.place.host),
    ("ranks", lambda host: _ranges(host.ranks)),
    ("instance", lambda host: host.place.instance),
    ("slurm node", lambda host: host.place.slurm_node),
    ("job", lambda host: host.place.slurm_job),
    ("pod", lambda host: "/".join(filter(None, (host.place.pod_namespace, host.place.pod)))),
    ("node", lambda host: host.place.kubernetes_node),
    ("switches", lambda host: "/".join(host.switches) or host.place.slurm_topology),
    ("NVLink domain", lambda host: host.domain),
    ("image", lambda host: host.place.image),
    ("product", lambda host: host.place.product),
    ("vendor", lambda host: host.place.vendor),
)
_NONE: Final = "-"


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
        shown = [column for column in HOST_COLUMNS if any(column[1](host) for host in told.hosts)]
        rows = [[value(host) for _, value in shown] for host in told.hosts]
        yield from _table([title for title, _ in shown], rows)
    if told.image:
        yield from _image(told.image)
    if told.modules:
        yield "#"
        yield "# modules loaded where rank 0 ran"
        yield from _table(["module", "file"], [list(module) for module in told.modules])
    if told.measured or told.libraries:
        yield "#"
        yield "# libraries: what was measured, by rank, and what rank 0's process had mapped"
        titles = ["library", "ranks", "version", "build id", "path"]
        yield from _table(titles, [_library(each) for each in (*told.measured, *told.libraries)])
    if told.files:
        yield "#"
        yield f"# files in the run's folder: {', '.join(told.files)}"


def _image(image: Mapping[str, Any]) -> Iterator[str]:
    """What rank 0's image is made of: versions that were asked for, and packages that came without one."""
    yield "#"
    yield f"# image of rank 0: {image.get('image', '')}, on {image.get('base', 'an unknown base')}"
    parts = {**image.get("packages", {}), **image.get("versions", {})}
    if parts:
        yield from _table(["part", "version"], [[name, str(version)] for name, version in parts.items()])


def _library(library: Library) -> list[str]:
    ranks = _ranges(library.ranks) if library.ranks else ""
    return [library.name, ranks, library.version, library.build_id, library.path]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest value; what is empty is a dash."""
    filled = [[value or _NONE for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *filled, strict=True)]
    head = "  ".join(title.ljust(width) for title, width in zip(titles, widths, strict=True))
    yield f"# {head}".rstrip()
    for row in filled:
        yield "  " + "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3,8``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)
