"""The event stream: one JSON line an event, from rank 0 to what shows, stores or follows the run.

A line starts with ``{"busbw":`` and carries the stream's version, so that it is recognised behind a
launcher's prefix (``0: ``, ``[1,0]<stdout>:``) and between other programs' output. Kinds: hello (a rank is
there), header (world, backend, method, run folder), pass (a CaseResult so far, before that of the case),
case (one CaseResult, final), progress (cases done, seconds left, after every case), round and verdict (of a
hunt), window (of a soak), memory (most bytes of any rank, by use), finding, stall (the ranks of a host do
not move any more), error, end. A front process adds state (what an engine says of the job); where the ranks
cannot write its run folder, record carries the finished record home, and ``seq`` numbers rank 0's events,
so that a stream may be read twice. On its way through launchers an event is cut into part lines where it is
long. A write of up to PIPE_BUF (4,096) bytes reaches a pipe whole; of a longer one, MPICH's hydra may read
a piece at a time, and puts its label before each (``-prepend-rank``, 5.0.2: 9 of 120 lines of 6 kB had a
label inside, 80 of 120 of 61 kB, none of 4 kB).
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from busbw.errors import BusbwError
from busbw.model.progress import HostStill
from busbw.redact import redact_text

STREAM_VERSION: Final = 2
_MARK: Final = '{"busbw":'
# A line with its line break, as it is written to a launcher.
MOST_LINE_BYTES: Final = 4096
# Of compressed data in a part: base85 makes 5 of 4, and the rest of the line has its place too.
PART_BYTES: Final = 3000


class EventKind(StrEnum):
    """What an event is about."""

    HELLO = "hello"
    HEADER = "header"
    PASS = "pass"
    CASE = "case"
    PROGRESS = "progress"
    FINDING = "finding"
    ROUND = "round"
    VERDICT = "verdict"
    WINDOW = "window"
    MEMORY = "memory"
    STALL = "stall"
    ERROR = "error"
    STATE = "state"
    RECORD = "record"
    END = "end"
    PART = "part"


Event = dict[str, Any]
Emit = Callable[[Event], None]


def event(kind: EventKind, **fields: Any) -> Event:  # noqa: ANN401 (JSON values)
    """A new event; dataclass values become plain ones."""
    plain = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in fields.items()
    }
    return {"busbw": STREAM_VERSION, "event": kind.value, **plain}


def error_words(item: Event) -> str:
    """What an error says, with its rank and host where it does not name them itself."""
    message, rank, host = str(item["message"]), item["rank"], item["host"]
    if rank is None or message.startswith("rank ") or item.get("waits"):  # a rank that waits is no cause
        return message
    return f"rank {rank}" + (f" on {host}" if host else "") + f": {message}"


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


def encode_parts(item: Event) -> list[str]:
    """The lines, without line breaks, that carry an event through a launcher: itself, or its parts."""
    whole = encode(item)
    if len(whole) < MOST_LINE_BYTES:
        return [whole]
    data = zlib.compress(whole.encode())
    pieces = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
    name = f"{zlib.crc32(data):08x}"
    return [
        encode(
            event(
                EventKind.PART, of=name, part=number, parts=len(pieces), data=base64.b85encode(piece).decode()
            )
        )
        for number, piece in enumerate(pieces)
    ]


class Joiner:
    """Makes events whole again. One for each stream, which may be read again from its start."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[bytes]] = {}

    def take(self, item: Event) -> Event | None:
        """The event itself, or the one that this part completes; None while parts are missing."""
        if item["event"] != EventKind.PART:
            return item
        name, number = str(item["of"]), int(item["part"])
        pieces = self._pieces.setdefault(name, [])
        if number == 0:
            pieces.clear()
        if number == len(pieces):
            pieces.append(base64.b85decode(item["data"]))
        if len(pieces) < int(item["parts"]):
            return None
        del self._pieces[name]
        return decode(zlib.decompress(b"".join(pieces)).decode())


def now_utc() -> str:
    """ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def error_event(error: BusbwError, *, peer_lost: bool = False) -> dict[str, Any]:
    """An error as an event, with its place; ``peer_lost``: another rank says it, from outside."""
    return event(
        EventKind.ERROR,
        message=redact_text(error.message),
        hint=redact_text(error.hint),
        rank=error.rank,
        host=error.host,
        exit_code=int(error.exit_code),
        peer_lost=peer_lost,
    )


def stall_event(still: HostStill) -> Event:
    """What the watcher of a host reports."""
    return event(EventKind.STALL, still=still)
