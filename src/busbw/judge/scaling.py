"""How a collective scales: bus bandwidth and percentiles against the number of nodes, for every size. Each
setup has a curve of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from busbw.judge.compare_arms import (
    CaseKey,
    bandwidth_of,
    buffers,
    definition,
    device,
    failures,
    key_of,
    nodes,
    ranks,
    setup,
    version,
)
from busbw.judge.measured_with import differing
from busbw.judge.pattern import joined, where
from busbw.judge.samples import case_times
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.stats.percentile import percentile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Percentiles = Mapping[str, float | None]
"""Of a case's samples, in ns, by their NAMES; None where there were too few for one."""

NAMES: Final = ("p50", "p95", "p99", "max")
# What a run that failed before its first case is a row of.
NO_TIME: Final = "no time"
NO_CASE: Final = CaseKey("any operation", "", "", -1, "", 0)


@dataclass(frozen=True, order=True)
class Place:
    """What runs of one row share, in the order of rows: a curve's are below one another. ``nodes`` is 0 where
    not known, ``setup`` empty where none was named.
    """

    curve: CaseKey  # its case, of no size
    setup: str
    definition: str
    version: str
    size_bytes: int
    nodes: int
    ranks: int

    @property
    def key(self) -> CaseKey:
        """The case."""
        return replace(self.curve, size_bytes=self.size_bytes)


@dataclass(frozen=True)
class ScalingRow(Place):
    """One size on one number of nodes. Numbers are medians over the runs that have the case, ``runs`` of
    them; ``failed`` more had it and no number, the last one for ``why``. Runs that failed before their first
    case have a row of their own, with NO_CASE's placement and size. ``differs`` says which variables or
    libraries its runs do not share.
    """

    runs: int
    busbw_gb_per_s: float | None
    time_ns: float | None
    spread: Percentiles
    failed: int
    why: str
    differs: str

    @property
    def has_case(self) -> bool:
        """Whether it is of a size; else of runs that came to none."""
        return self.curve.placement != NO_CASE.placement


@dataclass(frozen=True)
class Measured:
    """A record, and the samples of its cases where it has any (by case number). ``setup`` names what it was
    measured with, where the record itself does not.
    """

    record: RunRecord
    spreads: Mapping[int, Percentiles]
    setup: str = ""


@dataclass(frozen=True)
class Failed:
    """A launch of which there is no record. ``nodes`` is 0 where not known."""

    setup: str
    nodes: int
    why: str


@dataclass(frozen=True)
class _Seen:
    """A launch in a row: its good result of the case, or ``why`` it has none."""

    why: str
    record: RunRecord | None = None
    result: CaseResult | None = None
    spread: Percentiles = field(default_factory=dict)


def spreads(record: RunRecord, samples: npt.NDArray[np.void]) -> dict[int, Percentiles]:
    """Percentiles of single calls of every case, as ``--stats`` has them: of the pass with one call a sample
    where there is one, without what outside evidence speaks against. A sample of several calls is their mean
    and has none of one call to give.
    """
    import numpy as np

    found: dict[int, Percentiles] = {}
    for case in np.unique(samples["case"]).tolist():
        parts = case_times(case, record.plan.timing.time, samples)
        if parts and parts[-1].calls_per_sample == 1:
            times = parts[-1].kept_ns
            most = float(times.max()) if len(times) else None
            found[case] = {**{name: percentile(times, float(name[1:])) for name in NAMES[:-1]}, "max": most}
    return found


def over_launches(launches: Sequence[Mapping[int, Percentiles]]) -> dict[int, Percentiles]:
    """Of several launches of one plan the medians, and the largest maximum; of cases that all have."""
    common = set.intersection(*(set(each) for each in launches)) if launches else set[int]()
    return {case: _over([each[case] for each in launches]) for case in sorted(common)}


def _over(found: Sequence[Percentiles]) -> Percentiles:
    over: dict[str, float | None] = {}
    for name in NAMES:
        values = [value for each in found if (value := each.get(name)) is not None]
        over[name] = (max if name == "max" else median)(values) if values else None
    return over


def scaling(measured: Iterable[Measured], failed: Iterable[Failed] = ()) -> tuple[ScalingRow, ...]:
    """Rows by operation, placement, setup, definition, version, size and number of nodes. ``failed`` are
    counted. Runs under a profiler have no place beside others.
    """
    groups: dict[Place, list[_Seen]] = defaultdict(list)
    for one in measured:
        record = one.record
        if record.profiled:
            continue
        named, of_nodes = one.setup or setup(record), nodes(record)
        # No row is a mean over different machines, or over buffers that a cache holds and others.
        versions = ", ".join(filter(None, (version(record), device(record))))
        shared = (named, f"{definition(record)}, {buffers(record)}", versions)
        for result in record.results:
            if result.status is Status.NOT_APPLICABLE:
                continue
            key = key_of(record.plan.cases[result.case], record)
            curve = replace(key, size_bytes=0, pattern=joined(key.pattern, where(record)))
            place = Place(curve, *shared, key.size_bytes, of_nodes, ranks(record))
            # What the run or the log printed goes first: --stats p50, or nccl-tests -I.
            printed = {name: result.stats[name] for name in NAMES if name in result.stats}
            spread = dict(one.spreads.get(result.case, {})) | printed
            why = result.error or ("wrong data" if result.status is Status.WRONG else "") or record.error
            good = result if result.status is Status.GOOD else None
            groups[place].append(_Seen(why, record, good, spread))
        if not record.results and record.status is not RunStatus.COMPLETE:
            for operation in failures((record,)):
                curve = replace(NO_CASE, collective=operation)
                place = Place(curve, named, NO_TIME, versions, 0, of_nodes, ranks(record))
                groups[place].append(_Seen(record.error or record.status.value))
    for launch in failed:
        groups[Place(NO_CASE, launch.setup, NO_TIME, "", 0, launch.nodes, 0)].append(_Seen(launch.why))
    return tuple(_row(place, groups[place]) for place in sorted(groups))


def _row(place: Place, found: Sequence[_Seen]) -> ScalingRow:
    good = [each.result for each in found if each.result is not None]
    bad = [each.why for each in found if each.result is None]
    times = [result.time_ns for result in good if result.time_ns is not None]
    time_ns = median(times) if times else None
    return ScalingRow(
        **vars(place),
        runs=len(good),
        busbw_gb_per_s=bandwidth_of(good, time_ns) if time_ns else None,
        time_ns=time_ns,
        spread=_over([each.spread for each in found if each.result is not None]),
        failed=len(bad),
        why=bad[-1] if bad else "",
        differs=", ".join(differing([each.record for each in found if each.record])),
    )
