"""Rows of a table to cases and results in our units: ns, decimal GB/s, the whole buffer as size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.check import Checked
from busbw.foreign.logs.decide import Decision
from busbw.foreign.logs.operations import (
    BLOCKED,
    MOVING,
    SHARED,
    busbw_factor,
    canonical_op,
    canonical_type,
    is_known,
    operation,
    type_bytes,
)
from busbw.foreign.logs.row_words import FloatArray, IntArray, Printed
from busbw.foreign.logs.table import Failure, Table
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding
from busbw.model.result import CaseResult, Status
from busbw.model.tuning_line import tuning_lines
from busbw.units import NS_PER_US

# What a case is, but for its cycle: type, reduction, root, size, count, placement. Equal ones are repeated.
_Kind = tuple[str, str, int, int, int, Placement]
NO_NUMBER: Final = "the log has no number here"
NO_NUMBERS: Final = "the log has no numbers for this placement"


# ---- bandwidths --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bandwidths:
    """Arrays by row, for each placement of the table; NaN where there is no number."""

    sizes: IntArray
    times_ns: tuple[FloatArray, ...]
    algbw: tuple[FloatArray, ...]
    busbw: tuple[FloatArray, ...]
    algbw_from: str
    busbw_from: str
    findings: tuple[ImportFinding, ...] = ()


def bandwidths(checked: Checked, name: str, ranks: int) -> Bandwidths:
    """Bandwidths from size and time, or as they are printed where that has more digits; always the printed
    ones for operations whose bytes do not follow from the size.
    """
    table = checked.table
    sizes = table.sizes * ranks if table.shares else table.sizes
    times = tuple(_times_ns(table, side) for side in range(len(table.timings)))
    if is_known(name) and table.trusted_time:
        share = (ranks - 1) / max(ranks, 1) if name == "hypercube" else 1.0
        factor = busbw_factor(name, max(ranks, 1))
        words = ("size / time", f"algbw times the factor of {name} on {ranks} ranks")
        made = [_made(timing.time_us, sizes * share) for timing in table.timings]
        algbw, words_algbw = _finest(checked, made, [timing.algbw for timing in table.timings], words[0])
        made = [Printed(value.value * factor, value.half * factor) for value in made]
        busbw, words_busbw = _finest(checked, made, [timing.busbw for timing in table.timings], words[1])
        words = (words_algbw, words_busbw)
    else:
        unit = checked.gb or 1.0
        algbw = tuple(_printed(timing.algbw, unit, len(table)) for timing in table.timings)
        busbw = tuple(_printed(timing.busbw, unit, len(table)) for timing in table.timings)
        words = ("rows", "rows")
    if ranks <= 1:
        busbw = tuple(np.full(len(table), np.nan) for _ in busbw)
        words = (words[0], "none: one rank")
    return Bandwidths(sizes, times, algbw, busbw, *words, tuple(_unit_findings(checked, name)))


def _times_ns(table: Table, side: int) -> FloatArray:
    timing = table.timings[side]
    if table.trusted_time or timing.algbw is None:
        return timing.time_us.value * NS_PER_US
    return _ratio(table.sizes, timing.algbw.value)


def _made(time_us: Printed, sizes: Any) -> Printed:  # noqa: ANN401 (an array of either numbers)
    """The bandwidth that follows from size and time, and what the digits of the time leave open."""
    value = _ratio(sizes, time_us.value * NS_PER_US)
    return Printed(value, value * _ratio(time_us.half, time_us.value))


def _finest(
    checked: Checked, made: Sequence[Printed], columns: Sequence[Printed | None], words: str
) -> tuple[tuple[FloatArray, ...], str]:
    """Row by row that of two values which is known to more digits, where both are the same number, and
    nothing that the printed one rules out; and where it comes from.
    """
    found, as_printed = [], 0
    is_today = checked.gb is not None and checked.scale is not None and checked.scale.contains(1 / checked.gb)
    for own, column in zip(made, columns, strict=True):
        if column is None or not is_today:
            found.append(own.value)
            continue
        printed = column.scaled(checked.gb or 1.0)
        apart = np.abs(printed.value - own.value)
        finer = (printed.half < own.half) | (apart > printed.half)
        finer &= (apart <= printed.half + own.half) & (printed.value > 0)
        found.append(np.where(finer, printed.value, own.value))
        as_printed += int(finer.sum())
    if as_printed:
        words += f"; as printed, with more digits, in {as_printed} of {sum(len(each.value) for each in made)}"
    return tuple(found), words


def _ratio(sizes: Any, per: FloatArray) -> FloatArray:  # noqa: ANN401 (an array of either numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(per > 0, sizes / per, np.nan)


def _printed(column: Printed | None, unit: float, rows: int) -> FloatArray:
    return np.full(rows, np.nan) if column is None else column.value * unit


def _unit_findings(checked: Checked, name: str) -> Iterator[ImportFinding]:
    table, scale = checked.table, checked.scale
    if len(table.gb_sizes) > 1 and len(table):
        if checked.gb is None:
            text = "its digits fit both GiB/s and GB/s; bandwidths here are computed from size and time"
            yield ImportFinding("unit", text, table.first_line)
        elif checked.gb != 1.0:
            text = "the printed GB/s are GiB/s (2^30 bytes); bandwidths here are decimal GB/s"
            yield ImportFinding("unit", text, table.first_line)
    elif scale is not None and scale.high < 0.999 and name in SHARED:
        text = "this old version leaves a rank's own block out of algbw; here algbw is size / time, as in"
        yield ImportFinding("formula", f"{text} nccl-tests today", table.first_line)


# ---- cases -------------------------------------------------------------------------------------------------


def cases(
    table: Table, decision: Decision, numbers: Bandwidths
) -> tuple[tuple[Case, ...], tuple[CaseResult, ...]]:
    """Every row as one case a placement, failed rows among them, in the order of the lines. Repeated cases
    are further cycles.
    """
    made: list[Case] = []
    results: list[CaseResult] = []
    seen: Counter[_Kind] = Counter()
    for kind, result in _in_order(table, decision, numbers):
        dtype, op, root, size, count, placement = kind
        index, cycle = len(made), seen[kind]
        name = decision.operation
        made.append(Case(index, name, dtype, op, root, size, size, count, placement, cycle=cycle))
        results.append(replace(result, case=index))
        seen[kind] += 1
    return tuple(made), tuple(results)


def _in_order(table: Table, decision: Decision, numbers: Bandwidths) -> Iterator[tuple[_Kind, CaseResult]]:
    failures = sorted(table.failures, key=lambda failure: failure.line, reverse=True)
    for line, pairs in zip(table.lines.tolist(), _rows(table, decision, numbers), strict=True):
        while failures and failures[-1].line < line:
            yield from _failed(table, decision, failures.pop())
        yield from pairs
    while failures:
        yield from _failed(table, decision, failures.pop())


def _rows(table: Table, decision: Decision, numbers: Bandwidths) -> Iterator[list[tuple[_Kind, CaseResult]]]:
    sizes: list[int] = numbers.sizes.tolist()
    choices = _choices(table, decision, sizes)
    sides = [list(_results(table, numbers, side, choices)) for side in range(len(table.timings))]
    columns = zip(table.types, table.redops, table.roots.tolist(), sizes, table.counts.tolist(), strict=True)
    for row, (word, redop, root, size, printed) in enumerate(columns):
        op = "" if decision.operation in MOVING else canonical_op(redop)
        count = printed
        if printed < 0 or table.operations:  # those of nccom-test are of the whole buffer
            count = whole_count(decision, word, size, max(printed, 0))
        pairs = []
        for timing, results in zip(table.timings, sides, strict=True):
            kind = (canonical_type(word), op, root, size, count, timing.placement)
            pairs.append((kind, results[row]))
        yield pairs


def _results(
    table: Table, numbers: Bandwidths, side: int, choices: Sequence[Choice | None]
) -> Iterator[CaseResult]:
    """The results of one placement, row by row."""
    timing = table.timings[side]
    wrong = np.full(len(table), np.nan) if timing.wrong is None else timing.wrong
    bad = (wrong > 0).tolist()
    columns = map(_finite, (numbers.times_ns[side], numbers.algbw[side], numbers.busbw[side], wrong))
    stats = {name: _finite(values) for name, values in timing.stats.items()}
    is_mean = "mean" in table.time and "median" not in table.time
    is_printed = np.isfinite(timing.time_us.value).tolist()
    absent = CaseResult(0, Status.NOT_RUN, error=NO_NUMBER)
    if not any(is_printed):
        absent = CaseResult(0, Status.NOT_APPLICABLE, error=NO_NUMBERS)
    algorithms = table.algorithms or [each.words if each else "" for each in choices]
    for row, (time, algbw, busbw, count) in enumerate(zip(*columns, strict=True)):
        if not is_printed[row]:
            yield absent
            continue
        yield CaseResult(
            0,
            Status.WRONG if bad[row] else Status.GOOD,
            time,
            mean_ns=time if is_mean else None,
            algbw_gb_per_s=None if bad[row] else algbw,
            busbw_gb_per_s=None if bad[row] else busbw,
            wrong=None if count is None else int(count),
            stats={name: values[row] for name, values in stats.items()},
            algorithm=algorithms[row] if algorithms else "",
            choice=choices[row] if choices else None,
            input_bytes=table.input_bytes[row] if table.input_bytes else None,
            output_bytes=table.output_bytes[row] if table.output_bytes else None,
        )


def _finite(values: FloatArray) -> list[float | None]:
    """None where there is no number."""
    return [
        value if usable else None for value, usable in zip(values.tolist(), np.isfinite(values), strict=True)
    ]


def _choices(table: Table, decision: Decision, sizes: Sequence[int]) -> list[Choice | None]:
    """What NCCL said in the table of a call of each row's size; nothing where it said two things of one size,
    as of one row in-place and the other not.
    """
    if not table.calls:
        return []
    seen: dict[int | None, set[Choice]] = defaultdict(set)
    for line in tuning_lines("\n".join(table.calls)):
        if not line.function or operation(line.function) == decision.operation:
            seen[line.size_bytes(decision.ranks)].add(line.choice)
    return [next(iter(found)) if len(found := seen.get(size, set())) == 1 else None for size in sizes]


def _failed(table: Table, decision: Decision, failure: Failure) -> Iterator[tuple[_Kind, CaseResult]]:
    """A row that says why it has no numbers."""
    size = failure.size_bytes
    word = failure.dtype or next(iter(table.types), "")
    op = "" if decision.operation in MOVING else canonical_op(next(iter(table.redops), ""))
    root = int(table.roots[0]) if len(table) else -1
    count = whole_count(decision, word, size, 0) if word else 0
    place = table.timings[0].placement
    kind = (canonical_type(word), op, root, size, count, place)
    yield kind, CaseResult(0, Status.FAILED, error=failure.text)


def whole_count(decision: Decision, word: str, size: int, otherwise: int) -> int:
    """Elements of the call where the log counts those of the whole buffer, or none."""
    width = type_bytes(word)
    elements = size // width if width else otherwise
    return elements // max(decision.ranks, 1) if decision.operation in BLOCKED else elements


def _are_rounded(made: Sequence[Case]) -> bool:
    """Whether sizes only rise: a sweep in steps smaller than one element for every rank, which is rounded."""
    sizes = [case.size_bytes for case in made]
    return made[0].collective in BLOCKED and sizes == sorted(sizes)


def repeated(table: Table, made: Sequence[Case]) -> list[ImportFinding]:
    """Cases that the table has more than once: several sweeps, or a line that was copied. One time of two
    placements is often the same by chance.
    """
    times = zip(*(timing.time_us.value.tolist() for timing in table.timings), strict=True)
    columns = zip(table.sizes.tolist(), table.types, table.redops, table.roots.tolist(), times, strict=True)
    rows = [row for row in columns if row[0]]
    copies = (len(rows) - len(set(rows))) * len(table.timings)
    again = sum(case.cycle > 0 and case.size_bytes > 0 for case in made)
    if not again or (not copies and _are_rounded(made)):
        return []
    text = f"{again} of {len(made)} cases repeat an earlier one and were kept as further cycles"
    if copies:
        text += f"; {copies} have the same time too: were lines copied?"
    return [ImportFinding("repeated", text, table.first_line)]
