"""The cases of a record as the rows of a table: both placements of a size side by side, none left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.record import RankInfo, RunRecord
from busbw.model.result import CaseResult, Status


@dataclass(frozen=True)
class Row:
    """A size and its results, without a placement that the plan does not have. ``case`` is the first's."""

    case: Case
    found: Mapping[Placement, CaseResult]

    @property
    def sides(self) -> tuple[CaseResult | None, ...]:
        """Both placements, out-of-place first."""
        return tuple(map(self.found.get, Placement))


@dataclass(frozen=True)
class Table:
    """All rows of one collective, in the order of the plan; of one stream, where operations ran at once."""

    collective: str
    rows: tuple[Row, ...]

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """All results, row by row."""
        return tuple(result for row in self.rows for result in row.sides if result is not None)


def tables(record: RunRecord, operation: str = "") -> tuple[Table, ...]:
    """One table a collective, in order of first appearance, or a stream; ``operation`` takes those of one.

    A case without a result has the status not-run. Raises UsageError where there is nothing to write, or the
    run has no such operation.
    """
    results = {result.case: result for result in record.results}
    found: dict[tuple[int, str], list[Row]] = {}
    for case in record.plan.cases:
        result = results.get(case.index, CaseResult(case.index, Status.NOT_RUN))
        rows = found.setdefault((case.stream, case.collective), [])
        # The other placement of a size stands next to it in the plan.
        last = rows[-1] if rows else None
        if last is not None and _key(last.case) == _key(case) and case.placement not in last.found:
            rows[-1] = replace(last, found={**last.found, case.placement: result})
        else:
            rows.append(Row(case, {case.placement: result}))
    names = ", ".join(dict.fromkeys(name for _, name in found))
    if not found:
        raise UsageError(
            f"the run {record.run_id} has no cases", hint="choose another run; `busbw list` names them"
        )
    if operation and operation not in {name for _, name in found}:
        raise UsageError(f"the run has no {operation}", hint=f"give --op one of: {names}")
    return tuple(Table(name, tuple(rows)) for (_, name), rows in found.items() if operation in ("", name))


def _key(case: Case) -> tuple[object, ...]:
    return (case.dtype, case.op, case.root, case.requested_bytes, case.size_bytes, case.count, case.cycle)


def runs(table: Table) -> Iterator[tuple[list[Row], Placement]]:
    """What nccom-test and OSU have a run each for, as their tables have no column for it: the rows of one
    type, reduction, root and cycle in one placement, measured or not.
    """
    groups: dict[tuple[str, str, int, int], list[Row]] = {}
    for row in table.rows:
        case = row.case
        groups.setdefault((case.dtype, case.op, case.root, case.cycle), []).append(row)
    for rows in groups.values():
        for placement in Placement:
            yield rows, placement


def average_busbw_gb_per_s(results: Iterable[CaseResult | None]) -> tuple[float | None, int]:
    """What foreign footers print: the plain mean of the bus bandwidths over all sizes, and of how many.

    It depends on which sizes were measured, so it is written only where a format has a place for it. None
    where no result has a bus bandwidth.
    """
    found = [result.busbw_gb_per_s for result in results if result is not None]
    values = [value for value in found if value is not None]
    return (fsum(values) / len(values) if values else None), len(values)


def ranks(record: RunRecord) -> int | None:
    """How many ranks took part; None where the run ended before that was known."""
    return record.world.size if record.world is not None else None


def first_rank(record: RunRecord) -> RankInfo | None:
    """Who stands for all ranks; None where the run ended before they were known."""
    return record.world.ranks[0] if record.world is not None and record.world.ranks else None


def is_applicable(rows: Sequence[Row], placement: Placement) -> bool:
    """Whether any row has the placement, measured or not."""
    sides = [row.found.get(placement) for row in rows]
    return any(side is not None and side.status is not Status.NOT_APPLICABLE for side in sides)
