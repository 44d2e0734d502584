"""Verdicts by regime: consecutive sizes that have one answer for one reason are one line.

Sizes on the two sides of 1 MiB are never one regime: below, the host's part of a call sets the pace and
launches scatter by several percent; above, the links do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Protocol, TypeVar

from busbw.judge.compare_arms import CaseKey
from busbw.model.case import LARGE


class _Keyed(Protocol):
    """A verdict on one case."""

    @property
    def key(self) -> CaseKey: ...


Row = TypeVar("Row", bound=_Keyed)


def regimes(rows: Iterable[Row], said: Callable[[Row], tuple[str, str]]) -> list[list[Row]]:
    """The rows of one operation, type and placement, those of a regime together, by size; rows of one size
    stay in their order. ``said`` gives answer and reason: the same text for all sizes that it holds for, so
    it names no size.
    """
    ordered = sorted(rows, key=lambda row: row.key.size_bytes)
    alike = groupby(ordered, key=lambda row: (said(row), row.key.size_bytes >= LARGE))
    return [list(own) for _, own in alike]
