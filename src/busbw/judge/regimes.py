"""Verdicts by regime: consecutive sizes that have one answer for one reason are one line.

Sizes on the two sides of 1 MiB are never one regime: below, the host's part of a call sets the pace and
launches scatter by several percent; above, the links do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from busbw.judge.scatter import LARGE


@dataclass(frozen=True)
class RegimeRow:
    """The verdict on one size. ``reason`` is the same text for all sizes that it holds for, so it names no
    size. ``ratio`` is measured over expected (None: none), ``unseen`` the share of a change that would not
    have shown (None: not known).
    """

    size_bytes: int
    answer: str
    reason: str = ""
    ratio: float | None = None
    unseen: float | None = None


@dataclass(frozen=True)
class Regime:
    """Consecutive sizes with one answer. Ratios are None where no row has one, ``unseen`` is the largest."""

    first_bytes: int
    last_bytes: int
    answer: str
    reason: str
    lowest: float | None
    highest: float | None
    unseen: float | None
    rows: tuple[RegimeRow, ...]

    @property
    def is_large(self) -> bool:
        """Whether its sizes are from 1 MiB on."""
        return self.first_bytes >= LARGE


def regimes(rows: Sequence[RegimeRow]) -> tuple[Regime, ...]:
    """The regimes of one operation, type and placement, by size. Rows of one size stay in their order."""
    ordered = sorted(rows, key=lambda row: row.size_bytes)
    alike = groupby(ordered, key=lambda row: (row.answer, row.reason, row.size_bytes >= LARGE))
    return tuple(_regime(tuple(group)) for _, group in alike)


def _regime(rows: tuple[RegimeRow, ...]) -> Regime:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return Regime(
        rows[0].size_bytes,
        rows[-1].size_bytes,
        rows[0].answer,
        rows[0].reason,
        min(ratios, default=None),
        max(ratios, default=None),
        max((row.unseen for row in rows if row.unseen is not None), default=None),
        rows,
    )
