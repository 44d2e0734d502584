"""Rank 0's side of bringing a record home: where it writes, and what it sends when it is done.

Where the front process's run folder is shared with this host, rank 0 writes into it and sends nothing. Else
it writes to a temporary folder and sends the finished files through the event stream, within a bound.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from busbw.model.event import PART_BYTES, Emit, Event, EventKind, event
from busbw.record.folder import (
    DIGESTS_FILE,
    NCCL_FILES,
    REQUEST_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    TICKET_FILE,
    create,
)

# The samples of a large run stay where they are: the channel is a log.
MOST_BYTES: Final = 4 << 20
_SCRATCH: Final = "busbw-delivery-"


class Delivery:
    """Numbers rank 0's events, and sends the record just before the last one.

    ``home`` is the front process's run folder as it names it; its last part is the run's id.
    """

    def __init__(self, home: Path, emit: Emit) -> None:
        self.run_id = home.name
        self.is_shared = _has_ticket(home)
        self._scratch = None if self.is_shared else Path(tempfile.mkdtemp(prefix=_SCRATCH))
        self.folder = home if self._scratch is None else create(self._scratch, self.run_id)
        self._emit = emit
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def asked(self) -> tuple[tuple[str, ...], dict[str, Any]] | None:
        """The user's own command line and settings, where the folder is shared; else the front knows them."""
        if not self.is_shared:
            return None
        fields = json.loads((self.folder / REQUEST_FILE).read_text())
        return tuple(fields["argv"]), fields["settings"]

    def emit(self, item: Event) -> None:
        """Pass an event on. The record is whole once END comes (``rank.rank0``), and travels before it."""
        with self._lock:
            if item["event"] == EventKind.END and self._scratch is not None:
                for packet in packets(self.folder):
                    self._send(packet)
                remove_scratch(self.folder)
            self._send(item)

    def _send(self, item: Event) -> None:
        self._emit({**item, "seq": next(self._numbers)})


def remove_scratch(folder: Path) -> None:
    """Remove a run folder from which the record was to be sent; others stay."""
    if folder.parent.name.startswith(_SCRATCH):
        shutil.rmtree(folder.parent, ignore_errors=True)


def _has_ticket(home: Path) -> bool:
    """The ticket holds the run's id, so an older folder or another host's of the same name is not taken."""
    try:
        return (home / TICKET_FILE).read_text().strip() == home.name
    except OSError:
        return False


def packets(folder: Path, most_bytes: int = MOST_BYTES) -> Iterator[Event]:
    """The files of a record as events, the record itself first; what would exceed ``most_bytes`` (of
    compressed data) is named in an event without data.
    """
    left = most_bytes
    for name in (Path(RUN_FILE), *map(Path, NCCL_FILES), DIGESTS_FILE, SAMPLES_FILE):
        path = folder / name
        if not path.is_file():
            continue
        data = zlib.compress(path.read_bytes())
        if len(data) > left and name != Path(RUN_FILE):
            yield event(EventKind.RECORD, path=str(name), part=0, parts=0, data="", bytes=len(data))
            continue
        left -= len(data)
        parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        for number, part in enumerate(parts):
            text = base64.b85encode(part).decode()
            yield event(EventKind.RECORD, path=str(name), part=number, parts=len(parts), data=text)
