"""A reference of one's own: several launches of one kind, each one observation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from busbw.errors import UsageError
from busbw.judge import compare_arms
from busbw.judge.compare_arms import CaseKey, cases_of, key_of
from busbw.judge.matching import differences, made_with
from busbw.judge.pattern import joined, where
from busbw.judge.references.reference import Point, Reference
from busbw.judge.rotation import rotated_bytes
from busbw.model.collective import known_collective
from busbw.model.record import NOT_STATED, RunRecord


def launches_of(records: Sequence[RunRecord]) -> dict[CaseKey, tuple[float, ...]]:
    """Times of each case in ns, one a launch: those of a series, or one of each record."""
    found: dict[CaseKey, tuple[float, ...]] = {}
    for record in records:
        for key, seen in cases_of(record).items():
            if seen.time_ns:
                found[key] = (*found.get(key, ()), *seen.times_ns)
    return found


def refuse_several_kinds(name: str, records: Sequence[RunRecord]) -> None:
    """A reference is of one world and one way of timing. Raises UsageError where the records are not."""
    compare_arms.make_arm(name, records)  # ranks and definition
    sources = ((record, record.source) for record in records)
    launches = {(run.run_id, 0) if log is None else (log.path, log.table) for run, log in sources}
    if len(launches) < len(records):
        raise UsageError(f"{name} names the same launch more than once", hint="name each run or log once")
    for record in records[1:]:
        if found := differences(records[0], record):
            raise UsageError(
                f"{name} is not one thing: {'; '.join(found)}", hint="save runs of one kind, one by one"
            )


def reference_of(
    name: str,
    record: RunRecord,
    launches: Mapping[CaseKey, tuple[float, ...]],
    others: Sequence[RunRecord] = (),
) -> list[Reference]:
    """References of one's own run, one an operation, type, reduction and root; ``launches`` has the times of
    each case in ns, one a launch, of this record and ``others``. A point's bandwidth is that of the median of
    its times; what is expected of it, that of their geometric mean (``Expected``).
    """
    made: dict[CaseKey, dict[CaseKey, Point]] = {}  # by what they share
    timed = ((each, *pair) for each in (record, *others) for pair in each.timed)
    for measured, case, result in timed:
        key = key_of(case, measured)
        row = known_collective(case.collective)
        if row is None or not row.sized:
            continue
        pattern = joined(key.pattern, where(measured))
        points = made.setdefault(replace(key, placement="", size_bytes=0, pattern=pattern), {})
        if key in points or result.busbw_gb_per_s is None or key not in launches:
            continue
        bytes_ = result.busbw_gb_per_s * (result.time_ns or 0.0)  # busbw = these bytes / time
        times = tuple(time / 1e3 for time in launches[key])
        points[key] = Point(case.size_bytes, case.placement.value, bytes_ / median(launches[key]), times)
    kept = [(kind, points) for kind, points in made.items() if points]
    return [_reference(name, *each, (record, *others), alone=len(kept) == 1) for each in kept]


def _reference(
    name: str, kind: CaseKey, points: Mapping[CaseKey, Point], records: Sequence[RunRecord], *, alone: bool
) -> Reference:
    """``alone``: it has the name for itself."""
    record, made = records[0], made_with(records[0])
    library, _, number = made.version.rpartition(" ")
    # Without the pattern: a run has one of an operation, unless it is of streams.
    words = (name, kind.collective, kind.dtype, kind.op, f"root{kind.root}" if kind.root >= 0 else "")
    return Reference(
        name=name if alone else "-".join(filter(None, words)),
        kind="saved",
        operation=kind.collective,
        ranks=made.ranks,
        nodes=made.nodes,
        machine=", ".join(record.world.known_hosts) if record.world is not None else "",
        device=made.device,
        versions={library or "library": number} if made.version else {},
        date=compare_arms.day(record) or "not stated",
        source=", ".join(each.run_id for each in records),
        sha256=" ".join(each.source.sha256 for each in records if each.source is not None),
        definition=made.definition,
        environment=made.tuning,
        timed="; ".join(made.timed),
        rotated=((sys.maxsize, bytes_),) if (bytes_ := rotated_bytes(records)) else (),
        points=tuple(points.values()),
        dtype=kind.dtype,
        op=kind.op,
        root=kind.root if kind.root >= 0 else None,
        pattern=kind.pattern,
        network=made.network,
        product=made.product,
        buffers="" if made.buffers == NOT_STATED else made.buffers,
    )
