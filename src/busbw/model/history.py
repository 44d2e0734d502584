"""What is kept of every launch, and what its series show: values of the index of the run home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Measured(NamedTuple):
    """What a launch measured of one case: its time, and the bytes that give bus bandwidth (GB/s) over that
    time in ns; None where the case has no bus bandwidth.
    """

    time_ns: float
    bus_bytes: float | None = None


class KeptCase(NamedTuple):
    """A case of a launch. ``kind`` is ``CaseKey.kind``: operation, type, reduction, placement and the rest of
    what is one curve over sizes.
    """

    operation: str
    kind: str
    size_bytes: int


@dataclass(frozen=True)
class Testbed:
    """What launches must share to be points of one series, beside the case: the kind of machine, and the
    settings that change what is timed. ``key`` is a digest of both.
    """

    key: str
    machine: Mapping[str, str | int]
    settings: Mapping[str, str | int]


@dataclass(frozen=True)
class Launch:
    """One launch. ``run`` is the run folder's path in the home, ``ended`` an ISO 8601 time in UTC; ``alike``
    is a digest of the settings and the library's version. ``explains`` has what may change between points of
    a series, by name: versions, driver, firmware, nodes. ``excluded`` and ``accepted`` say why the user took
    it out of its series, or its level as the new one.
    """

    run: str
    ended: str
    testbed: Testbed
    alike: str
    cases: Mapping[KeptCase, Measured]
    explains: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    version: str = ""
    imported: bool = False
    excluded: str = ""
    accepted: str = ""


class Series(NamedTuple):
    """A series as the index knows it: ``number`` is the index's own."""

    number: int
    testbed: Testbed
    case: KeptCase
    bus_bytes: float | None


class Point(NamedTuple):
    """A launch in its series. ``at`` orders the points of a series (see ``record.index``)."""

    at: int
    launch: int
    time_ns: float


@dataclass(frozen=True)
class Change:
    """A change of level. ``at`` and ``launch`` are of the first point of the new level, ``found`` is the
    ``at`` of the point with which it was seen; ``before_ns`` and ``after_ns`` are the levels on both sides,
    ``explained`` is what else changed there, in words.
    """

    at: int
    launch: int
    found: int
    before_ns: float
    after_ns: float
    explained: tuple[str, ...] = ()

    @property
    def speed(self) -> float:
        """How much faster the new level is, as a share: -0.05 where bandwidth fell by 5 %."""
        return self.before_ns / self.after_ns - 1


@dataclass(frozen=True)
class Level:
    """Where a series stands. ``expected_ns`` is the level that a new launch is held against: the newest that
    is as fast as those before it, or was accepted. ``now_ns`` is the newest level; ``is_lost``: it is slower
    than the expected one by more than launches differ. ``deviation`` is the relative standard deviation of
    launches about their levels with its ``degrees`` of freedom, ``launches`` how many of the newest are of
    the expected level. ``change`` is the newest change, None where there was none.
    """

    expected_ns: float
    now_ns: float
    is_lost: bool
    deviation: float
    degrees: int
    launches: int
    bus_bytes: float | None = None
    change: Change | None = None
