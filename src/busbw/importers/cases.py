"""Rows of a table to cases and results, in the order of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from busbw.importers.bandwidth import Bandwidths
from busbw.importers.case_columns import CaseColumns, Side, text_of
from busbw.importers.columns import IntArray
from busbw.importers.decide import Decision
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.operations import BLOCKED, MOVING, operation
from busbw.importers.osu import type_bytes
from busbw.importers.raw import Failure
from busbw.importers.table import Table
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import Placement
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.result import CaseResult, Status
from busbw.model.tuning_line import tuning_lines

# What a case is, but for its cycle: type, reduction, root, size, count, placement. Equal ones are repeated.
_Kind = tuple[str, str, int, int, int, Placement]


@dataclass(frozen=True)
class CaseValues:
    """Cases and results that are not the rows of a table as they stand there."""

    collective: str
    made: tuple[Case, ...]
    found: tuple[CaseResult, ...]

    def __len__(self) -> int:
        return len(self.made)

    @property
    def sizes(self) -> Sequence[int]:
        """Of the cases, in bytes."""
        return [case.size_bytes for case in self.made]

    def cases(self) -> tuple[Case, ...]:
        """The cases."""
        return self.made

    def results(self) -> tuple[CaseResult, ...]:
        """The results, in the order of the cases."""
        return self.found

    def repeated(self, first_cycle: int) -> tuple[int, int]:
        """How many cases repeat an earlier one, and how many of these have its time to the last digit."""
        again = sum(case.cycle > first_cycle for case in self.made)
        timed = [
            (case.dtype, case.op, case.root, case.size_bytes, case.count, case.placement, result.time_ns)
            for case, result in zip(self.made, self.found, strict=True)
            if result.time_ns is not None
        ]
        return again, len(timed) - len(set(timed)) if again else 0

    @property
    def told(self) -> tuple[str, ...]:
        """Words of ``--stats`` for what the log has of some row, beside its time."""
        fields = {"in": "input_bytes", "out": "output_bytes", "algorithm": "algorithm"}
        return tuple(
            word
            for word, name in fields.items()
            if any(getattr(result, name) not in (None, "") for result in self.found)
        )

    def case_texts(self) -> tuple[str, ...]:
        """The JSON of the cases."""
        return tuple(map(text_of, self.made))

    def result_texts(self) -> tuple[str, ...]:
        """The JSON of the results."""
        return tuple(map(text_of, self.found))


def cases(table: Table, decision: Decision, numbers: Bandwidths) -> CaseColumns | CaseValues:
    """Every row as one case a placement, failed rows among them. Repeated cases are further cycles."""
    columns = _columns(table, decision, numbers)
    if table.failures or table.outcomes or not _ascends(table.lines):
        return _values(table, decision, columns)
    return columns


def _columns(table: Table, decision: Decision, numbers: Bandwidths) -> CaseColumns:
    sizes: list[int] = numbers.sizes.tolist()
    counts, roots = _counts(table, decision, sizes), table.roots.tolist()
    known_types = {word: canonical_type(word) for word in set(table.types)}
    moving = decision.operation in MOVING
    known_ops = {word: "" if moving else canonical_op(word) for word in set(table.redops)}
    types = [known_types[word] for word in table.types]
    ops = [known_ops[word] for word in table.redops]
    choices = _choices(table, decision, sizes)
    algorithms = list(table.algorithms) or [each.words if each else "" for each in choices]
    return CaseColumns(
        decision.operation,
        types,
        ops,
        roots,
        sizes,
        counts,
        _cycles(list(zip(types, ops, roots, sizes, counts, strict=True)), table.cycle),
        [
            Side(
                timing.placement,
                np.isfinite(timing.time_us.value).tolist(),
                numbers.times_ns[side],
                numbers.algbw[side],
                numbers.busbw[side],
                np.full(len(table), np.nan) if timing.wrong is None else timing.wrong,
                numbers.is_mean,
                timing.stats,
                algorithms,
                choices,
                table.input_bytes,
                table.output_bytes,
            )
            for side, timing in enumerate(table.timings)
        ],
    )


def _choices(table: Table, decision: Decision, sizes: Sequence[int]) -> list[Choice | None]:
    """What NCCL said in the table of a call of each row's size; nothing where it said two things of one size,
    as of one row in-place and the other not.
    """
    if not table.calls:
        return []
    told: dict[int | None, set[Choice]] = defaultdict(set)
    for line in tuning_lines("\n".join(table.calls)):
        if not line.function or operation(line.function) == decision.operation:
            told[line.size_bytes(decision.ranks)].add(line.choice)
    return [next(iter(found)) if len(found := told.get(size, set())) == 1 else None for size in sizes]


def _cycles(rows: Sequence[Hashable], first: int) -> list[int]:
    """How often each row was there before, counted from the first cycle of the table."""
    if len(set(rows)) == len(rows):
        return [first] * len(rows)
    seen: dict[Hashable, int] = {}
    found = []
    for row in rows:
        cycle = seen.get(row, first)
        seen[row] = cycle + 1
        found.append(cycle)
    return found


def _ascends(lines: IntArray) -> bool:
    return bool((lines[1:] >= lines[:-1]).all())


def _values(table: Table, decision: Decision, columns: CaseColumns) -> CaseValues:
    """The rows, and what was said of them or instead of them, in the order of the lines."""
    merged = list(_merged(table, decision, columns))
    cycles = _cycles([kind for kind, _ in merged], table.cycle)
    made, results = [], []
    for index, ((kind, result), cycle) in enumerate(zip(merged, cycles, strict=True)):
        dtype, op, root, size, count, placement = kind
        made.append(
            Case(index, decision.operation, dtype, op, root, size, size, count, placement, cycle=cycle)
        )
        results.append(replace(result, case=index))
    return CaseValues(decision.operation, tuple(made), tuple(results))


def _merged(table: Table, decision: Decision, columns: CaseColumns) -> Iterator[tuple[_Kind, CaseResult]]:
    cases, results, sides = columns.cases(), columns.results(), len(columns.sides)
    events: list[tuple[int, int, Failure | None]]
    events = [(line, row, None) for row, line in enumerate(table.lines.tolist())]
    events += [(failure.line, -1, failure) for failure in table.failures]
    for line, row, failure in sorted(events, key=lambda event: event[0]):
        if failure is not None:
            yield from _failed(table, decision, columns, failure)
            continue
        for place in range(row * sides, row * sides + sides):
            case, result = cases[place], results[place]
            said = table.outcomes.get((line, case.placement))
            if said is not None and said.status is None:
                continue  # our own table had the other placement only
            kind = (case.dtype, case.op, case.root, case.size_bytes, case.count, case.placement)
            yield kind, said.apply(result) if said is not None else result


def _failed(
    table: Table, decision: Decision, columns: CaseColumns, failure: Failure
) -> Iterator[tuple[_Kind, CaseResult]]:
    """A row that says why it has no numbers."""
    if failure.outcome is not None and failure.outcome.status is None:
        return
    size = failure.size_bytes
    word = failure.dtype or table.default_type or next(iter(table.types), "")
    op = str(table.header.get("own_op", "")) or next(iter(columns.ops), "")
    root = table.header.get("own_root", table.roots[0] if len(table) else -1)
    count = whole_count(decision, word, size, 0) if word else 0
    result = CaseResult(0, Status.FAILED, error=failure.text)
    kind = (canonical_type(word), op, int(root), size, count, table.timings[0].placement)
    yield kind, failure.outcome.apply(result) if failure.outcome is not None else result


def _counts(table: Table, decision: Decision, sizes: list[int]) -> list[int]:
    """The counts of the calls, which are those of one block for operations with blocks."""
    counts: list[int] = table.counts.tolist()
    if table.tool != NCCOM_TEST and min(counts, default=0) >= 0:
        return counts
    return [
        count if count >= 0 and table.tool != NCCOM_TEST else whole_count(decision, word, size, max(count, 0))
        for count, word, size in zip(counts, table.types, sizes, strict=True)
    ]


def whole_count(decision: Decision, word: str, size: int, otherwise: int) -> int:
    """Elements of the call where the log counts those of the whole buffer, or none."""
    width = _width(word)
    elements = size // width if width else otherwise
    return elements // max(decision.ranks, 1) if decision.operation in BLOCKED else elements


_width = cache(type_bytes)


@cache
def canonical_type(word: str) -> str:
    """Our name of an element type; a foreign word stays."""
    for row in DATA_TYPES:
        if word in (row.name, *row.aliases):
            return row.name
    return word


@cache
def canonical_op(word: str) -> str:
    """Our name of a reduction, empty for ``none``; a foreign word stays."""
    for row in REDUCE_OPS:
        if word in (row.name, *row.aliases):
            return row.name
    return "" if word == "none" else word
