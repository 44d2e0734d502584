"""The rows of a table by column, with their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from busbw.importers.columns import BoolArray, IntArray
from busbw.importers.printed import FloatArray, Printed
from busbw.model.collective import Placement


# Values, though not frozen: a long log has tens of thousands of tables, and frozen ones take as long to make
# as their rows take to read.
@dataclass(eq=False)
class Timing:
    """Times of one placement, row by row. ``wrong`` is NaN where nothing was checked and infinite where a row
    is wrong, but nobody says in how many elements; ``stats`` are more statistics, in ns (cv, overlap:
    fractions). ``deviation`` is that of the old column ``error``, ``rate`` IMB's Mbytes/sec.
    """

    placement: Placement
    time_us: Printed
    algbw: Printed | None = None
    busbw: Printed | None = None
    wrong: FloatArray | None = None
    stats: dict[str, FloatArray] = field(default_factory=dict)
    deviation: Printed | None = None
    rate: Printed | None = None

    def rows(self, which: slice | BoolArray) -> Timing:
        """Some of the rows."""
        return Timing(
            self.placement,
            self.time_us.rows(which),
            None if self.algbw is None else self.algbw.rows(which),
            None if self.busbw is None else self.busbw.rows(which),
            None if self.wrong is None else self.wrong[which],
            {name: values[which] for name, values in self.stats.items()},
            None if self.deviation is None else self.deviation.rows(which),
            None if self.rate is None else self.rate.rows(which),
        )


@dataclass(eq=False)
class Body:
    """``counts`` are -1 where the tool prints none, ``roots`` where there is none; ``algorithms`` and the
    bytes in a rank's buffers are empty where the table has no such column.
    """

    lines: IntArray
    widths: IntArray
    sizes: IntArray
    counts: IntArray
    types: Sequence[str]
    redops: Sequence[str]
    roots: IntArray
    timings: tuple[Timing, ...]
    algorithms: Sequence[str]
    input_bytes: Sequence[int | None] = field(default_factory=list)
    output_bytes: Sequence[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Types and reductions of the rows."""
        return frozenset(zip(self.types, self.redops, strict=True))

    def rows(self, which: slice | BoolArray) -> Body:
        """Some of the rows."""
        return Body(**{column.name: _rows(getattr(self, column.name), which) for column in fields(Body)})

    def with_columns(self, **columns: Any) -> Body:  # noqa: ANN401 (any column)
        """The same rows with other columns."""
        return Body(**{column.name: getattr(self, column.name) for column in fields(Body)} | columns)


class BodyPart(Body):
    """Adjacent rows of a longer body, such as those of one table among those of all tables of a text: its
    columns are cut out when they are asked for.
    """

    def __init__(self, whole: Body, begin: int, end: int) -> None:
        self.whole, self.begin, self.end = whole, begin, end

    def __len__(self) -> int:
        return self.end - self.begin

    @cached_property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Types and reductions of the rows."""
        all_kinds = self.whole.kinds
        return all_kinds if len(all_kinds) == 1 else frozenset(zip(self.types, self.redops, strict=True))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (any column)
        if name.startswith("_"):
            raise AttributeError(name)
        value = _rows(getattr(self.whole, name), slice(self.begin, self.end))
        setattr(self, name, value)
        return value


def _rows(column: Any, which: slice | BoolArray) -> Any:  # noqa: ANN401 (any column)
    if isinstance(column, np.ndarray):
        return column[which]
    if isinstance(column, tuple) and column and isinstance(column[0], Timing):
        return tuple(timing.rows(which) for timing in column)
    if isinstance(which, slice):
        return column[which]
    return [word for word, kept in zip(column, which, strict=False) if kept]


def join_bodies(bodies: Sequence[Body]) -> Body:
    """One below the other; all have the same columns."""
    first = bodies[0]

    def joined(name: str) -> Any:  # noqa: ANN401 (any column)
        columns = [getattr(body, name) for body in bodies]
        if isinstance(columns[0], np.ndarray):
            return np.concatenate(columns)
        return [word for column in columns for word in column]

    timings = tuple(
        _join_timings([body.timings[side] for body in bodies]) for side in range(len(first.timings))
    )
    names = [column.name for column in fields(Body) if column.name != "timings"]
    return Body(timings=timings, **{name: joined(name) for name in names})


def _join_timings(timings: Sequence[Timing]) -> Timing:
    first = timings[0]

    def joined(name: str) -> Any:  # noqa: ANN401 (Printed or an array)
        columns = [getattr(timing, name) for timing in timings]
        if columns[0] is None:
            return None
        if isinstance(columns[0], np.ndarray):
            return np.concatenate(columns)
        return Printed(
            np.concatenate([column.value for column in columns]),
            np.concatenate([column.half for column in columns]),
        )

    stats = {name: np.concatenate([timing.stats[name] for timing in timings]) for name in first.stats}
    return Timing(
        first.placement,
        joined("time_us"),
        joined("algbw"),
        joined("busbw"),
        joined("wrong"),
        stats,
        rate=joined("rate"),
    )
