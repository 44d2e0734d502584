"""Cases and results of a table by column: as values, or as the text that a record has for them.

A value of each case and result, and then the text of each value, take fifty times as long as reading the rows
they are made from. In a table without failed rows the text is made of the columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np

from busbw.importers.printed import FloatArray
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import Placement
from busbw.model.result import CaseResult, Status

NO_NUMBERS: Final = "the log has no numbers for this placement"
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=vars).encode
_T = TypeVar("_T")
# The JSON of an object with %s for some fields, and the names of these in their order.
_Template = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Side:
    """One placement of every row; NaN is no number. ``printed`` is off where the log has no time.
    ``is_mean``: the times are means. ``wrong`` is NaN where nothing was checked, infinite where the count of
    a wrong row is not known. ``algorithms``, ``choices`` and the bytes in a rank's buffers are empty where no
    row has them.
    """

    placement: Placement
    printed: Sequence[bool]
    times_ns: FloatArray
    algbw: FloatArray
    busbw: FloatArray
    wrong: FloatArray
    is_mean: bool
    stats: dict[str, FloatArray] = field(default_factory=dict)
    algorithms: Sequence[str] = ()
    choices: Sequence[Choice | None] = ()
    input_bytes: Sequence[int | None] = ()
    output_bytes: Sequence[int | None] = ()

    def results(self, first: int, step: int) -> Iterator[CaseResult]:
        """The results of the rows, whose cases have the numbers ``first``, ``first + step``, ..."""
        columns = map(finite, (self.times_ns, self.algbw, self.busbw, self.wrong))
        stats = [finite(values) for values in self.stats.values()]
        bad = (self.wrong > 0).tolist()
        for row, (time, algbw, busbw, wrong) in enumerate(zip(*columns, strict=True)):
            number = first + step * row
            if not self.printed[row]:
                yield CaseResult(number, Status.NOT_APPLICABLE, error=NO_NUMBERS)
                continue
            yield CaseResult(
                number,
                Status.WRONG if bad[row] else Status.GOOD,
                time,
                mean_ns=time if self.is_mean else None,
                algbw_gb_per_s=None if bad[row] else algbw,
                busbw_gb_per_s=None if bad[row] else busbw,
                wrong=None if wrong is None else int(wrong),
                stats={name: values[row] for name, values in zip(self.stats, stats, strict=True)},
                algorithm=self.algorithms[row] if self.algorithms else "",
                choice=self.choices[row] if self.choices else None,
                input_bytes=self.input_bytes[row] if self.input_bytes else None,
                output_bytes=self.output_bytes[row] if self.output_bytes else None,
            )

    def texts(self, first: int, step: int) -> list[str]:
        """The JSON of the results."""
        if not all(self.printed) or (self.wrong > 0).any():
            return [text_of(result) for result in self.results(first, step)]
        rows = len(self.printed)
        times = _texts(self.times_ns)
        wrong = ["null" if np.isnan(count) else "0" for count in self.wrong.tolist()]
        names = "{" + ",".join(f"{_encode(name)}:%s" for name in self.stats) + "}"
        columns: dict[str, Iterable[object]] = {
            "case": range(first, first + step * rows, step),
            "time_ns": times,
            "mean_ns": times if self.is_mean else ["null"] * rows,
            "algbw_gb_per_s": _texts(self.algbw),
            "busbw_gb_per_s": _texts(self.busbw),
            "wrong": wrong,
        }
        if self.stats:
            stats = zip(*map(_texts, self.stats.values()), strict=True)
            columns["stats"] = [names % values for values in stats]
        if self.algorithms:
            columns["algorithm"] = map(_encode, self.algorithms)
        if self.choices:
            columns["choice"] = map(_encode, self.choices)
        if self.input_bytes:
            columns["input_bytes"] = map(_encode, self.input_bytes)
        if self.output_bytes:
            columns["output_bytes"] = map(_encode, self.output_bytes)
        return _objects(_result_template(frozenset(columns)), columns)


@dataclass(frozen=True)
class CaseColumns:
    """Rows of a table, each with a case for every side. ``cycles`` count repetitions of a row."""

    collective: str
    types: Sequence[str]
    ops: Sequence[str]
    roots: Sequence[int]
    sizes: Sequence[int]
    counts: Sequence[int]
    cycles: Sequence[int]
    sides: Sequence[Side]

    def __len__(self) -> int:
        return len(self.sizes) * len(self.sides)

    def cases(self) -> tuple[Case, ...]:
        """The cases as values, in the order of the rows."""
        made: list[Case] = []
        columns = (self.types, self.ops, self.roots, self.sizes, self.counts, self.cycles)
        for dtype, op, root, size, count, cycle in zip(*columns, strict=True):
            for side in self.sides:
                place = side.placement
                made.append(
                    Case(len(made), self.collective, dtype, op, root, size, size, count, place, cycle=cycle)
                )
        return tuple(made)

    def results(self) -> tuple[CaseResult, ...]:
        """The results as values, in the order of the cases."""
        step = len(self.sides)
        return _woven([list(side.results(number, step)) for number, side in enumerate(self.sides)])

    def repeated(self, first_cycle: int) -> tuple[int, int]:
        """How many cases repeat an earlier one, and how many of these have its time to the last digit."""
        again = sum(cycle > first_cycle for cycle in self.cycles) * len(self.sides)
        copies = 0
        columns = (self.types, self.ops, self.roots, self.sizes, self.counts)
        for side in self.sides if again else ():
            times = side.times_ns.tolist()
            timed = [
                row
                for row, printed in zip(zip(*columns, times, strict=True), side.printed, strict=True)
                if printed
            ]
            copies += len(timed) - len(set(timed))
        return again, copies

    @property
    def told(self) -> tuple[str, ...]:
        """Words of ``--stats`` for what the log has of some row, beside its time."""
        first = self.sides[0]  # columns of the table, which all sides share
        columns = {"in": first.input_bytes, "out": first.output_bytes, "algorithm": first.algorithms}
        return tuple(word for word, column in columns.items() if not {None, ""}.issuperset(column))

    def case_texts(self) -> tuple[str, ...]:
        """The JSON of the cases."""
        step, rows = len(self.sides), len(self.sizes)
        words = {word: _encode(word) for word in {*self.types, *self.ops}}
        shared: dict[str, Iterable[object]] = {
            "dtype": [words[word] for word in self.types],
            "op": [words[word] for word in self.ops],
            "root": self.roots,
            "requested_bytes": self.sizes,
            "size_bytes": self.sizes,
            "count": self.counts,
            "cycle": self.cycles,
        }
        found = []
        for number, side in enumerate(self.sides):
            columns = {"index": range(number, number + step * rows, step), **shared}
            template = _case_template(self.collective, side.placement, frozenset(columns))
            found.append(_objects(template, columns))
        return _woven(found)

    def result_texts(self) -> tuple[str, ...]:
        """The JSON of the results."""
        step = len(self.sides)
        return _woven([side.texts(number, step) for number, side in enumerate(self.sides)])


def _woven(columns: Sequence[Sequence[_T]]) -> tuple[_T, ...]:
    """First those of the first row, then those of the second."""
    return tuple(value for row in zip(*columns, strict=True) for value in row)


def _objects(template: _Template, columns: Mapping[str, Iterable[object]]) -> list[str]:
    """The JSON of values of one dataclass; columns are texts of the fields that the template leaves open."""
    text, names = template
    return [text % row for row in zip(*(columns[name] for name in names), strict=True)]


def _template(model: Case | CaseResult, fields: frozenset[str]) -> _Template:
    parts = [
        f'"{name}":' + ("%s" if name in fields else text_of(known).replace("%", "%%"))
        for name, known in vars(model).items()
    ]
    return "{" + ",".join(parts) + "}", tuple(name for name in vars(model) if name in fields)


@lru_cache(64)
def _case_template(collective: str, placement: Placement, fields: frozenset[str]) -> _Template:
    return _template(Case(0, collective, "", "", 0, 0, 0, 0, placement), fields)


@lru_cache(8)
def _result_template(fields: frozenset[str]) -> _Template:
    return _template(CaseResult(0, Status.GOOD), fields)


def text_of(value: object) -> str:
    """The JSON of a value of a record."""
    return _encode(value)


def finite(values: FloatArray) -> list[float | None]:
    """None where there is no number."""
    found: list[float | None] = values.tolist()
    usable = np.isfinite(values)
    if not usable.all():
        for row in np.flatnonzero(~usable).tolist():
            found[row] = None
    return found


def _texts(values: FloatArray) -> list[str]:
    texts = list(map(repr, values.tolist()))
    usable = np.isfinite(values)
    if not usable.all():
        for row in np.flatnonzero(~usable).tolist():
            texts[row] = "null"
    return texts
