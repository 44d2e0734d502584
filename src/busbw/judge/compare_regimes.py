"""Verdicts of a comparison by regime: neighbouring sizes with one verdict for one reason are one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.judge.compare import ComparedCase, Comparison, Verdict
from busbw.judge.compare_arms import CaseKey
from busbw.judge.regimes import Regime, RegimeRow, regimes


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
            yield from _of_curve(arm.name, of, placements)


def _of_curve(arm: str, of: CaseKey, placements: dict[str, list[ComparedCase]]) -> Iterator[ComparedRegime]:
    """Placements with the same regimes are one."""
    alike: dict[tuple[object, ...], list[list[ComparedRegime]]] = defaultdict(list)
    for placement, rows in placements.items():
        found = regimes(
            [RegimeRow(row.key.size_bytes, row.verdict, row.reasons, row.speedup, row.bound) for row in rows]
        )
        made = [
            _compared(ComparedRegime(arm, of, (placement,), *_outline(each)), each, rows) for each in found
        ]
        alike[tuple(map(_outline, found))].append(made)
    for several in alike.values():
        yield from map(_together, zip(*several, strict=True))


def _outline(regime: Regime) -> tuple[int, int, Verdict, str]:
    return regime.first_bytes, regime.last_bytes, Verdict(regime.answer), regime.reason


def _compared(plain: ComparedRegime, regime: Regime, rows: Sequence[ComparedCase]) -> ComparedRegime:
    """With the numbers of its rows."""
    own = [row for row in rows if plain.first_bytes <= row.key.size_bytes <= plain.last_bytes]
    edges = [
        edge if plain.verdict is Verdict.FASTER else 1 / edge for row in own for edge in row.interval or ()
    ]
    plain = replace(plain, assumed=max((row.assumed for row in own if row.assumed), default=None))
    if plain.verdict not in (Verdict.FASTER, Verdict.SLOWER):
        return replace(plain, bound=regime.unseen)
    return replace(plain, least=min(edges) - 1, most=max(edges) - 1, bound=regime.unseen)


def _together(parts: Sequence[ComparedRegime]) -> ComparedRegime:
    """The same regime of several placements."""

    def known(name: str) -> list[float]:
        return [value for part in parts if (value := getattr(part, name)) is not None]

    return replace(
        parts[0],
        placements=tuple(sorted((name for part in parts for name in part.placements), reverse=True)),
        least=min(known("least"), default=None),
        most=max(known("most"), default=None),
        bound=max(known("bound"), default=None),
        assumed=max(known("assumed"), default=None),
    )
