"""Lines to tables: finds headings, rows and footers of every tool in one pass, in each launcher's stream."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final

from busbw.foreign.logs.context import (
    TUNING,
    VERSION,
    End,
    Evidence,
    Job,
    is_end,
    is_of_a_library,
    keep,
    said,
)
from busbw.foreign.logs.lines import Line, split_lines
from busbw.foreign.logs.row_words import Layout, PrintedRow, filled, is_number
from busbw.foreign.logs.rows import (
    beginning_of_row,
    failure,
    is_cut,
    layout_of_row,
    looks_like_row,
    note_damage,
)
from busbw.foreign.logs.table import Fact, Facts, Table, Tool, fact_words, rank_line
from busbw.model.record import DAMAGED, JOB_FAILED, ImportFinding
from busbw.units import counted

_MOST_HEADLESS: Final = 10_000
_MOST_ENDS: Final = 1000


@dataclass(frozen=True)
class Log:
    """What one text holds. ``findings`` are those that belong to no table, ``has_command`` whether it shows
    the command line of a test below which there is none.
    """

    tables: tuple[Table, ...]
    has_command: bool
    last_words: str
    lines: int
    findings: tuple[ImportFinding, ...] = ()


@dataclass(eq=False)
class Stream:
    """What was read of one launcher stream: the table that is open, and the words for the next one."""

    name: str
    facts: Facts = field(default_factory=Facts)
    table: Table | None = None  # whose rows are being read
    last: Table | None = None  # that has ended
    ended: bool = False  # a table of this launch has ended: the next launch fact begins a new one
    continues: bool = False  # words of the next table of the same launch were said
    announced: int = 0  # the line of the first words of a launch whose heading was not there yet
    placements: str = ""
    piece: PrintedRow | None = None  # the beginning of a row that other output interrupted
    headless: list[PrintedRow] = field(default_factory=list)  # perhaps rows: no heading was there


def scan(text: bytes, tools: Sequence[Tool]) -> Log:
    """All tables of these tools in a text."""
    return _Scanner(tools).scan(text)


class _Scanner:
    """Reads one text. ``_stream`` is that of the line before, ``_rows_of`` that of the last row, heading."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._facts = [form for tool in tools for form in tool.facts]
        self._number = 0
        self._streams = {"": Stream("")}
        self._stream = self._rows_of = self._streams[""]
        self._tables: list[Table] = []
        self._job = Job()
        self._evidence: Evidence = {}
        self._ends: deque[End] = deque(maxlen=_MOST_ENDS)
        self._lost: list[ImportFinding] = []
        self._last_words = ""

    def scan(self, text: bytes) -> Log:
        """Take the text; call it once."""
        for line in split_lines(text, self._start):
            self._line(line)
        if text and not text[-1:].isspace():
            self._drop_cut_row()
        for stream in self._streams.values():
            self._close(stream)
            if self._tables:
                self._failed_launch(stream)
            self._lose(stream)
            self._end_launch(stream)
        for table in self._tables[-1:]:  # what stands below the last table is of its launch
            keep(table.evidence, [(key, text) for key, texts in self._evidence.items() for text in texts])
        if not self._tables:
            self._only_launch()
        self._join_headings()
        for table in self._tables:
            self._note_processes(table)
            table.findings.sort(key=lambda finding: finding.line)
        words, job = self._last_words.strip()[:200], self._job.plain()
        return Log(tuple(self._tables), bool(job), words, self._number, tuple(self._lost))

    def _start(self, line: str) -> int:
        """Where a heading or a line beside the rows begins; -1 for any other line."""
        if any(mark in line for tool in self._tools for mark in tool.heading_marks):
            for word in islice(_WORD.finditer(line), _MOST_STARTS):
                if self._layout_of(line[word.start() :]) is not None:
                    return word.start()
        for form in self._facts:
            is_known = form.mark in line and form.scope != "placements"  # whose words stand in any sentence
            match = form.pattern.search(line) if is_known else None
            if match is not None:
                return match.start()
        return -1

    def _layout_of(self, line: str) -> tuple[Tool, Layout] | None:
        """The tool whose heading begins a line, and what it announces."""
        for tool in self._tools:
            layout = _layout(line, tool) if any(mark in line for mark in tool.heading_marks) else None
            if layout is not None:
                return tool, layout
        return None

    def _join_headings(self) -> None:
        """Take a table without a row as one with the next, where every size is several times: its process
        wrote its rows below the heading of another one.
        """
        for first, then in pairwise(self._tables[:]):
            sizes = Counter(row.words[0] for row in then.lines)
            is_same = (first.stream, first.layout.columns) == (then.stream, then.layout.columns)
            is_empty = not (first.lines or first.failures or first.findings or first.footer)
            if is_same and is_empty and sizes and min(sizes.values()) > 1:
                then.facts.ranks[:0] = first.facts.ranks
                then.headings += first.headings
                self._tables.remove(first)

    def _note_processes(self, table: Table) -> None:
        """Say that a table is of several processes, whose rows cannot be taken apart."""
        if table.processes:
            size = len({rank.rank for rank in table.facts.ranks})
            each = f"communicators of {counted(size, 'rank')}"
            text = f"{table.processes} processes have a rank 0: they are separate {each}, not one job"
        elif table.headings > 1:
            text = f"its heading is there {table.headings} times: several processes wrote into one table"
        else:
            return
        table.note("separate", text, table.first_line)

    # ---- one line --------------------------------------------------------------------------------------

    def _line(self, line: Line) -> None:
        self._number += 1
        if line.stream not in self._streams:
            self._streams[line.stream] = Stream(line.stream)
        stream = self._stream = self._streams[line.stream]
        text, words = line.text, line.text.split()
        if not words or self._row(stream, text, words):
            return
        if is_of_a_library(text):
            self._nccl_line(stream, text)
            if stream.table is not None:
                self._not_a_row(stream, stream.table, text, words, is_nccl=True)
        elif not self._heading(stream, text) and not self._says(stream, text.strip()):
            said_end = is_end(text)
            if said_end:
                self._ends.append(End(self._number, stream.name, " ".join(words)[:200]))
            if not said_end or words[0][0].isdigit():  # which may be a row that the end was written into
                self._unknown(stream, text, words)
        if not words[0].startswith("#"):
            self._last_words = text

    def _row(self, stream: Stream, line: str, words: list[str]) -> bool:
        """Take a row of the open table; whether the line is one."""
        table = stream.table
        if table is None:
            return False
        count = len(table.layout.columns)
        words = filled(table.layout, words, line, count)
        if len(words) != count or not line.isascii() or not table.layout.fits(words):
            return False
        self._take_row(stream, table, PrintedRow(self._number, words, len(line.rstrip())))
        return True

    def _take_row(self, stream: Stream, table: Table, row: PrintedRow, joined: str = "") -> None:
        """Keep a row, and where it was ``joined`` with other words, how."""
        self._drop_piece(stream, table)
        table.lines.append(row)
        table.last_line = max(table.last_line, row.line)
        self._rows_of = stream
        if joined:
            table.note("joined", joined, row.line)

    def _heading(self, stream: Stream, line: str) -> bool:
        found, table = self._layout_of(line), stream.table
        if found is None:
            return False
        # Several processes, each a job of its own, print the heading of the one table that they write: before
        # its first row, or below a device list that has a rank twice.
        is_same = table is not None and table.layout.columns == found[1].columns
        if table is not None and is_same and (table.processes or not table.lines):
            table.headings += 1
        else:
            self._begin_table(stream, *found)
        self._rows_of = stream
        return True

    # ---- words beside the rows -------------------------------------------------------------------------

    def _says(self, stream: Stream, line: str) -> bool:
        """Whether the line says something about a table, which is taken then."""
        for form in self._facts:
            match = form.pattern.match(line) if form.mark in line else None
            if match is not None:
                self._take_fact(stream, form, match)
                return True
        self._job.read(line)
        return False

    def _take_fact(self, stream: Stream, form: Fact, match: re.Match[str]) -> None:
        words, table = fact_words(match), stream.table or stream.last
        match form.scope:
            case "rank":
                self._begin_launch(stream)
                stream.facts.ranks.append(rank_line(match.groupdict()))
            case "footer":
                self._lose(stream)
                if table is not None:
                    table.footer.update(words)
                    table.last_line = self._number
                    self._close(stream)
            case "placements":
                stream.placements = str(words["placements"])
            case "launch":
                if stream.announced and not words.keys().isdisjoint(stream.facts.header):
                    self._lose(stream)
                    self._failed_launch(stream)
                self._begin_launch(stream)
                stream.announced = stream.announced or self._number
                stream.facts.header.update(words)
            case "test":
                self._close(stream)
                header = stream.facts.header
                kept = {name: value for name, value in header.items() if name not in form.forgets}
                stream.facts = Facts(kept | words, stream.facts.ranks)
                stream.continues, stream.announced = True, stream.announced or self._number
            case _:
                stream.facts.header.update(words)

    def _begin_launch(self, stream: Stream) -> None:
        """Words of a launch: of a new one, where a table of this stream has begun or ended."""
        self._close(stream)
        if stream.ended:
            self._end_launch(stream)
            self._next_launch()

    def _end_launch(self, stream: Stream) -> None:
        """Forget the words of a launch whose table has ended, and keep what was said of an end below it."""
        if stream.ended and stream.last is not None and stream.last.footer:
            self._note_end(stream.last, JOB_FAILED, "job")
        if stream.ended:
            stream.facts, stream.ended = Facts(), False

    def _next_launch(self, *, is_sure: bool = False) -> None:
        """Take evidence for another launch from here on, where the last table has ended, or it is sure."""
        for last in self._tables[-1:]:
            has_ended = is_sure or self._streams[last.stream].table is None
            if has_ended and last.evidence is self._evidence:
                self._evidence = {}

    def _nccl_line(self, stream: Stream, line: str) -> None:
        """Take a line of NCCL as evidence of the launch, or of a call of the stream's table, else of the only
        table; rank 0 of a communicator may have another prefix.
        """
        words = said(line)
        keys, tables = [key for key, _ in words], []
        # A library says its version once a job, when it starts.
        self._next_launch(is_sure=VERSION in keys or "MPI startup()" in line)
        if keys == [TUNING]:
            streams = [stream] if stream.table is not None else self._streams.values()
            tables = [each.table for each in streams if each.table is not None]
        keep(tables[0].calls if len(tables) == 1 else self._evidence, words)

    # ---- tables ----------------------------------------------------------------------------------------

    def _begin_table(self, stream: Stream, tool: Tool, layout: Layout) -> Table:
        self._close(stream)
        if not stream.continues:  # no word of a launch since: those are another table's
            self._end_launch(stream)
        table = Table(tool, layout, stream.name, self._number, stream.facts, self._job.take())
        table.above, table.last_line, table.evidence = stream.placements, self._number, self._evidence
        stream.placements, stream.table, stream.announced = "", table, 0
        self._tables.append(table)
        self._lose(stream)
        return table

    def _close(self, stream: Stream) -> None:
        table = stream.table
        if table is not None:
            self._drop_piece(stream, table)
            stream.table, stream.last, stream.ended, stream.continues = None, table, True, False
            if not table.footer:
                self._note_end(table)

    def _note_end(self, table: Table, kind: str = "cut", what: str = "test") -> bool:
        """Keep what was said behind the last row of a table of its end, in its stream or in the one of lines
        without a prefix; whether something was.
        """
        behind = (
            end for end in self._ends if end.line > table.last_line and end.stream in (table.stream, "")
        )
        end = next(behind, None)
        if end is not None:
            table.note(kind, f"the {what} ended with: {end.text}", end.line)
        return end is not None

    def _failed_launch(self, stream: Stream) -> None:
        """Keep a test that ended before its heading: it is a run that failed."""
        for tool in self._tools if stream.announced else ():
            if tool.usual is None or tool.started.isdisjoint(stream.facts.header):
                continue
            table = Table(tool, tool.usual, stream.name, stream.announced, stream.facts)
            table.last_line, table.evidence = stream.announced, self._evidence
            if self._note_end(table):
                self._tables.append(table)
                stream.facts, stream.announced = Facts(), 0
            return

    def _only_launch(self) -> None:
        """Keep the test of a text without a table, which may not say how it ended."""
        all_facts = (stream.facts for stream in self._streams.values())
        facts = max(all_facts, key=lambda facts: len(facts.header) + len(facts.ranks))
        for tool in self._tools:
            if tool.usual is not None and "program" in tool.started & facts.header.keys():
                table = Table(tool, tool.usual, "", 0, facts, self._job.plain(), evidence=self._evidence)
                self._tables.append(table)

    # ---- lines that nothing else explains --------------------------------------------------------------

    def _unknown(self, stream: Stream, line: str, words: list[str]) -> None:
        """A damaged row, one without its prefix, the first without a heading; or words of anybody."""
        other = self._rows_of.table
        if stream.table is not None:
            self._not_a_row(stream, stream.table, line, words)
        elif other is not None:
            if looks_like_row(other, line, words, least=0.5):
                text = f"a row without the prefix of its table: {' '.join(words)[:80]}"
                other.note(DAMAGED, text, self._number)
        elif not self._headless(stream, line, words) and _may_be_row(words):
            stream.headless.append(PrintedRow(self._number, words))
            del stream.headless[_MOST_HEADLESS:]

    def _headless(self, stream: Stream, line: str, words: list[str]) -> bool:
        """Take the first row of a table whose heading is not in the text; whether it is one."""
        may_be_row = words[0].isdecimal() and line.isascii()
        found = layout_of_row(words, self._tools) if may_be_row else None
        if found is None:
            return False
        text = (
            "the log has no heading for these rows: busbw assumes the columns that the tool prints by default"
        )
        if stream.ended:
            text += "; a table ended above, did two jobs write this log at the same time?"
        self._lose(stream)
        table = self._begin_table(stream, *found)
        table.note("no-heading", text, self._number)
        self._take_row(stream, table, PrintedRow(self._number, words))
        return True

    def _not_a_row(
        self, stream: Stream, table: Table, line: str, words: list[str], *, is_nccl: bool = False
    ) -> None:
        """A line of an open table that is more than a row, a part of one, or none."""
        number, piece = self._number, stream.piece
        if piece is not None and table.layout.fits(piece.words + words):
            stream.piece = None
            how = f"the row was interrupted by other output; its end is in line {number}"
            self._take_row(stream, table, PrintedRow(piece.line, piece.words + words), how)
        elif not is_nccl and (failed := failure(words, number)):
            table.failures.append(failed)
            table.last_line = number
        elif (begun := beginning_of_row(table, line, number)) and table.layout.fits(begun.words):
            self._take_row(stream, table, begun, "other output follows the row on the same line")
        elif begun:
            self._drop_piece(stream, table)
            stream.piece = begun
        elif is_nccl and is_number(words[0]):
            table.note(DAMAGED, f"other output was written into a row: {line.strip()[:80]}", number)
        elif not is_nccl and looks_like_row(table, line, words, least=1 / 3):
            note_damage(table, words, number)

    def _drop_piece(self, stream: Stream, table: Table) -> None:
        """Report the beginning of a row that was never completed."""
        if stream.piece is not None:
            note_damage(table, stream.piece.words, stream.piece.line)
            stream.piece = None

    def _lose(self, stream: Stream) -> None:
        """Report what were perhaps rows without a heading. Without a table they were other output."""
        rows, stream.headless = stream.headless, []
        if rows and (self._tables or stream.announced):
            first, last = rows[0], rows[-1]
            text = (
                f"{len(rows)} lines up to line {last.line} may be rows, but the log has no heading for them"
            )
            self._lost.append(
                ImportFinding("no-heading", f"{text}: {' '.join(first.words)[:80]}", first.line)
            )

    def _drop_cut_row(self) -> None:
        """Report the last row of a text that ends without a line end, where it ends inside the last word."""
        table = self._stream.table
        if table is not None and table.lines and table.lines[-1].line == self._number and is_cut(table):
            words = table.lines.pop().words
            table.last_line = table.lines[-1].line if table.lines else table.first_line
            text = f"the text ends inside the last word of a row: {' '.join(words)[:80]}"
            table.note(DAMAGED, text, self._number)


# ---- headings ----------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"#|[^\s#]+")
_MOST_STARTS: Final = 16


@lru_cache(64)  # the tables of a log have few headings
def _layout(line: str, tool: Tool) -> Layout | None:
    layout = tool.heading(line)
    if layout is None or not any(column.name.startswith(("time", "cputime")) for column in layout.columns):
        return None
    return layout


def _may_be_row(words: Sequence[str]) -> bool:
    """Whether words are a size and times, of any tool."""
    is_decimal = any("." in word and is_number(word) for word in words[1:])
    return words[0].isdecimal() and is_decimal and 2 * sum(map(is_number, words)) >= len(words)
