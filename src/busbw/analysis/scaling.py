"""How a collective scales: bus bandwidth and percentiles against the number of nodes, for every size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from busbw.analysis.compare_arms import CaseKey, definition, key_of, ranks
from busbw.analysis.matching import kind_of
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.model.sample import MAX_OVER_RANKS
from busbw.stats.percentile import percentile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.references.reference import Reference

PERCENTILES: Final = (50.0, 95.0, 99.0)


@dataclass(frozen=True)
class Spread:
    """Percentiles of a case's samples, in ns; None where there were too few for one, or no samples."""

    p50_ns: float | None = None
    p95_ns: float | None = None
    p99_ns: float | None = None
    max_ns: float | None = None


@dataclass(frozen=True)
class ScalingRow:
    """One size on one number of nodes. ``nodes`` is 0 where not known. Numbers are medians over the runs that
    have the case, ``runs`` of them; ``failed`` more had it and no number, the last one for ``why``.
    """

    key: CaseKey
    definition: str
    version: str
    nodes: int
    ranks: int
    runs: int
    busbw_gb_per_s: float | None
    time_ns: float | None
    spread: Spread
    failed: int = 0
    why: str = ""


@dataclass(frozen=True)
class Measured:
    """A record, and the samples of its cases where it has any (by case number)."""

    record: RunRecord
    spreads: Mapping[int, Spread]


def spreads(samples: npt.NDArray[np.void]) -> dict[int, Spread]:
    """Percentiles of every case from its kept samples: those of the maximum over ranks, per call."""
    import numpy as np

    rows = samples[samples["rank"] == MAX_OVER_RANKS]
    found = {}
    for case in np.unique(rows["case"]):
        own = rows[rows["case"] == case]
        times = own["elapsed_ns"] / np.maximum(own["k"], 1)
        p50, p95, p99 = (percentile(times, percent) for percent in PERCENTILES)
        found[int(case)] = Spread(p50, p95, p99, float(times.max()))
    return found


def scaling(measured: Iterable[Measured], known: Sequence[Reference] = ()) -> tuple[ScalingRow, ...]:
    """Rows by operation, definition, version, placement, size and number of nodes. ``known`` are published
    logs: what a copy of one does not say itself is taken from there.
    """
    groups: dict[tuple[CaseKey, str, str, int, int], list[tuple[CaseResult, Spread]]] = defaultdict(list)
    for one in measured:
        record = one.record
        kind = kind_of(record, known)
        for result in record.results:
            if result.status is Status.NOT_APPLICABLE:
                continue
            key = key_of(record.plan.cases[result.case])
            place = (key, definition(record), kind.versions, kind.nodes, ranks(record))
            groups[place].append((result, one.spreads.get(result.case) or _of_stats(result)))
    return tuple(_row(place, found) for place, found in sorted(groups.items(), key=lambda item: item[0]))


def _of_stats(result: CaseResult) -> Spread:
    """What the run or the log printed: --stats p50, or nccl-tests -I."""
    stats = result.stats
    return Spread(stats.get("p50"), stats.get("p95"), stats.get("p99"), stats.get("max"))


def _row(place: tuple[CaseKey, str, str, int, int], found: list[tuple[CaseResult, Spread]]) -> ScalingRow:
    good = [(result, spread) for result, spread in found if result.status is Status.GOOD]
    bad = [result for result, _ in found if result.status is not Status.GOOD]
    key, what, library, node_count, rank_count = place
    return ScalingRow(
        key, what, library, node_count, rank_count, len(good),
        _middle([result.busbw_gb_per_s for result, _ in good]),
        _middle([result.time_ns for result, _ in good]),
        Spread(
            _middle([spread.p50_ns for _, spread in good]),
            _middle([spread.p95_ns for _, spread in good]),
            _middle([spread.p99_ns for _, spread in good]),
            max((spread.max_ns for _, spread in good if spread.max_ns is not None), default=None),
        ),
        len(bad),
        bad[-1].error if bad else "",
    )  # fmt: skip


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
