"""Runs to diagnose: records with samples, digests and readings of counters that a test gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.judge.diagnose.engine import diagnose
from busbw.judge.diagnose.subject import Subject
from busbw.judge.expectation import expect
from busbw.judge.references.reference import Reference
from busbw.judge.wires import Wires
from busbw.model.conclusion import Answer, Conclusion
from busbw.model.finding import Severity
from busbw.model.record import RunRecord
from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, SAMPLE_DTYPE
from busbw.model.traffic import Burst, Link, Window
from busbw.stats.interval import estimate
from busbw_testing.compared import record_of

CALLS = 1000
SECONDS = 0.3
# A quiet moment, then three times so many calls.
WINDOWS = (Window(0.2, 0), *[Window(SECONDS, CALLS)] * 3)


def sampled(
    times_us: Mapping[int, npt.NDArray[np.float64]], **fields: object
) -> tuple[RunRecord, npt.NDArray[np.void]]:
    """A run with these samples of each size (maximum over ranks), and its intervals from them."""
    record = record_of({size: float(np.median(times)) for size, times in times_us.items()}, **fields)  # type: ignore[arg-type]
    rows = []
    results = []
    for result, size in zip(record.results, sorted(times_us), strict=True):
        own = np.zeros(len(times_us[size]), SAMPLE_DTYPE)
        own["case"], own["rank"], own["k"] = result.case, MAX_OVER_RANKS, 1
        own["sample"], own["elapsed_ns"] = np.arange(len(own)), times_us[size] * 1e3
        rows.append(own)
        bounds = estimate(own["elapsed_ns"].astype(float), 0.95)
        found = replace(result, low_ns=bounds.low, high_ns=bounds.high, mean_ns=bounds.mean)
        results.append(replace(found, samples=len(own)))
    # Of single ranks it has none.
    plan = replace(record.plan, raw_ranks=0)
    return replace(record, plan=plan, results=tuple(results)), np.concatenate(rows)


def digests_of(record: RunRecord, factors: Sequence[float]) -> npt.NDArray[np.void]:
    """Of every case and rank: the case's time by the rank's factor."""
    rows = np.zeros(len(record.results) * len(factors), DIGEST_DTYPE)
    for at, (result, rank) in enumerate(
        (result, rank) for result in record.results for rank in range(len(factors))
    ):
        own = (result.time_ns or 0.0) * factors[rank]
        rows[at] = (result.case, rank, result.samples or 100, own, own, own, own, own, 0, 0)
    return rows


def burst(
    carried: Mapping[str, Mapping[str, float]],
    *,
    kind: str = "efa",
    gb_per_s: float | None = None,
    case: int = 0,
    idle: float = 0.0,
    jitter: float = 0.001,
) -> Burst:
    """Rates in GB/s by host and device, the same in both directions; ``idle`` flows before the burst too."""
    busy = [SECONDS * (1 + shift) for shift in (-jitter, 0.0, jitter)]
    links = tuple(
        Link(host, kind, device, "port 1", counted, counted, gb_per_s)
        for host, devices in carried.items()
        for device, rate in devices.items()
        for counted in [(int(idle * 0.2e9), *(int((rate + idle) * 1e9 * seconds) for seconds in busy))]
    )
    return Burst(case, WINDOWS, links)


def every_conclusion(record: RunRecord, **found: Any) -> tuple[Conclusion, ...]:
    """All of them, in their order; ``found`` are references, wires, samples and digests. Of any run:
    what answers no is a warning at least.
    """
    told = diagnose(_subject(record, **found))
    assert not [each for each in told if each.answer is Answer.NO and each.severity is Severity.INFO]
    return told


def conclusions(record: RunRecord, **found: Any) -> dict[str, Conclusion]:
    """Every conclusion by its id; the last of several. ``found`` is as for ``every_conclusion``."""
    return {each.check: each for each in every_conclusion(record, **found)}


def _subject(
    record: RunRecord,
    *,
    references: Sequence[Reference] = (),
    wires: Wires = Wires(source="the test"),  # noqa: B008 (frozen)
    samples: npt.NDArray[np.void] | None = None,
    digests: npt.NDArray[np.void] | None = None,
    absent: tuple[str, ...] = (),
) -> Subject:
    subject = Subject(record, expect((record,), references, wires=wires), wires)
    subject = replace(subject, absent=absent, samples=subject.samples if samples is None else samples)
    return replace(subject, digests=subject.digests if digests is None else digests)
