"""What a text held so far: its streams, their tables, and what stands beside these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from busbw.importers import own
from busbw.importers.columns import Columns, Layout
from busbw.importers.devices import DeviceText
from busbw.importers.ends import Ends
from busbw.importers.evidence import OF_CALLS, Evidence
from busbw.importers.facts import Facts
from busbw.importers.headings import IMB, usual_layout
from busbw.importers.job import Job
from busbw.importers.pieces import drop_piece
from busbw.importers.printed import is_number
from busbw.importers.raw import RawTable, Stream
from busbw.model.record import OTHER_OUTPUT, ImportFinding

# Rows are turned into arrays in blocks: a row of words takes twenty times the memory of a row of numbers.
_BLOCK_ROWS: Final = 20_000
# A table becomes a run, and whoever reads a run has all of it in memory.
_LONGEST_TABLE: Final = 50_000
# Rows of tables that wait for the end of one above them.
_MOST_WAITING: Final = 200_000
_MOST_LOST: Final = 20


@dataclass(frozen=True)
class Log:
    """What one text holds, or a part of it: then facts and evidence are those up to its end."""

    tables: tuple[RawTable, ...]
    facts: Facts  # of the last launch, also where it has no table
    job: dict[str, Any]
    evidence: dict[str, list[str]]
    last_words: str
    lines: int  # 0 where more of the text follows
    findings: tuple[ImportFinding, ...] = ()  # those of no table


class Contents:
    """Takes rows and words of a text, whose line ``number`` is being read; gives its tables."""

    def __init__(self) -> None:
        self.number = 0
        self.job = Job()
        self.evidence = Evidence()
        self.last_words: bytes | str = ""
        self._streams: dict[str, Stream] = {}
        self._tables: list[RawTable] = []
        self._rows = 0  # of tables that no part has had
        self._lost: list[ImportFinding] = []
        self._ends = Ends()
        self._has_parts = False  # some tables were handed on

    def stream(self, name: str) -> Stream:
        """The stream of this name, which may be new."""
        if name not in self._streams:
            self._streams[name] = Stream(name)
        return self._streams[name]

    # ---- what is taken ---------------------------------------------------------------------------------

    def take_row(self, stream: Stream, words: list[str], width: int) -> None:
        """A row, by its words. ``width`` 0: its length is not to be compared with that of others."""
        stream.add(words, self.number, width)
        self._rows += 1
        if stream.piece:
            drop_piece(stream)
        if len(stream.rows) >= _BLOCK_ROWS:
            stream.convert()

    def take_rows(self, table: RawTable, found: Columns, begin: int, end: int) -> None:
        """Rows of a table that a pattern found; the next line is the first of them."""
        table.add(found, begin, end)
        self._rows += end - begin
        self.number += end - begin
        table.last_line = self.number

    def begin_table(self, stream: Stream, layout: Layout) -> None:
        """A heading."""
        self._close(stream)
        self._not_lost(stream)
        if stream.ended and layout.tool != IMB:  # no word of a launch since: those above are another table's
            self._new_launch_if_ended(stream)
        stream.table = RawTable(
            layout,
            stream.name,
            self.number,
            stream.facts,
            self.job.take(),
            stream.placements,
            last_line=self.number,
        )
        stream.placements = ""
        stream.open, stream.expected, stream.announced = True, len(layout.columns), 0
        self._tables.append(stream.table)

    def take_devices(self, stream: Stream, devices: DeviceText) -> None:
        """Lines of the device list."""
        self._new_launch_if_ended(stream)
        self.job.begin_output()
        stream.facts.devices.append(devices)

    def take_fact(self, stream: Stream, scope: str, words: Mapping[str, Any]) -> None:
        """The words of a line of this scope."""
        if scope == "footer":
            self.lose(stream)
            if stream.table is not None:
                stream.table.footer.update(words)
                stream.table.last_line = self.number
                self._close(stream)
            return
        if scope == "groups":
            stream.placements = str(words["placements"])
            return
        if scope == "own-time":
            stream.own_time = str(words["time_is"])
        if scope in ("launch", "own-time"):
            if stream.announced and not words.keys().isdisjoint(stream.facts.header):
                self.lose(stream)
                self._failed_launch(stream)
            self._new_launch_if_ended(stream)
            self.job.begin_output()
        elif "benchmark" in words or "processes" in words:  # IMB: the next table of the same launch
            self._close(stream)
            stream.facts = Facts(dict(stream.facts.header), stream.facts.devices)
            for name in ("waiting", "processes", "groups") if "benchmark" in words else ():
                stream.facts.header.pop(name, None)
        if not stream.announced and (scope == "launch" or "benchmark" in words):
            stream.announced = self.number
        stream.facts.header.update(words)

    def take_own(self, stream: Stream, line: str) -> bool:
        """A comment line of busbw's own exports, above a table or below it; whether it is one above."""
        if "busbw: " not in line:
            return False
        words = own.table_words(line)
        if words is not None:
            self._new_launch_if_ended(stream)
            time = {"time_is": stream.own_time} if stream.own_time else {}
            self.take_fact(stream, "launch", words | time)
            return True
        remark = own.remark(line)
        if remark is not None and stream.table is not None:
            stream.table.remarks.append(remark)
        return False

    def take_words(self, stream: Stream, line: str) -> None:
        """Words of whoever else writes into the log: a launcher, or a test that fails."""
        self._ends.take(line, stream.name, self.number)

    def note_hidden(self, tool: str, before: str) -> None:
        """A heading behind other words."""
        text = (
            f"a heading of {tool} behind {before!r}, which is no prefix that busbw knows: take it off first"
        )
        if len(self._lost) < _MOST_LOST:
            self._lost.append(ImportFinding("no-heading", text, self.number))

    def note_damage(self, text: str) -> None:
        """Damage outside of a table."""
        if len(self._lost) < _MOST_LOST:
            self._lost.append(ImportFinding("damaged", text, self.number))

    def note_lost(self, stream: Stream, words: list[str]) -> None:
        """A line behind the words of a launch that looks like a row, though no heading was there yet."""
        numbers = sum(map(is_number, words))
        if len(stream.lost) < _MOST_LOST and not words[0].startswith("#") and numbers * 2 >= len(words):
            text = f"perhaps a row of a table whose heading is not in the log: {' '.join(words)[:80]}"
            stream.lost.append(ImportFinding("no-heading", text, self.number))

    def lose(self, stream: Stream) -> None:
        """The launch ended without a heading: what looked like its rows may have been these."""
        self._lost += stream.lost[: _MOST_LOST - len(self._lost)]
        stream.lost = []

    def _not_lost(self, stream: Stream) -> None:
        """The heading is here: what looked like rows above it was other output of the job."""
        stream.lost = [
            replace(found, kind=OTHER_OUTPUT, text=f"above the heading: {found.text.partition(': ')[2]}")
            for found in stream.lost
        ]
        self.lose(stream)

    def _new_launch_if_ended(self, stream: Stream) -> None:
        if stream.open:
            self._close(stream)
        if stream.ended:
            stream.facts, stream.ended = Facts(), False

    def _close(self, stream: Stream) -> None:
        if not stream.open:
            return
        if stream.piece:
            drop_piece(stream)
        stream.convert()
        stream.open, stream.ended, stream.expected = False, True, -1
        table = stream.table
        if table is not None and not table.footer:
            self._note_end(stream, table)

    def _note_end(self, stream: Stream, table: RawTable) -> bool:
        """Keep what was said behind the last row of a table of its end; whether something was."""
        end = self._ends.behind(table.last_line, stream.name)
        if end is not None:
            table.note(ImportFinding("cut", f"the test ended with: {end.text}", end.line))
        return end is not None

    def _failed_launch(self, stream: Stream) -> None:
        """Keep a test of nccl-tests that ended before its heading: it is a run that failed."""
        if "program" in stream.facts.header or "min_bytes" in stream.facts.header:
            table = RawTable(usual_layout(), stream.name, stream.announced, stream.facts)
            table.last_line = stream.announced
            if self._note_end(stream, table):
                self._tables.append(table)
                stream.facts, stream.announced = Facts(), 0

    def take_nccl(self, stream: Stream, line: str, forms: tuple[int, ...]) -> None:
        """What a line of NCCL tells, in which there are these kinds: of a call, it is the open table's."""
        table = self._open_table(stream) if forms == OF_CALLS else None
        if table is None:
            self.evidence.take(line, forms)
            return
        table.calls = table.calls or Evidence()
        table.calls.take(line, forms)

    def _open_table(self, stream: Stream) -> RawTable | None:
        """That of the stream, else the only one; rank 0 of a communicator may have another prefix."""
        if not stream.open:
            others = [each for each in self._streams.values() if each.open]
            if len(others) != 1:
                return None
            stream = others[0]
        return stream.table

    # ---- what is given ---------------------------------------------------------------------------------

    def part(self, least_rows: int) -> Log | None:
        """The tables that no later line can belong to, where they have so many rows; None where not.

        They are in the order of the text: one that may go on keeps those below it, up to a limit. A table
        that is too long is handed on in parts.
        """
        if self._rows < least_rows:
            return None
        for stream in self._streams.values():
            if stream.open and stream.table is not None and stream.table.rows >= _LONGEST_TABLE:
                self._cut(stream, stream.table)
        ready = self._ready()
        rows = sum(table.rows for table in ready)
        if self._rows - rows > _MOST_WAITING:
            for stream in self._streams.values():
                if stream.open and stream.table is not None:
                    self._cut(stream, stream.table)
                elif not stream.open:
                    stream.table = None  # a line that could still belong to it comes too late
            ready = self._ready()
            rows = sum(table.rows for table in ready)
        if rows < least_rows:
            return None
        self._rows -= rows
        self._has_parts = True
        del self._tables[: len(ready)]
        return self._log(ready, 0)

    def finish(self) -> Log:
        """Everything found that no part had; call it once."""
        for stream in self._streams.values():
            self._close(stream)
            self.lose(stream)
            if stream.announced and (self._tables or self._has_parts):
                self._failed_launch(stream)
        return self._log(self._tables, self.number)

    def _ready(self) -> list[RawTable]:
        last = {id(stream.table) for stream in self._streams.values()}
        return list(takewhile(lambda table: id(table) not in last, self._tables))

    def _cut(self, stream: Stream, table: RawTable) -> None:
        """End a table that is open, and go on with its next part; one without a row begins later. The lines
        below a table of our own say what its rows mean: it stays whole.
        """
        if "own_collective" in table.facts.header:
            return
        stream.convert()
        place = next(place for place, known in enumerate(self._tables) if known is table)
        if not table.rows:
            self._tables.append(self._tables.pop(place))
            return
        stream.table = table.next_part()
        self._tables.insert(place + 1, stream.table)

    def _log(self, tables: Sequence[RawTable], lines: int) -> Log:
        for table in tables:
            table.in_order()
        facts = max(
            (stream.facts for stream in self._streams.values()),
            key=lambda facts: len(facts.header) + len(facts.devices),
            default=Facts(),
        )
        last = self.last_words if isinstance(self.last_words, str) else self.last_words.decode()
        lost, self._lost = (*self._lost, *self.evidence.findings()), []
        self.evidence.cut.clear()
        return Log(
            tuple(tables),
            facts,
            self.job.plain(),
            self.evidence.as_dict(),
            last.strip()[:200],
            lines,
            lost,
        )
