"""The cases of a record as the rows of a table: both placements of a size side by side, none left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import fsum

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status


@dataclass(frozen=True)
class Row:
    """A size and its results; None for a placement that the plan does not have. ``case`` is the first's."""

    case: Case
    out_of_place: CaseResult | None = None
    in_place: CaseResult | None = None

    @property
    def sides(self) -> tuple[tuple[Placement, CaseResult | None], ...]:
        """Both placements, out-of-place first."""
        return ((Placement.OUT_OF_PLACE, self.out_of_place), (Placement.IN_PLACE, self.in_place))

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """The results that there are."""
        return tuple(result for _, result in self.sides if result is not None)

    def side(self, placement: Placement) -> CaseResult | None:
        """The result of one placement."""
        return self.in_place if placement is Placement.IN_PLACE else self.out_of_place


@dataclass(frozen=True)
class Table:
    """All rows of one collective, in the order of the plan; of one stream, where operations ran at once."""

    collective: str
    rows: tuple[Row, ...]

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """All results, row by row."""
        return tuple(result for row in self.rows for result in row.results)


def tables(record: RunRecord, operation: str = "") -> tuple[Table, ...]:
    """One table a collective, in order of first appearance, or a stream; ``operation`` takes those of one.

    A case without a result has the status not-run. Raises UsageError where there is nothing to write, or the
    run has no such operation.
    """
    found = {result.case: result for result in record.results}
    rows: dict[tuple[int, str], list[Row]] = {}
    for case in record.plan.cases:
        result = found.get(case.index, CaseResult(case.index, Status.NOT_RUN))
        _add(rows.setdefault((case.stream, case.collective), []), case, result)
    names = ", ".join(dict.fromkeys(name for _, name in rows))
    if not rows:
        raise UsageError(
            f"the run {record.run_id} has no cases", hint="choose another run; `busbw list` names them"
        )
    if operation and operation not in {name for _, name in rows}:
        raise UsageError(f"the run has no {operation}", hint=f"give --op one of: {names}")
    return tuple(Table(name, tuple(found)) for (_, name), found in rows.items() if operation in ("", name))


def _add(rows: list[Row], case: Case, result: CaseResult) -> None:
    """Put a result beside that of the other placement, which stands next to it in the plan, or into a row."""
    last = rows[-1] if rows else None
    if last is not None and _key(last.case) == _key(case) and last.side(case.placement) is None:
        rows[-1] = replace(last, in_place=result) if case.in_place else replace(last, out_of_place=result)
    elif case.in_place:
        rows.append(Row(case, in_place=result))
    else:
        rows.append(Row(case, out_of_place=result))


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
    values = [
        result.busbw_gb_per_s
        for result in results
        if result is not None and result.busbw_gb_per_s is not None
    ]
    return (fsum(values) / len(values) if values else None), len(values)


def ranks(record: RunRecord) -> int | None:
    """How many ranks took part; None where the run ended before that was known."""
    return record.world.size if record.world is not None else None


def is_applicable(rows: Sequence[Row], placement: Placement) -> bool:
    """Whether any row has the placement, measured or not."""
    sides = [row.side(placement) for row in rows]
    return any(side is not None and side.status is not Status.NOT_APPLICABLE for side in sides)
