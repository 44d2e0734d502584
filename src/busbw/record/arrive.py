"""A record on its way from rank 0 to the front process, through the event stream: both ends of it.

Where the front process's run folder is shared with rank 0's host, rank 0 writes into it and sends nothing.
Else it writes to a temporary folder and sends the finished files, within a bound, and the front makes a run
folder of the stream that is whole at every moment.

Each event counts once, by its number, so a stream may be read again from its start or repeat lines after a
reconnection. Events are kept in log/stream.jsonl: a follower that attaches later starts from what was heard
before.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from busbw.model.event import PART_BYTES, Emit, Event, EventKind, decode, encode, event
from busbw.model.plain import from_plain
from busbw.model.plan import Plan
from busbw.record.absent import note_left_out
from busbw.record.close import requested
from busbw.record.folder import (
    DIGESTS_FILE,
    NCCL_FILES,
    REQUEST_FILE,
    RESULTS_FILE,
    ROUNDS_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    STREAM_FILE,
    TICKET_FILE,
    create,
)
from busbw.record.results import GrowingFile, append_line, forget_results, write_record

# What is sent, in this order, and what may be written below a run folder by a stream, which other programs of
# the job can write to as well.
_SENT: Final = (RUN_FILE, *NCCL_FILES, str(DIGESTS_FILE), str(SAMPLES_FILE))
# The samples of a large run stay where they are: the channel is a log.
MOST_BYTES: Final = 4 << 20
_SCRATCH: Final = "busbw-delivery-"


class Delivery:
    """Numbers rank 0's events, and sends the record just before the last one.

    ``home`` is the front process's run folder as it names it; its last part is the run's id.
    """

    def __init__(self, home: Path, emit: Emit) -> None:
        self.run_id = home.name
        # The ticket holds the run's id, so an older folder or another host's of the same name is not taken.
        self.is_shared = False
        with contextlib.suppress(OSError):
            self.is_shared = (home / TICKET_FILE).read_text().strip() == home.name
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


def packets(folder: Path, most_bytes: int = MOST_BYTES) -> Iterator[Event]:
    """The files of a record as events, the record itself first; what would exceed ``most_bytes`` (of
    compressed data) is named in an event without data.
    """
    left = most_bytes
    for name in _SENT:
        path = folder / name
        if not path.is_file():
            continue
        data = zlib.compress(path.read_bytes())
        if len(data) > left and name != RUN_FILE:
            yield event(EventKind.RECORD, path=name, part=0, parts=0, data="", bytes=len(data))
            continue
        left -= len(data)
        parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        for number, part in enumerate(parts):
            text = base64.b85encode(part).decode()
            yield event(EventKind.RECORD, path=name, part=number, parts=len(parts), data=text)


# ---- the front's end --------------------------------------------------------------------------------------


class _Numbers:
    """Which events are new, by their numbers. Those without one (of other ranks) are new each time."""

    def __init__(self) -> None:
        self._next = 0

    def is_next(self, item: Event) -> bool:
        number = item.get("seq")
        if number is None:
            return True
        if number < self._next:
            return False
        self._next = number + 1
        return True


class Heard:
    """What the follower of a run has heard, for a second reader that writes nothing."""

    def __init__(self, folder: Path) -> None:
        self._file = GrowingFile(folder / STREAM_FILE)
        self._numbers = _Numbers()
        self.count = 0  # events that were given, from the first

    def new(self) -> Iterator[Event]:
        """The events that came since; a line whose end is still to come waits for it."""
        for line in self._file.new_lines():
            item = decode(line.decode(errors="replace"))
            if item is not None and self._numbers.is_next(item):
                self.count += 1
                yield item


class Arrival:
    """Takes rank 0's events in order and keeps the record that they make.

    ``take`` says whether an event is new. Nothing but the stream is written while the ranks themselves write
    the folder (``is_shared``, which the header tells).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = _Numbers()
        self._parts: dict[str, list[str]] = {}
        self.is_shared = False
        self.left_out: tuple[str, ...] = ()  # files that were too large to send

    def replay(self) -> Iterator[Event]:
        """What an earlier front process heard, as it would come again; call before ``take``."""
        path = self._folder / STREAM_FILE
        try:
            lines = path.read_bytes().splitlines(keepends=True)
        except OSError:
            return
        if lines and not lines[-1].endswith(b"\n"):  # cut short, as its writer was
            os.truncate(path, sum(map(len, lines)) - len(lines.pop()))
        items = [item for line in lines if (item := decode(line.decode(errors="replace"))) is not None]
        if not any(self._is_of_ranks(item) for item in items):
            (self._folder / RESULTS_FILE).unlink(missing_ok=True)
            (self._folder / ROUNDS_FILE).unlink(missing_ok=True)
        for item in items:
            if self._numbers.is_next(item):
                self._keep(item)
                yield item

    def _is_of_ranks(self, item: Event) -> bool:
        """A header that says that the ranks write this folder themselves."""
        return item["event"] == EventKind.HEADER and Path(item["folder"]) == self._folder

    def take(self, item: Event) -> bool:
        """Keep an event of the stream; False where it was seen before. Events without a number (of other
        ranks) are new each time.
        """
        if not self._numbers.is_next(item):
            return False
        with (self._folder / STREAM_FILE).open("a") as file:
            file.write(encode(item) + "\n")
        self._keep(item)
        return True

    def _keep(self, item: Event) -> None:
        kind = item["event"]
        if kind == EventKind.HEADER:
            self.is_shared = self._is_of_ranks(item)
        if self.is_shared:
            return
        if kind == EventKind.HEADER:
            # The record as far as the header says. The request knows the user's words, the header the run.
            begun = replace(
                requested(self._folder),
                plan=from_plain(Plan, item["plan"]),
                world=item["world"],
                method=item["method"],
                machine=item.get("machine", {}),
                environment=item.get("environment", {}),
            )
            write_record(self._folder, begun)
        elif kind in (EventKind.PASS, EventKind.CASE):
            append_line(self._folder / RESULTS_FILE, item["result"])
        elif kind == EventKind.ROUND:
            append_line(self._folder / ROUNDS_FILE, item["tested"])
        elif kind == EventKind.RECORD:
            self._file(item)

    def _file(self, item: Event) -> None:
        name = str(item["path"])
        if name not in _SENT:
            return
        if not item["parts"]:
            self.left_out = (*self.left_out, name)
            note_left_out(self._folder, self.left_out)
            return
        parts = self._parts.setdefault(name, [])
        if item["part"] != len(parts):
            return  # a part is missing: the record as it was heard stands
        parts.append(str(item["data"]))
        if len(parts) != item["parts"]:
            return
        data = zlib.decompress(b"".join(base64.b85decode(part) for part in parts))
        if name == RUN_FILE:
            # The user typed the front's command line, not the one that the job's ranks were given.
            own = requested(self._folder)
            words = {"argv": own.argv, "settings": own.settings, "run_id": own.run_id}
            write_record(self._folder, {**json.loads(data), **words})
            forget_results(self._folder)
            return
        partial = self._folder / f"{name}.arriving"
        partial.parent.mkdir(exist_ok=True)
        partial.write_bytes(data)
        partial.replace(self._folder / name)
