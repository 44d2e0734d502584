"""What our own JSON exports carry beside the keys of the tool whose shape they have."""

from __future__ import annotations

import math
from typing import Any

from busbw.importers.json_text import Document, count, mapping, number, sequence, text_of
from busbw.importers.own import Outcome, outcome
from busbw.model.record import ImportFinding


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
