"""Tables in which nothing is odd, found many at a time: as nearly all tables of a long log are.

``check`` asks some dozen questions of a table, which takes longer than reading its rows where it has 29 of
them. Here the same questions are asked of the rows of all tables together. A table that passes is as
``check`` would leave it; every other one is left to ``check``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.importers.body import Body, BodyPart, join_bodies
from busbw.importers.check import Checked, check, is_reduction
from busbw.importers.columns import BoolArray, IntArray
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.operations import ROOTED, UNEVEN, base
from busbw.importers.osu import type_bytes
from busbw.importers.printed import FloatArray
from busbw.importers.roots import NO_ROOT
from busbw.importers.solve import SLACK, Consensus, agreeing, factor_bounds, scale_bounds, total_factor_bounds
from busbw.importers.spreads import factors, odd_orders, rate_bounds
from busbw.importers.table import Table

# So many rows at once: their columns stay in the caches.
_BATCH_ROWS: Final = 20_000
# Of two rows, the sources of a tool may have to say what the rows do not: that is asked by ``check``.
_LEAST_ROWS: Final = 3


def check_all(tables: Sequence[Table], assumed: str = "") -> Iterator[Checked]:
    """``check`` of each table, in their order."""
    begin = 0
    while begin < len(tables):
        end, rows = begin, 0
        while end < len(tables) and (rows < _BATCH_ROWS or end == begin):
            rows += len(tables[end])
            end += 1
        batch = tables[begin:end]
        found = _ordinary(batch, assumed)
        for number, table in enumerate(batch):
            yield found.get(number) or check(table, assumed)
        begin = end


def _ordinary(tables: Sequence[Table], assumed: str) -> dict[int, Checked]:
    """By number: the tables with nothing odd among those of a batch."""
    groups: dict[Hashable, list[int]] = {}
    for number, table in enumerate(tables):
        if _can_be_judged(table, assumed):
            body = table.body
            key = id(body.whole) if isinstance(body, BodyPart) else (table.tool, *_shape(body))
            groups.setdefault(key, []).append(number)
    found: dict[int, Checked] = {}
    for numbers in groups.values():
        group = _Group([tables[number] for number in numbers])
        pairs = zip(numbers, group.checked(), strict=True)
        found.update({number: checked for number, checked in pairs if checked is not None})
    return found


def _can_be_judged(table: Table, assumed: str) -> bool:
    if len(table) < _LEAST_ROWS or not table.trusted_time or (table.operation or assumed) in UNEVEN:
        return False
    kinds = table.body.kinds
    if len(kinds) != 1:
        return False
    ((dtype, redop),) = kinds
    return (not dtype or type_bytes(dtype) is not None) and (not redop or is_reduction(redop))


def _shape(body: Body) -> tuple[Hashable, ...]:
    """Bodies with the same columns can be put one below the other."""
    columns = [
        column is not None
        for timing in body.timings
        for column in (timing.time_us, timing.algbw, timing.busbw, timing.wrong, timing.rate)
    ]
    return (*columns, *(name for timing in body.timings for name in timing.stats))


def _together(bodies: Sequence[Body]) -> tuple[Body, IntArray, IntArray]:
    """One body with the rows of all, and where those of each begin and end in it. Parts of a longer body are
    in their order there already; other rows may stand between them.
    """
    parts = [body for body in bodies if isinstance(body, BodyPart)]
    if len(parts) == len(bodies):
        first, last = parts[0].begin, parts[-1].end
        whole = parts[0].whole
        ends = np.array([part.end for part in parts], np.int64)
        begins = np.array([part.begin for part in parts], np.int64)
        return BodyPart(whole, first, last), begins - first, ends - first
    ends = np.cumsum([len(body) for body in bodies])
    return join_bodies(bodies), np.concatenate([np.zeros(1, np.int64), ends[:-1]]), ends


class _Segments:
    """The rows of many tables in one body."""

    def __init__(self, begins: IntArray, ends: IntArray, rows: int) -> None:
        self.lengths = ends - begins
        edges = np.column_stack([begins, ends]).ravel()
        self._edges = edges[:-1] if edges[-1] == rows else edges

    def reduce(self, step: np.ufunc, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each table, its rows taken together."""
        found: npt.NDArray[Any] = step.reduceat(rows, self._edges)[::2]
        return found

    def all(self, rows: BoolArray) -> BoolArray:
        """For each table, whether all of its rows are so."""
        return self.reduce(np.logical_and, rows)

    def any(self, rows: BoolArray) -> BoolArray:
        """For each table, whether one of its rows is so."""
        return self.reduce(np.logical_or, rows)


class _Group:
    """Tables with the same columns, in one body."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._body, begins, ends = _together([table.body for table in tables])
        self._segments = _Segments(begins, ends, len(self._body))
        self._timings = self._body.timings

    def checked(self) -> list[Checked | None]:
        """What ``check`` would find for each table; None where it has to be asked."""
        sizes = self._body.sizes.astype(np.float64)
        scales = [scale_bounds(timing, sizes) for timing in self._timings]
        factors = [factor_bounds(timing) for timing in self._timings]
        good = self._even_rows() & self._whole_counts() & self._undenied() & self._even_roots()
        good &= self._ordered() & self._rates(sizes)
        has_scale = np.zeros(len(self._tables), bool)
        for low, high in scales:
            good &= self._segments.all(agreeing(low, high, 1.0, 1.0))
            has_scale |= self._segments.any(np.isfinite(low))
        agreed = self._consensus(factors)
        good &= agreed.low <= agreed.high
        totals = []
        for timing, (low, high) in zip(self._timings, factors, strict=True):
            other_low, other_high = total_factor_bounds(timing, sizes, 1.0)
            totals.append((np.fmax(low, other_low), np.fmin(high, other_high)))
        narrow = self._consensus(totals)
        judged = np.zeros(len(self._tables), np.int64)
        for low, _ in scales:
            judged += self._segments.reduce(np.add, np.isfinite(low).astype(np.int64))
        return [
            self._one(number, bool(has_scale[number]), int(judged[number]), agreed, narrow)
            if is_good
            else None
            for number, is_good in enumerate(good.tolist())
        ]

    def _one(self, number: int, has_scale: bool, judged: int, wide: _Bounds, narrow: _Bounds) -> Checked:
        table = self._tables[number]
        if not has_scale:
            return Checked(table, None, None if table.tool == NCCOM_TEST else 1.0, wide.consensus(number))
        return Checked(table, Consensus(1.0, 1.0, judged, judged), 1.0, narrow.consensus(number))

    def _even_rows(self) -> BoolArray:
        """Tables whose rows are as long as each other, and whose times are positive."""
        segments, widths = self._segments, self._body.widths
        even: BoolArray = segments.reduce(np.minimum, widths) == segments.reduce(np.maximum, widths)
        for timing in self._timings:
            even &= segments.all(np.isfinite(timing.time_us.value) & (timing.time_us.value > 0))
        return even

    def _even_roots(self) -> BoolArray:
        """Tables whose rows all have the same root, one where the operation has one."""
        roots = self._body.roots
        if (roots == NO_ROOT).all():  # as nearly always
            return np.ones(len(self._tables), bool)
        least = self._segments.reduce(np.minimum, roots)
        rooted = np.array([base(table.operation) in ROOTED for table in self._tables])
        good: BoolArray = (least == NO_ROOT) | ((least > NO_ROOT) & rooted)
        good &= least == self._segments.reduce(np.maximum, roots)
        return good

    def _ordered(self) -> BoolArray:
        """Tables whose minima, means and maxima are in this order."""
        good = np.ones(len(self._tables), bool)
        for timing in self._timings:
            odd = odd_orders(self._tables[0].tool, timing)
            if odd is not None:
                good &= ~self._segments.any(odd)
        return good

    def _rates(self, sizes: FloatArray) -> BoolArray:
        """Tables whose Mbytes/sec all follow from size and time by one formula."""
        good = np.ones(len(self._tables), bool)
        for timing in self._timings:
            if timing.rate is None:
                continue
            low, high = rate_bounds(timing, sizes)
            known = [factors(table) for table in self._tables]
            fits = np.zeros(len(good), bool)
            for factor in {factor for some in known for factor in some}:
                asked = np.array([factor in some for some in known])
                fits |= asked & self._segments.all(agreeing(low, high, factor, factor))
            good &= fits
        return good

    def _whole_counts(self) -> BoolArray:
        """Tables whose sizes are all the same multiple of count times element."""
        segments, sizes, counts = self._segments, self._body.sizes, self._body.counts
        element = self._element_bytes()
        judged = (counts > 0) & (element > 0)
        whole = np.where(judged, counts * element, 1)
        blocks = np.where(sizes % whole == 0, sizes // whole, -1)
        least = segments.reduce(np.minimum, np.where(judged, blocks, np.iinfo(np.int64).max))
        most = segments.reduce(np.maximum, np.where(judged, blocks, -2))
        lost = (counts == 0) & (sizes > 0) & (element > 0)
        good: BoolArray = (least >= most) & ~segments.any(lost)
        return good

    def _element_bytes(self) -> IntArray:
        """Bytes of an element by row, 0 for a type that is not known."""
        widths = {word: type_bytes(word) or 0 for word, _ in self._body.kinds}
        if len(widths) == 1:
            return np.full(len(self._body), sum(widths.values()), np.int64)
        return np.array([widths[word] for word in self._body.types], np.int64)

    def _undenied(self) -> BoolArray:
        """Tables that do not count wrong elements which the line below them denies."""
        denied = np.array([table.out_of_bounds == 0 for table in self._tables])
        good = np.ones(len(self._tables), bool)
        for timing in self._timings:
            if timing.wrong is not None:
                good &= ~(denied & self._segments.any(timing.wrong > 0))
        return good

    def _consensus(self, bounds: Sequence[tuple[FloatArray, FloatArray]]) -> _Bounds:
        reduce = self._segments.reduce
        low = np.full(len(self._tables), -np.inf)
        high = np.full(len(self._tables), np.inf)
        votes = np.zeros(len(self._tables), np.int64)
        for row_low, row_high in bounds:
            usable = np.isfinite(row_low)
            lows = np.where(usable, row_low * (1 - SLACK), -np.inf)
            highs = np.where(usable, row_high * (1 + SLACK), np.inf)
            # Rows that contradict themselves do not vote in ``consensus``: it has to be asked.
            highs = np.where(usable & (row_low > row_high), -np.inf, highs)
            low = np.maximum(low, reduce(np.maximum, lows))
            high = np.minimum(high, reduce(np.minimum, highs))
            votes += reduce(np.add, usable.astype(np.int64))
        return _Bounds(low, high, votes)


@dataclass(frozen=True)
class _Bounds:
    """The interval that lies in those of all rows, for each table; ``low`` > ``high`` where there is none."""

    low: FloatArray
    high: FloatArray
    votes: IntArray

    def consensus(self, number: int) -> Consensus | None:
        """That of one table; None where its rows do not agree, or say nothing."""
        votes = int(self.votes[number])
        if not votes or self.low[number] > self.high[number]:
            return None
        return Consensus(float(self.low[number]), float(self.high[number]), votes, votes)
