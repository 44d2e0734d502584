"""A reference: a measured curve of one operation, with everything that must match for it to say anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Final

SCHEMA: Final = 1
# Between two points further apart than this the curve bends where the protocol changes: at a factor of
# 4, 24 of 566 points are below 90 % of what their neighbours give (benchmarks/compare/interpolation.py).
MOST_STEP: Final = 2.0
_SAME_SIZE: Final = 1e-3


@dataclass(frozen=True)
class Point:
    """One size and placement. ``times_us`` has one time a launch, whose median the bandwidth is of; it is
    empty where a source gives the bandwidth only.
    """

    size_bytes: int
    placement: str
    busbw_gb_per_s: float
    times_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reference:
    """``ranks`` is what busbw / algbw says, ``ranks_stated`` what the source does. ``machine`` names the
    nodes, ``device`` their accelerators, ``definition`` what a time is; ``nodes`` is 0 where not known.
    ``kind``: log (a published table), value (a published number), own (measured with busbw) or saved (by a
    user). ``root`` is None where there is none or the source does not say it. ``timed`` says how calls were
    issued where that was not back to back by one process a GPU (``judge.matching``); ``rotated`` has sizes in
    order, each with the bytes of the buffers that calls up to it rotated through; ``left_out`` is why a
    reference is shown and never used. ``pattern`` says who exchanges what with whom (``judge.pattern``);
    empty where all ranks together do, evenly. ``buffers`` says where those of its calls lay; empty where it
    is not known. ``environment`` are the settings that it was tuned with (``judge.measured_with``); None
    where that is not known. ``network`` is what was between its nodes (``judge.network``), ``product`` what
    their firmware calls them (on EC2 the instance type); empty where not known.
    """

    name: str
    kind: str
    ranks: int
    nodes: int
    date: str
    source: str
    definition: str
    points: tuple[Point, ...]
    operation: str = ""
    machine: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    dtype: str = ""
    op: str = ""
    root: int | None = None
    ranks_stated: int | None = None
    environment: Mapping[str, str] | None = None
    sha256: str = ""
    note: str = ""
    left_out: str = ""
    timed: str = ""
    rotated: tuple[tuple[int, int], ...] = ()
    pattern: str = ""
    buffers: str = ""
    network: str = ""
    product: str = ""

    @cached_property
    def launches(self) -> int:
        """Launches behind each point; 1 for a log."""
        return max((len(point.times_us) for point in self.points), default=0) or 1

    def rotated_bytes(self, size_bytes: int) -> int:
        """Of the buffers that calls of this size rotated through; 0 where it is not known."""
        return next((bytes_ for most, bytes_ in self.rotated if size_bytes <= most), 0)

    @property
    def versions_text(self) -> str:
        """All versions in one line; ``not stated`` where the source is silent."""
        return ", ".join(f"{name} {value}".strip() for name, value in self.versions.items()) or "not stated"


@dataclass(frozen=True)
class Expected:
    """A reference's value at a size: that of the geometric mean of its launches' times."""

    busbw_gb_per_s: float
    interpolated: bool
    launches: int


def impossible(reference: Reference) -> str:
    """The first point with a number that no measurement can be, by its key; empty where there is none."""
    for index, point in enumerate(reference.points):
        numbers = {"size_bytes": point.size_bytes, "busbw_gb_per_s": point.busbw_gb_per_s}
        for name, value in numbers.items():
            if value < 0:
                return f"points[{index}].{name} is {value:g}"
        if point.times_us and min(point.times_us) <= 0:
            return f"points[{index}].times_us has {min(point.times_us):g}, not above 0"
    return ""


def value_at(reference: Reference, size_bytes: int, placement: str) -> Expected | None:
    """The reference's bus bandwidth at a size: that of the point, or interpolated on a straight line between
    the logarithms of size and bandwidth. None outside its sizes, and where its points are too far apart; a
    size of 0 has no bandwidth.
    """
    if size_bytes <= 0:
        return None
    points = sorted(
        (point for point in reference.points if point.placement == placement and point.busbw_gb_per_s > 0),
        key=lambda point: point.size_bytes,
    )
    for point in points:
        if abs(point.size_bytes / size_bytes - 1) <= _SAME_SIZE:
            return Expected(_speed(point), False, _launches(point))
    for below, above in pairwise(points):
        if below.size_bytes < size_bytes < above.size_bytes <= MOST_STEP * below.size_bytes:
            share = math.log(size_bytes / below.size_bytes) / math.log(above.size_bytes / below.size_bytes)
            value = _speed(below) ** (1 - share) * _speed(above) ** share
            return Expected(value, True, min(_launches(below), _launches(above)))
    return None


def _speed(point: Point) -> float:
    """The bandwidth at the geometric mean of the launches' times: Student's t is of means, not of medians."""
    if not point.times_us:
        return point.busbw_gb_per_s
    mean_log = math.fsum(map(math.log, point.times_us)) / len(point.times_us)
    return point.busbw_gb_per_s * median(point.times_us) / math.exp(mean_log)


def _launches(point: Point) -> int:
    return len(point.times_us) or 1
