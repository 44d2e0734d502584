"""How a collective scales: bus bandwidth and percentiles against the number of nodes, for every size. Each
setup has a curve of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from busbw.judge.compare_arms import (
    CaseKey,
    bandwidth_of,
    buffers,
    definition,
    failures,
    key_of,
    ranks,
    setup,
)
from busbw.judge.matching import made_with
from busbw.judge.measured_with import differing
from busbw.judge.pattern import joined, where
from busbw.judge.samples import case_times
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.stats.percentile import percentile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.judge.references.reference import Reference

PERCENTILES: Final = (50.0, 95.0, 99.0)
# What a run that failed before its first case is a row of.
NO_TIME: Final = "no time"
NO_CASE: Final = CaseKey("any operation", "", "", -1, "", 0)


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of a case's samples, in ns; None where there were too few for one, or no samples."""

    p50_ns: float | None = None
    p95_ns: float | None = None
    p99_ns: float | None = None
    max_ns: float | None = None


@dataclass(frozen=True)
class ScalingRow:
    """One size on one number of nodes. ``nodes`` is 0 where not known. Numbers are medians over the runs that
    have the case, ``runs`` of them; ``failed`` more had it and no number, the last one for ``why``. Runs that
    failed before their first case have a row of their own, with NO_CASE's placement and size. ``setup`` is
    empty where none was named. ``differs`` says which variables or libraries its runs do not share.
    """

    key: CaseKey
    definition: str
    version: str
    nodes: int
    ranks: int
    runs: int
    busbw_gb_per_s: float | None
    time_ns: float | None
    spread: Percentiles
    failed: int = 0
    why: str = ""
    setup: str = ""
    differs: str = ""

    @property
    def has_case(self) -> bool:
        """Whether it is of a size; else of runs that came to none."""
        return self.key.placement != NO_CASE.placement


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


@dataclass(frozen=True, order=True)
class _Place:
    """What runs of one row share, in the order of rows: a curve's are below one another."""

    curve: CaseKey  # its case, of no size
    setup: str
    definition: str
    version: str
    size_bytes: int
    nodes: int
    ranks: int

    @property
    def key(self) -> CaseKey:
        return replace(self.curve, size_bytes=self.size_bytes)


def spreads(record: RunRecord, samples: npt.NDArray[np.void]) -> dict[int, Percentiles]:
    """Percentiles of single calls of every case, as ``--stats`` has them: of the pass with one call a sample
    where there is one, without what outside evidence speaks against. A sample of several calls is their mean
    and has none of one call to give.
    """
    import numpy as np

    time, found = record.plan.timing.time, {}
    for case in np.unique(samples["case"]).tolist():
        parts = case_times(case, time, samples)
        if not parts or parts[-1].calls_per_sample > 1:
            continue
        times = parts[-1].kept_ns
        p50, p95, p99 = (percentile(times, percent) for percent in PERCENTILES)
        found[case] = Percentiles(p50, p95, p99, float(times.max()) if len(times) else None)
    return found


def over_launches(launches: Sequence[Mapping[int, Percentiles]]) -> dict[int, Percentiles]:
    """Of several launches of one plan the medians, and the largest maximum; of cases that all have."""
    common = set.intersection(*(set(each) for each in launches)) if launches else set[int]()
    return {case: _over([each[case] for each in launches]) for case in sorted(common)}


def _over(found: Sequence[Percentiles]) -> Percentiles:
    return Percentiles(
        _middle([each.p50_ns for each in found]),
        _middle([each.p95_ns for each in found]),
        _middle([each.p99_ns for each in found]),
        max((each.max_ns for each in found if each.max_ns is not None), default=None),
    )


def scaling(
    measured: Iterable[Measured], known: Sequence[Reference] = (), failed: Iterable[Failed] = ()
) -> tuple[ScalingRow, ...]:
    """Rows by operation, placement, setup, definition, version, size and number of nodes. ``known`` are
    published logs: what a copy of one does not say itself is taken from there. ``failed`` are counted. Runs
    under a profiler have no place beside others.
    """
    runs: dict[_Place, list[RunRecord]] = defaultdict(list)
    groups: dict[_Place, list[tuple[CaseResult, Percentiles]]] = defaultdict(list)
    for one in measured:
        record = one.record
        if record.profiled:
            continue
        kind = made_with(record, known)
        named = one.setup or setup(record)
        # No row is a mean over different machines, or over buffers that a cache holds and others.
        versions = ", ".join(filter(None, (kind.versions, kind.device)))
        shared = (named, f"{definition(record)}, {buffers(record)}", versions)
        found = [result for result in record.results if result.status is not Status.NOT_APPLICABLE]
        for result in found:
            key = key_of(record.plan.cases[result.case], record)
            curve = replace(key, size_bytes=0, pattern=joined(key.pattern, where(record)))
            place = _Place(curve, *shared, key.size_bytes, kind.nodes, ranks(record))
            told = replace(result, error=_why(record, result))
            runs[place].append(record)
            groups[place].append((told, _with_stats(one.spreads.get(result.case, Percentiles()), result)))
        if not record.results and record.status is not RunStatus.COMPLETE:
            why = record.error or record.status.value
            for operation in failures((record,)):
                curve = replace(NO_CASE, collective=operation)
                place = _Place(curve, named, NO_TIME, versions, 0, kind.nodes, ranks(record))
                groups[place].append(_no_case(why))
    for launch in failed:
        place = _Place(NO_CASE, launch.setup, NO_TIME, "", 0, launch.nodes, 0)
        groups[place].append(_no_case(launch.why))
    rows = (_row(place, found) for place, found in sorted(groups.items(), key=lambda item: item[0]))
    return tuple(
        replace(row, differs=", ".join(differing(runs[place])))
        for place, row in zip(sorted(groups), rows, strict=True)
    )


def _why(record: RunRecord, result: CaseResult) -> str:
    """Why there is no number, in the case's words or the run's."""
    words = "wrong data" if result.status is Status.WRONG else ""
    return "" if result.status is Status.GOOD else result.error or words or record.error


def _no_case(why: str) -> tuple[CaseResult, Percentiles]:
    return CaseResult(0, Status.FAILED, error=why), Percentiles()


def _with_stats(spread: Percentiles, result: CaseResult) -> Percentiles:
    """What the run or the log printed goes first: --stats p50, or nccl-tests -I."""
    stats = result.stats
    return Percentiles(
        stats.get("p50", spread.p50_ns),
        stats.get("p95", spread.p95_ns),
        stats.get("p99", spread.p99_ns),
        stats.get("max", spread.max_ns),
    )


def _row(place: _Place, found: list[tuple[CaseResult, Percentiles]]) -> ScalingRow:
    good = [(result, spread) for result, spread in found if result.status is Status.GOOD]
    bad = [result for result, _ in found if result.status is not Status.GOOD]
    time_ns = _middle([result.time_ns for result, _ in good])
    return ScalingRow(
        place.key, place.definition, place.version, place.nodes, place.ranks, len(good),
        bandwidth_of([result for result, _ in good], time_ns) if time_ns else None,
        time_ns,
        _over([spread for _, spread in good]),
        len(bad),
        bad[-1].error if bad else "",
        place.setup,
    )  # fmt: skip


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
