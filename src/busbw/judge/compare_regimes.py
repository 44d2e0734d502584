"""Verdicts by regime: consecutive sizes that have one answer for one reason are one line.

Sizes on the two sides of 1 MiB are never one regime: below, the host's part of a call sets the pace and
launches scatter by several percent; above, the links do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import CaseKey
from busbw.judge.expectation import Judged
from busbw.model.case import LARGE

Row = TypeVar("Row", ComparedCase, Judged)


def regimes(rows: Iterable[Row], said: Callable[[Row], tuple[str, str]]) -> list[list[Row]]:
    """The rows of one operation, type and placement, those of a regime together, by size; rows of one size
    stay in their order. ``said`` gives answer and reason: the same text for all sizes that it holds for, so
    it names no size.
    """
    ordered = sorted(rows, key=lambda row: row.key.size_bytes)
    alike = groupby(ordered, key=lambda row: (said(row), row.key.size_bytes >= LARGE))
    return [list(own) for _, own in alike]


@dataclass(frozen=True)
class ComparedRegime:
    """One candidate over neighbouring sizes. ``of`` is their case without placement and size; ``placements``
    have the same verdicts over the same sizes. ``least`` and ``most`` bound the relative difference of FASTER
    and SLOWER over all intervals; ``bound`` is what the worst size rules out; ``assumed`` is as of
    ComparedCase. None where there is no number.
    """

    arm: str
    of: CaseKey
    placements: tuple[str, ...]
    first_bytes: int
    last_bytes: int
    verdict: Verdict
    why: str
    least: float | None = None
    most: float | None = None
    bound: float | None = None
    assumed: float | None = None


def compared_regimes(comparison: Comparison) -> Iterator[ComparedRegime]:
    """By candidate, operation and size."""
    for arm in comparison.candidates:
        curves: dict[CaseKey, dict[str, list[ComparedCase]]] = defaultdict(lambda: defaultdict(list))
        for row in comparison.rows:
            if row.arm == arm.name:
                curves[replace(row.key, placement="", size_bytes=0)][row.key.placement].append(row)
        for of, placements in curves.items():
            # Placements with the same regimes are one.
            alike: dict[tuple[object, ...], list[list[list[ComparedCase]]]] = defaultdict(list)
            for rows in placements.values():
                found = regimes(rows, lambda row: (row.verdict, row.reasons))
                outline = (
                    (own[0].key.size_bytes, own[-1].key.size_bytes, own[0].verdict, own[0].reasons)
                    for own in found
                )
                alike[tuple(outline)].append(found)
            for several in alike.values():
                for parts in zip(*several, strict=True):
                    yield _regime(arm.name, of, [row for part in parts for row in part])


def _regime(arm: str, of: CaseKey, rows: Sequence[ComparedCase]) -> ComparedRegime:
    """Rows with one verdict, of one placement or more."""
    verdict, sizes = rows[0].verdict, [row.key.size_bytes for row in rows]
    edges: list[float] = []
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        every = (edge for row in rows for edge in row.interval or ())
        edges = [edge if verdict is Verdict.FASTER else 1 / edge for edge in every]
    return ComparedRegime(
        arm,
        of,
        tuple(sorted({row.key.placement for row in rows}, reverse=True)),
        min(sizes),
        max(sizes),
        verdict,
        rows[0].reasons,
        least=min(edges) - 1 if edges else None,
        most=max(edges) - 1 if edges else None,
        bound=max((row.bound for row in rows if row.bound is not None), default=None),
        assumed=max((row.assumed for row in rows if row.assumed is not None), default=None),
    )
