"""What uneven counts cost (--skew), as lines: a row a case, and the answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.judge.uneven import Uneven, uneven
from busbw.model.neighbour import Factor
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.report.beside import interval_words
from busbw.report.fields import aligned, folded
from busbw.units import format_time

_HEAD: Final = ("case", "evenly", "uneven", "times as long", "busiest/mean")
_COLUMNS: Final = 98  # behind "# "


def lines(plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """A table and an answer; nothing where no case has an even one beside it."""
    found = list(uneven(plan, results))
    if not found:
        return []
    rows = [
        (_name(each), format_time(each.even_ns), format_time(each.time_ns), _ratio(each),
         f"{each.imbalance:.2f}")
        for each in found
    ]  # fmt: skip
    # The case that suffers most, of those that do by more than chance.
    slower = [each for each in found if each.low is not None and each.low > 1]
    worst = max(slower or found, key=lambda each: each.ratio)
    text = (
        f"uneven counts: {_name(worst)} takes {_ratio(worst)} times as long as the same bytes evenly spread;"
        f" its busiest rank moves {worst.imbalance:.2f} times the mean"
    )
    table = aligned([_HEAD, *rows], range(len(_HEAD)))
    return [f"# {line}".rstrip() for line in ("", *table, *folded(text, _COLUMNS, rest="  "))]


def _ratio(each: Uneven) -> str:
    return interval_words(Factor(each.ratio, each.low, each.high))


def _name(each: Uneven) -> str:
    return each.case.short + (f", cycle {each.case.cycle + 1}" if each.case.cycle else "")
