"""What busbw writes beside the rows of its exports, read back: comment lines, and the words of a status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.result import CaseResult, Status

_TABLE: Final = re.compile(
    r"# *busbw: (?P<collective>\w+)(?P<words>(?: [\w.-]+){0,8}?) (?P<placement>out-of-place|in-place)"
    r"(?:, (?:(?P<ranks>\d{1,9}) ranks?|ranks not known)(?P<checked>, checked)?\b.*)?"
)
_REMARK: Final = re.compile(
    r"# *busbw: (?:\w+: )?(?P<status>WRONG|[a-z -]+), (?P<placement>out-of-place|in-place),"
    r"(?: (?P<kind>[a-z]\w*(?: [\w.-]+){0,5}),)?"
    r" (?P<cases>\d{1,9}) cases? \((?P<sizes>[\d, .]+) B\)(?:: (?P<reason>.*))?"
)
_WRONG: Final = re.compile(r"(\d{1,15}) wrong elements?")
NOT_IN_RUN: Final = ("not in this run", "not-in-run")
_ANY: Final[Mapping[str, str | int]] = MappingProxyType({})
_STATUSES: Final = {status.value: status for status in Status} | {"WRONG": Status.WRONG}


@dataclass(frozen=True)
class Outcome:
    """What is known about a case beside the numbers of its row. ``status`` None: the run has no such case.

    ``fields`` are fields of a CaseResult that the row itself has no column for.
    """

    status: Status | None
    fields: dict[str, Any] = field(default_factory=dict)

    def apply(self, result: CaseResult) -> CaseResult:
        """The result with this outcome."""
        from dataclasses import replace

        status = self.status or result.status
        if status in (Status.GOOD, Status.WRONG):
            cleared: dict[str, Any] = {"error": ""}
        else:  # an error, or nothing at all, has no numbers
            cleared = {"time_ns": None, "mean_ns": None}
        if status is not Status.GOOD:
            cleared |= {"algbw_gb_per_s": None, "busbw_gb_per_s": None}
        return replace(result, status=status, **{**cleared, **self.fields})


@dataclass(frozen=True)
class Remark:
    """A line below a table: these cases have no number, for this reason. ``kind`` is their type, op, root and
    cycle, as far as the line names them.
    """

    placement: str
    sizes: frozenset[int]
    outcome: Outcome
    cases: int
    kind: dict[str, str | int] = field(default_factory=dict)


def table_words(line: str) -> dict[str, Any] | None:
    """The words of the line above each of our tables, under ``own_`` names; None for other lines."""
    match = _TABLE.fullmatch(line)
    if match is None:
        return None
    found: dict[str, Any] = {
        "own_collective": match["collective"],
        "own_placement": match["placement"],
        "own_cycle": 0,
        "own_checked": match["checked"] is not None,
    }
    if match["ranks"]:
        found["own_ranks"] = int(match["ranks"])
    kind = {"op": ""} | _kind(match["words"].split())
    return found | {f"own_{name}": value for name, value in kind.items()}


def _kind(words: list[str]) -> dict[str, str | int]:
    """Type, op, root and cycle among the words, where they are there."""
    found: dict[str, str | int] = {}
    for name in ("root", "cycle"):
        if name in words[:-1] and words[words.index(name) + 1].isdecimal():
            at = words.index(name)
            found[name] = int(words[at + 1][:9])
            words = [*words[:at], *words[at + 2 :]]
    for name, known in (("op", REDUCE_OPS), ("type", DATA_TYPES)):
        word = next((word for word in words if any(word == row.name for row in known)), "")
        if word:
            found[name] = word
    return found


def remark(line: str) -> Remark | None:
    """The remark that a line is; None for other lines."""
    match = _REMARK.fullmatch(line)
    if match is None:
        return None
    found = outcome(match["status"], match["reason"] or "")
    if found is None:
        return None
    sizes = frozenset(int(word) for word in re.findall(r"\d{1,18}", match["sizes"]))
    kind = _kind((match["kind"] or "").split())
    return Remark(match["placement"], sizes, found, int(match["cases"]), kind)


def outcome(word: str, reason: str) -> Outcome | None:
    """What a status and its reason say; None for a word that is no status of ours."""
    if word in NOT_IN_RUN:
        return Outcome(None)
    status = _STATUSES.get(word)
    if status is None:
        return None
    if status is Status.WRONG:
        counted = _WRONG.fullmatch(reason)
        return Outcome(status, {"wrong": int(counted[1])} if counted else {})
    return Outcome(status, {} if status is Status.GOOD else {"error": reason})


def failure(text: str) -> Outcome | None:
    """The outcome that stands in a row instead of numbers: ``WRONG: 17 wrong elements``."""
    word, _, reason = text.partition(": ")
    return outcome(word, reason)


def remarked(
    remarks: Sequence[Remark], placement: str, size: int, kind: Mapping[str, str | int] = _ANY
) -> Outcome | None:
    """What the remarks say about a row without a number: the one that names its size, else the only one.

    ``kind`` is type, op, root and cycle of the row, as in a Remark.
    """
    here = [
        found
        for found in remarks
        if found.placement == placement
        and all(kind.get(name, value) == value for name, value in found.kind.items())
    ]
    named = [found for found in here if size in found.sizes]
    chosen = named or here
    return chosen[0].outcome if len({found.outcome.status for found in chosen}) == 1 else None
