"""The event stream: one JSON line an event, from rank 0 to whoever shows, stores or follows the run.

A line starts with ``{"busbw":`` and carries the stream's version, so that it is recognised behind a
launcher's prefix (``0: ``, ``[1,0]<stdout>:``) and between other programs' output. Kinds: hello (a rank is
there), header (world, backend, method, run folder), case (one CaseResult), progress (cases done, seconds
left, after every case), finding, error, end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from enum import StrEnum
from typing import Any, Final

STREAM_VERSION: Final = 1
_MARK: Final = '{"busbw":'


class EventKind(StrEnum):
    """What an event tells."""

    HELLO = "hello"
    HEADER = "header"
    CASE = "case"
    PROGRESS = "progress"
    FINDING = "finding"
    ERROR = "error"
    END = "end"


Event = dict[str, Any]
Emit = Callable[[Event], None]


def event(kind: EventKind, **fields: Any) -> Event:  # noqa: ANN401 (JSON values)
    """A new event; dataclass values become plain ones."""
    plain = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in fields.items()
    }
    return {"busbw": STREAM_VERSION, "event": kind.value, **plain}


def encode(item: Event) -> str:
    """One line, without its newline."""
    return json.dumps(item, separators=(",", ":"))


def decode(line: str) -> Event | None:
    """The event in a line of a launcher's output, or None where there is none (or only half of one)."""
    start = line.find(_MARK)
    if start < 0:
        return None
    try:
        item = json.loads(line[start:])
    except ValueError:
        return None
    if not isinstance(item, dict) or item.get("busbw") != STREAM_VERSION or "event" not in item:
        return None
    return item
