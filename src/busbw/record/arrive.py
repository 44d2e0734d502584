"""The front process's side: a run folder made of an event stream, whole at every moment.

Each event counts once, by its number, so a stream may be read again from its start or repeat lines after a
reconnection. Events are kept in log/stream.jsonl: a follower that attaches later starts from what was heard
before.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from busbw.model.event import Event, EventKind, decode, encode
from busbw.model.plain import from_plain
from busbw.model.plan import Plan
from busbw.model.record import RunRecord
from busbw.record.absent import note_left_out
from busbw.record.close import requested
from busbw.record.folder import (
    DIGESTS_FILE,
    NCCL_FILES,
    RESULTS_FILE,
    ROUNDS_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    STREAM_FILE,
)
from busbw.record.results import GrowingFile, append_line, append_round, forget_results
from busbw.record.write import write_record

# What may be written below a run folder by a stream, which other programs of the job can write to as well.
_WANTED: Final = frozenset({RUN_FILE, str(DIGESTS_FILE), str(SAMPLES_FILE), *NCCL_FILES})


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
        self._has_record = False  # rank 0's own run.json came

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
            write_record(self._folder, self._begun(item))
        elif kind in (EventKind.PASS, EventKind.CASE):
            append_line(self._folder / RESULTS_FILE, item["result"])
        elif kind == EventKind.ROUND:
            append_round(self._folder, item["tested"])
        elif kind == EventKind.RECORD:
            self._file(item)

    def _begun(self, header: Event) -> RunRecord:
        """The record as far as the header says. The request knows the user's words, the header the run."""
        return replace(
            requested(self._folder),
            plan=from_plain(Plan, header["plan"]),
            world=header["world"],
            method=header["method"],
            machine=header.get("machine", {}),
            environment=header.get("environment", {}),
        )

    def _file(self, item: Event) -> None:
        name = str(item["path"])
        if name not in _WANTED:
            return
        if not item["parts"]:
            self.left_out = (*self.left_out, name)
            note_left_out(self._folder, self.left_out)
            return
        parts = self._parts.setdefault(name, [])
        if item["part"] != len(parts):
            return  # a part is missing: the record as it was heard stands
        parts.append(str(item["data"]))
        if len(parts) == item["parts"]:
            self._store(name, zlib.decompress(b"".join(base64.b85decode(part) for part in parts)))

    def _store(self, name: str, data: bytes) -> None:
        if name == RUN_FILE:
            data = self._own_words(data)
            self._has_record = True
        partial = self._folder / f"{name}.arriving"
        partial.parent.mkdir(exist_ok=True)
        partial.write_bytes(data)
        partial.replace(self._folder / name)
        if self._has_record:
            forget_results(self._folder)

    def _own_words(self, data: bytes) -> bytes:
        """The user typed the front's command line, not the one that the job's ranks were given."""
        fields = json.loads(data)
        own = asdict(requested(self._folder))
        fields.update({name: own[name] for name in ("argv", "settings", "run_id")})
        return (json.dumps(fields, indent=1) + "\n").encode()
