"""What busbw writes beside the rows of its exports, read back: lines above tables, words of a status, JSON.

The lines below a table that say why a row has no number are not read.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.json_text import Document, count, mapping, number, sequence, text_of
from busbw.foreign.logs.row_words import FloatArray, Printed, printed
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.record import ImportFinding
from busbw.model.result import CaseResult, Status

_TIME: Final = re.compile(r"# *busbw: time = (.+?)(?:; of one call.*)?")
_TABLE: Final = re.compile(
    r"# *busbw: (?P<collective>\w+)(?P<words>(?: [\w.-]+){0,8}?) (?P<placement>out-of-place|in-place)"
    r"(?:, (?:(?P<ranks>\d{1,9}) ranks?|ranks not known)(?P<checked>, checked)?\b.*)?"
)
_WRONG: Final = re.compile(r"(\d{1,15}) wrong elements?")
# The word of a header under which our exports say what their times are; no tool has it.
OWN_TIME: Final = "time_is"
NOT_IN_RUN: Final = ("not in this run", "not-in-run")
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
        status = self.status or result.status
        if status in (Status.GOOD, Status.WRONG):
            cleared: dict[str, Any] = {"error": ""}
        else:  # an error, or nothing at all, has no numbers
            cleared = {"time_ns": None, "mean_ns": None}
        if status is not Status.GOOD:
            cleared |= {"algbw_gb_per_s": None, "busbw_gb_per_s": None}
        return replace(result, status=status, **{**cleared, **self.fields})


def time_words(line: str) -> str | None:
    """What the line above an export says of its times; None for other lines."""
    match = _TIME.fullmatch(line)
    return None if match is None else match[1]


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


def numbers(values: FloatArray, half: float) -> Printed:
    """A column of our own JSON exports: of an imported log, each number has the log's digits, however many
    the file has (``half`` is half a unit of its last one).
    """
    words = [f"{value:.6f}".rstrip("0").rstrip(".") for value in values.tolist()]
    return Printed(values, np.maximum(printed(words).half, half))


# ---- what our own JSON exports carry beside the keys of the tool whose shape they have ---------------------


def outcome_of(own: dict[str, Any]) -> Outcome | None:
    """Status, interval, samples, wrong elements and marks of a case; None without a status of ours."""
    reason = text_of(own.get("reason")) or text_of(own.get("error")).partition(": ")[2]
    found = outcome(text_of(own.get("status")), reason)
    if found is None or found.status is None:
        return found
    fields = dict(found.fields)
    for name in ("low_ns", "high_ns", "mean_ns"):
        value = number(own.get(name))
        if math.isfinite(value):
            fields[name] = value
    for name in ("samples", "calls_per_sample", "wrong"):
        value_or_none = count(own.get(name))
        if value_or_none is not None:
            fields[name] = value_or_none
    marks = tuple(text_of(mark) for mark in sequence(own.get("marks")))
    if marks:
        fields["marks"] = marks
    return Outcome(found.status, fields)


def run_words(content: dict[str, Any]) -> dict[str, Any]:
    """Operation, ranks and time of the export as a whole, under ``own_`` names."""
    own = mapping(content.get("busbw"))
    words: dict[str, Any] = {}
    if text_of(own.get("collective")) or text_of(own.get("operation")):
        words["own_collective"] = text_of(own.get("collective")) or own["operation"]
    # Bandwidths are by the ranks of a group; where groups differ, there is a list instead of a number.
    ranks = own.get("group_ranks", own.get("nworkers"))
    if count(ranks):
        words["own_ranks"] = ranks
    if text_of(own.get("time_is")):
        words["time_is"] = own["time_is"].partition(": ")[2].removesuffix("; of one call")
    return words


def cut(document: Document, entries: int) -> list[ImportFinding]:
    """That the text cannot be read to its end."""
    if not document.cut_line:
        return []
    text = f"the JSON text cannot be read from here on; {entries} entries of results stand before"
    return [ImportFinding("cut", text, document.cut_line)]
