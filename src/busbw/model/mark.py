"""Words beside numbers. A mark is about one row and changes what its reader does next; a condition holds for
a whole run, operation or type and is said once, above the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from busbw.model.case import Case
from busbw.model.result import CaseResult


@dataclass(frozen=True)
class Mark:
    """One row: the word shown, and what it says and asks for."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Condition:
    """``of`` has the fields of a case that decide whether it holds; none where the whole run has it."""

    name: str
    meaning: str
    of: tuple[str, ...] = ()


PART_ALONE: Final = "part-alone"
LEAST_OVERLAP: Final = 0.9  # below, what was to run with another ran in part alone

MARKS: Final = (  # the worst first: a row of a terminal shows one
    Mark(
        "unstable",
        "the samples drift, are strongly correlated or have two levels, and another run may differ by more"
        " than the interval: `busbw show RUN --case N`",
    ),
    Mark("descheduled", "a rank lost its core while it was timed: keep other programs off its host"),
    Mark("throttled", "power or heat held a GPU's clocks down: check its power limit and cooling"),
    Mark("clock", "the ranks' clocks ran apart or are too coarse for a time this short: do not use its skew"),
    Mark(
        PART_ALONE, 'for over a tenth of its time not all streams were under way: use ops_per_iter "balanced"'
    ),
    Mark("stopped", "a limit ended sampling before the interval was narrow enough: give more --case-time"),
)

CONDITIONS: Final = (
    Condition("contended", "a host has more ranks than cores: ranks also wait for each other's time slices"),
    Condition("shared-gpu", "ranks take turns on one GPU: times are not those of one GPU a rank"),
    Condition("profiled", "a profiler was attached: times include its cost; do not compare them"),
    Condition("delayed", "ranks came late on purpose (--arrival): times include their waiting"),
    Condition("grouped", "this NCCL has no such call: grouped sends and receives are timed", ("collective",)),
    Condition("emulated", "NCCL has none: an all_reduce of one float is timed", ("collective",)),
    Condition("as-bytes", "NCCL does not have the type: its bytes are moved", ("dtype",)),
    Condition("user-op", "MPI does not have the type: busbw's own reduction function is timed", ("dtype",)),
    Condition("scaled", "MPI has no such reduction: it sums, and busbw's own scaling is timed too", ("op",)),
    Condition("unchecked", "no check data can show wrong results of it", ("collective", "dtype", "op")),
)

# Words of older records.
_NOW: Final = {"bimodal": "unstable", "clock-error": "clock", "clock-step": "clock"}
_HOST_BOUND: Final = "host-bound"


def meaning(name: str) -> str:
    """What a mark or condition says; empty for one of a newer version."""
    return next((each.meaning for each in (*MARKS, *CONDITIONS) if each.name == name), "")


def conditions_of(found: Iterable[tuple[Case, CaseResult]]) -> tuple[str, ...]:
    """A line for each condition of the results, with the operations, types or reductions that have it."""
    subjects: dict[str, dict[str, None]] = {}
    of = {each.name: each.of for each in CONDITIONS}
    for case, result in found:
        for name in result.conditions:
            subject = " ".join(
                str(getattr(case, field)) for field in of.get(name, ()) if getattr(case, field)
            )
            subjects.setdefault(name, {})[subject] = None
    return tuple(
        f"{name}{f' ({listed})' if (listed := ', '.join(filter(None, each))) else ''}:"
        f" {meaning(name) or 'a word of another version'}"
        for name, each in subjects.items()
    )


def in_todays_words(result: CaseResult) -> CaseResult:
    """The result of an older record, whose marks had the conditions among them, with today's words."""
    names = [each.name for each in CONDITIONS]
    if not {*names, *_NOW, _HOST_BOUND} & set(result.marks):
        return result
    marks = dict.fromkeys(_NOW.get(mark, mark) for mark in result.marks if mark not in (*names, _HOST_BOUND))
    conditions = (*result.conditions, *(mark for mark in result.marks if mark in names))
    bound = {"host_bound": True} if _HOST_BOUND in result.marks else {}
    return replace(result, marks=tuple(marks), conditions=conditions, evidence={**result.evidence, **bound})
