"""Rows of a table to cases and results in our units: ns, decimal GB/s, the whole buffer as size."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from busbw.foreign.logs.context import TUNING
from busbw.foreign.logs.operations import (
    BLOCKED,
    FACTORS,
    KNOWN,
    MOVING,
    REDUCTIONS,
    SHARED,
    TYPE_BYTES,
    TYPE_NAMES,
    operation,
)
from busbw.foreign.logs.row_words import Number
from busbw.foreign.logs.table import Failure, Row, Side, Table
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.model.result import CaseResult, Status
from busbw.model.tuning_line import tuning_lines
from busbw.units import NS_PER_US

# What a case is, but for its cycle: type, reduction, root, size, count, placement. Equal ones are repeated.
_Kind = tuple[str, str, int, int, int, Placement]
_Bandwidth = tuple[float, float]  # algbw and busbw of one placement of a row in GB/s; NaN without a number
NO_NUMBER: Final = "the log has no number here"
NO_NUMBERS: Final = "the log has no numbers for this placement"


@dataclass(frozen=True)
class Made:
    """The cases and results of a table, and where their bandwidths come from."""

    cases: tuple[Case, ...]
    results: tuple[CaseResult, ...]
    algbw_from: str
    busbw_from: str


def cases(table: Table) -> Made:
    """Every row as one case a placement, failed rows among them, in the order of the lines. Repeated cases
    are further cycles.
    """
    name, ranks = table.operation, table.world_size
    made: list[Case] = []
    results: list[CaseResult] = []
    seen: Counter[_Kind] = Counter()
    found = [_failed(table, each) for each in table.failures] + _rows(table, _bandwidths(table))
    for _, kind, result in sorted(found, key=itemgetter(0)):
        dtype, op, root, size, count, placement = kind
        case = Case(len(made), name, dtype, op, root, size, size, count, placement, cycle=seen[kind])
        made.append(case)
        results.append(replace(result, case=case.index))
        seen[kind] += 1
    algbw_from, busbw_from = "rows", "rows"
    if _is_made(table):
        digits = "; as printed where that has more digits"
        algbw_from = f"size / time{digits}"
        busbw_from = f"algbw times the factor of {name} on {ranks} ranks{digits}"
    return Made(tuple(made), tuple(results), algbw_from, busbw_from if ranks > 1 else "none: one rank")


# ---- bandwidths --------------------------------------------------------------------------------------------


def _is_made(table: Table) -> bool:
    """Whether bandwidths follow from size and time; else they are the printed ones."""
    return table.operation in KNOWN and table.trusted_time


def _bandwidths(table: Table) -> list[list[_Bandwidth]]:
    """Those of every row, one a placement: from size and time, or as they are printed where that has more
    digits: times of nccom-test were whole microseconds for long.
    """
    name, ranks = table.operation, table.world_size
    unit, is_made, is_in_its_unit = table.gb or 1.0, _is_made(table), table.is_in_its_unit
    factor = FACTORS[name](max(ranks, 1)) if is_made else math.nan
    share = (max(ranks, 1) - 1) / max(ranks, 1) if name == "hypercube" else 1.0

    def of(row: Row, side: Side) -> _Bandwidth:
        algbw, busbw = side.algbw.scaled(unit), side.busbw.scaled(unit)
        if is_made:
            time = side.time_us
            value = _ratio(row.size * share, time.value * NS_PER_US)
            own = Number(value, value * _ratio(time.half, time.value))
            algbw = _finest(own, algbw) if is_in_its_unit else own
            busbw = _finest(own.scaled(factor), busbw) if is_in_its_unit else own.scaled(factor)
        return algbw.value, busbw.value if ranks > 1 else math.nan

    return [[of(row, side) for side in row.sides] for row in table.rows]


def _finest(own: Number, shown: Number) -> Number:
    """That of two values which is known to more digits, where both are the same number, and nothing that the
    printed one rules out.
    """
    apart = abs(shown.value - own.value)
    is_finer = shown.half < own.half or apart > shown.half
    return shown if is_finer and apart <= shown.half + own.half and shown.value > 0 else own


def _ratio(size: float, per: float) -> float:
    return size / per if per > 0 else math.nan


def unit_findings(table: Table) -> Iterator[ImportFinding]:
    """How the printed bandwidths differ from ours."""
    scale = table.scale
    if len(table.tool.gb_sizes) > 1 and table.rows:
        if table.gb is None:
            text = "its digits fit both GiB/s and GB/s; bandwidths here are computed from size and time"
            yield ImportFinding("unit", text, table.first_line)
        elif table.gb != 1.0:
            text = "the printed GB/s are GiB/s (2^30 bytes); bandwidths here are decimal GB/s"
            yield ImportFinding("unit", text, table.first_line)
    elif scale is not None and scale.high < 0.999 and table.operation in SHARED:
        text = "this old version leaves a rank's own block out of algbw; here algbw is size / time, as in"
        yield ImportFinding("formula", f"{text} nccl-tests today", table.first_line)


# ---- rows -------------------------------------------------------------------------------------------------


_Found = tuple[int, _Kind, CaseResult]  # with its line


def _rows(table: Table, numbers: Sequence[Sequence[_Bandwidth]]) -> list[_Found]:
    found: list[_Found] = []
    choices = _choices(table)
    absent = [_absent([row.sides[index] for row in table.rows]) for index in range(len(table.placements))]
    for row, choice, bandwidths in zip(table.rows, choices, numbers, strict=True):
        op = "" if table.operation in MOVING else REDUCTIONS.get(row.redop, row.redop)
        count = row.count
        if count < 0 or table.tool.operations:  # those of nccom-test are of the whole buffer
            count = whole_count(table, row.dtype, row.size, max(count, 0))
        for side, bandwidth, none, place in zip(row.sides, bandwidths, absent, table.placements, strict=True):
            kind = (TYPE_NAMES.get(row.dtype, row.dtype), op, row.root, row.size, count, place)
            result = _result(table, row, side, bandwidth, choice) if _is_measured(side) else none
            found.append((row.line, kind, result))
    return found


def _is_measured(side: Side) -> bool:
    return math.isfinite(side.time_us.value)


def _absent(sides: Sequence[Side]) -> CaseResult:
    """What a placement without a number is, by those of all rows."""
    if any(map(_is_measured, sides)):
        return CaseResult(0, Status.NOT_RUN, error=NO_NUMBER)
    return CaseResult(0, Status.NOT_APPLICABLE, error=NO_NUMBERS)


def _result(table: Table, row: Row, side: Side, bandwidth: _Bandwidth, choice: Choice | None) -> CaseResult:
    time = side.time_us.value * NS_PER_US if table.trusted_time else _ratio(row.size, side.algbw.value)
    is_wrong = side.wrong > 0
    is_mean = "mean" in table.time and "median" not in table.time
    return CaseResult(
        0,
        Status.WRONG if is_wrong else Status.GOOD,
        _finite(time),
        mean_ns=_finite(time) if is_mean else None,
        algbw_gb_per_s=None if is_wrong else _finite(bandwidth[0]),
        busbw_gb_per_s=None if is_wrong else _finite(bandwidth[1]),
        wrong=int(side.wrong) if math.isfinite(side.wrong) else None,
        stats={name: _finite(value) for name, value in side.stats.items()},
        algorithm=row.algorithm or (choice.words if choice is not None else ""),
        choice=choice,
        input_bytes=row.input_bytes,
        output_bytes=row.output_bytes,
    )


def _finite(value: float) -> float | None:
    """None where there is no number."""
    return value if math.isfinite(value) else None


def _choices(table: Table) -> list[Choice | None]:
    """What NCCL said in the table of a call of each row's size; nothing where it said two things of one size,
    as of one row in-place and the other not.
    """
    seen: dict[int | None, set[Choice]] = defaultdict(set)
    for line in tuning_lines("\n".join(table.calls.get(TUNING, ()))):
        if not line.function or operation(line.function) == table.operation:
            seen[line.size_bytes(table.world_size)].add(line.choice)
    said = (seen.get(row.size, set()) for row in table.rows)
    return [next(iter(choices)) if len(choices) == 1 else None for choices in said]


def _failed(table: Table, failure: Failure) -> _Found:
    """A row that says why it has no numbers."""
    size, word, op, root = failure.size_bytes, failure.dtype, "", -1
    for first in table.rows[:1]:
        word, root = word or first.dtype, first.root
        op = "" if table.operation in MOVING else REDUCTIONS.get(first.redop, first.redop)
    count = whole_count(table, word, size, 0)
    kind = (TYPE_NAMES.get(word, word), op, root, size, count, table.placements[0])
    return failure.line, kind, CaseResult(0, Status.FAILED, error=failure.text)


def whole_count(table: Table, word: str, size: int, otherwise: int) -> int:
    """Elements of the call where the log counts those of the whole buffer, or none."""
    width = TYPE_BYTES.get(word)
    elements = size // width if width else otherwise
    return elements // max(table.world_size, 1) if table.operation in BLOCKED else elements


def repeated(table: Table, made: Sequence[Case]) -> list[ImportFinding]:
    """Cases that the table has more than once: several sweeps, or a line that was copied. One time of two
    placements is often the same by chance.
    """
    rows = [
        (row.size, row.dtype, row.redop, row.root, *(side.time_us for side in row.sides))
        for row in table.rows
        if row.size and all(map(_is_measured, row.sides))
    ]
    copies = (len(rows) - len(set(rows))) * len(table.placements)
    again = sum(case.cycle > 0 and case.size_bytes > 0 for case in made)
    if not again:
        return []
    text = f"{again} of {len(made)} cases repeat an earlier one and were kept as further cycles"
    if copies:
        text += f"; {copies} have the same time too: were lines copied?"
    return [ImportFinding("repeated", text, table.first_line)]
