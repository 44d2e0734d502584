"""Lines to tables: finds headings, rows and footers of every tool in one pass, in each launcher's stream.

Most lines of a long log are read many at a time: rows by their patterns, the lines between them by their
shapes. All others are read one by one, in the order of the questions of ``Scanner._other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from busbw.importers.blocks import Blocks, Pattern
from busbw.importers.columns import Kind as ColumnKind
from busbw.importers.columns import fault, filled
from busbw.importers.contents import Contents, Log
from busbw.importers.devices import DeviceText, names_rank
from busbw.importers.evidence import Evidence
from busbw.importers.facts import fact, fact_words
from busbw.importers.headings import heading, hidden_heading, time_unit
from busbw.importers.headless import layout_of_row
from busbw.importers.job import may_be_command
from busbw.importers.lines import LONGEST_LINE, Kind, Lines, Meaning, Step
from busbw.importers.pieces import drop_cut_row, keep_piece, rest_of_row, row_before_output
from busbw.importers.prefixes import prefix_of, split_prefix
from busbw.importers.printed import is_number
from busbw.importers.raw import Stream
from busbw.model.record import ImportFinding

__all__ = ["Log", "scan", "scan_parts"]

# Python looks up members of enumerations slowly.
_DEVICE, _NCCL, _HEADING = Kind.DEVICE, Kind.NCCL, Kind.HEADING
_UNIT, _COMMAND, _TEXT, _ODD = Kind.UNIT, Kind.COMMAND, Kind.TEXT, Kind.ODD
_ROW_BEGINS: Final = tuple(bytes([letter]) for letter in b" \t0123456789")
# One line is read by itself as quickly; more than these have no table between them.
_SHORTEST_STRETCH: Final = 2
_LONGEST_STRETCH: Final = 200


def scan(chunks: Iterable[bytes], tool: str = "") -> Log:
    """All tables of a text, which comes in pieces of any size."""
    (log,) = scan_parts(chunks, tool)
    return log


def scan_parts(chunks: Iterable[bytes], tool: str = "", least_rows: int | None = None) -> Iterator[Log]:
    """The tables of a text a part at a time, each of so many rows, so that no text is too long for the
    memory; all of them in one part where ``least_rows`` is None. ``tool``: only its tables are looked for.
    """
    contents = Contents()
    for _ in Scanner(contents, tool).feed(chunks):
        part = contents.part(least_rows) if least_rows is not None else None
        if part is not None:
            yield part
    yield contents.finish()


class Scanner:
    """Reads a text into its contents. ``_stream`` and ``_prefix`` are those of the line before, ``_rows_of``
    is the stream of the last row or heading.
    """

    def __init__(self, contents: Contents, tool: str = "") -> None:
        self._contents = contents
        self._tool = tool
        self._lines = Lines(tool)
        self._blocks = Blocks()
        self._named: dict[bytes, Stream] = {}  # by the letters that name them in a line
        self._stream = self._rows_of = contents.stream("")
        self._prefix = b""
        self._unread = 0  # bytes that were left out of the middle of a long line

    def feed(self, chunks: Iterable[bytes]) -> Iterator[None]:
        """Take a text, in pieces of any size; gives the word back after each."""
        rest = b""
        for chunk in chunks:
            data = rest + chunk
            rest = data[self._whole_lines(data) :]
            if len(rest) > LONGEST_LINE:  # else every chunk would copy all of a line without an end
                self._unread += max(len(rest) - 2 * LONGEST_LINE, 0)
                rest = rest[:LONGEST_LINE] + rest[-LONGEST_LINE:]
            yield
        if rest and self._line(rest) and not rest[-1:].isspace():
            drop_cut_row(self._stream, self._contents.number)

    def _whole_lines(self, data: bytes) -> int:
        """Take the lines of a piece that have an end; where the last one ends."""
        blocks = self._blocks
        blocks.begin(data, self._contents.number + 1)
        line, one_by_one, count = 0, 0, len(blocks.ends)
        while line < count:
            taken = 0
            if blocks.owners[line] >= 0:
                taken = self._take_block(line)
            elif line >= one_by_one:
                taken = self._take_stretch(line, data)
                one_by_one = line if taken else blocks.run_ends[line]
            if taken:
                line += taken
                continue
            raw = data[blocks.starts[line] : blocks.ends[line]]
            line += 1
            if self._line(raw):
                self._learn(raw, line)
        return blocks.ends[-1] if count else 0

    # ---- many lines at once ----------------------------------------------------------------------------

    def _take_block(self, line: int) -> int:
        """Take the rows from a line of this piece on that are built alike; how many these are."""
        pattern, found, begin, end = self._blocks.take(line)
        stream = self._contents.stream(pattern.stream)
        table = stream.table
        if not stream.open or stream.piece or table is None:
            return 0
        if table.layout is not pattern.layout and table.layout != pattern.layout:
            return 0
        self._contents.take_rows(table, found, begin, end)
        self._stream = self._rows_of = stream
        self._prefix = _before_rows(pattern.row[: pattern.prefix]) if pattern.names else b""
        return end - begin

    def _learn(self, row: bytes, line: int) -> None:
        """Rows from a line of this piece on may be built like this one, which was read word by word."""
        stream = self._stream
        if stream.open and stream.table is not None and row.isascii() and b"\x1b" not in row:
            prefix, names = prefix_of(row.decode())
            pattern = Pattern(stream.table.layout, stream.name, row, prefix, names)
            self._blocks.learn(pattern, line)

    def _take_stretch(self, line: int, data: bytes) -> int:
        """Take the lines up to the next rows of a pattern, where such lines were seen before; how many."""
        blocks, contents = self._blocks, self._contents
        end = blocks.run_ends[line]
        if not _SHORTEST_STRETCH <= end - line <= _LONGEST_STRETCH or end == len(blocks.ends):
            return 0
        raw = data[blocks.starts[line] : blocks.ends[end - 1]]
        stretch = self._lines.stretch(raw)
        if stretch is None:
            return 0
        prefix = raw[: stretch.prefix] if stretch.named else b""
        if prefix and raw.count(b"\n" + prefix) != stretch.lines - 1:
            return 0  # of several streams
        stream = contents.stream(prefix.decode().strip())
        if stream.piece:
            return 0
        self._stream, self._prefix = stream, _before_rows(prefix)
        begin, taken = contents.number, stretch.lines
        for step in stretch.steps:
            if stream.open and not step.meaning.is_plain:
                taken = step.line
                break
            contents.number = begin + step.line + 1
            self._take_step(stream, step, raw)
        contents.number = begin + taken
        return taken

    def _take_step(self, stream: Stream, step: Step, raw: bytes) -> None:
        """Take what a line says, or what lines of the device list do."""
        meaning = step.meaning
        if meaning.kind is _DEVICE:
            devices = DeviceText(raw[step.begin : step.end], meaning.prefix)
            self._contents.take_devices(stream, devices)
            return
        line = raw[step.begin + meaning.prefix : step.end]
        if meaning.fact is not None:
            self._contents.take_fact(stream, meaning.fact.scope, fact_words(meaning.fact, line))
        else:
            self._take_other(stream, meaning, line)
        if not meaning.is_comment:
            self._contents.last_words = line

    def _take_other(self, stream: Stream, meaning: Meaning, line: bytes) -> None:
        kind, contents = meaning.kind, self._contents
        if kind is _NCCL:
            if meaning.evidence:
                contents.take_nccl(stream, line.decode(), meaning.evidence)
        elif kind is _HEADING:
            self._heading(stream, line.decode())
        elif kind is _UNIT:
            if stream.table is not None:
                stream.table.time_unit = time_unit(line.decode())
        elif kind is _COMMAND or kind is _TEXT:
            text = line.decode()
            contents.take_words(stream, text)
            if kind is _COMMAND:
                contents.job.read(text.strip())

    # ---- one line at a time ----------------------------------------------------------------------------

    def _line(self, raw: bytes) -> bool:
        """Take a line; whether it was a row."""
        self._contents.number += 1
        if len(raw) > LONGEST_LINE:
            self._other(self._last_part(raw.decode("utf-8", "replace")))
            return False
        if self._stream.open and self._plain_row(raw):
            return True
        if not self._familiar(raw):
            self._other(raw.decode("utf-8", "replace"))
        stream = self._stream
        return bool(stream.rows) and stream.lines[-1] == self._contents.number

    def _plain_row(self, raw: bytes) -> bool:
        """Take a row of the stream of the line before, with its prefix."""
        stream, begin = self._stream, len(self._prefix)
        if raw[begin : begin + 1] not in _ROW_BEGINS or not raw.startswith(self._prefix) or not raw.isascii():
            return False
        line = raw[begin:].decode()
        words = line.split()
        if len(words) != stream.expected or not words[0].isdigit():
            return False
        self._take_row(stream, words, len(line.rstrip()))
        return True

    def _familiar(self, raw: bytes) -> bool:
        """Take a line that is no row and means what its shape says; False where more has to be asked."""
        meaning = self._lines.meaning(raw)
        if meaning.kind is _ODD:
            return False
        stream = self._stream_in(raw, meaning)
        if stream.open and (stream.piece or not meaning.is_plain):
            return False
        if meaning.is_rowlike and not stream.open:
            return False
        self._stream = stream
        self._prefix = _before_rows(raw[: meaning.prefix]) if meaning.names else b""
        if not meaning.says_nothing:
            self._take_step(stream, Step(meaning, 0, len(raw), 0), raw)
        return True

    def _stream_in(self, raw: bytes, meaning: Meaning) -> Stream:
        if not meaning.names:
            return self._contents.stream("")
        key = b"".join([raw[begin:end] for begin, end in meaning.names])
        stream = self._named.get(key)
        if stream is None:
            name = "".join(raw[begin:end].decode().strip() for begin, end in meaning.names)
            stream = self._named[key] = self._contents.stream(name)
        return stream

    def _last_part(self, raw: str) -> str:
        """What a progress display wrote last into a long line; a line that is long without one is no row."""
        length, self._unread = len(raw.rstrip("\r\n")) + self._unread, 0
        last = raw.rstrip("\r\n").rpartition("\r")[2]
        if len(last) <= LONGEST_LINE:
            return last + "\n"
        text = f"a line of {length} characters was not read"
        if "\0" in raw and not self._stream.open:  # what was lost there may have been a heading
            self._contents.note_damage(text)
        self._note(self._stream, "damaged", text)
        return "\n"

    def _other(self, raw: str) -> None:
        """A line of whatever stream, a row or not."""
        name, line = split_prefix(raw)
        prefix = raw[: len(raw) - len(line)] if name and raw.endswith(line) else ""
        self._stream, self._prefix = self._contents.stream(name), _before_rows(prefix.encode())
        stream = self._stream
        words = line.split()
        if not words:
            return
        if stream.open and stream.table is not None and len(words) == stream.expected - 1:
            words = filled(stream.table.layout, words, line, stream.expected)
        if stream.open and len(words) == stream.expected and _starts_row(stream, words) and line.isascii():
            self._take_row(stream, words, len(line.rstrip()))
            return
        if Evidence.is_one(line):
            self._contents.take_nccl(stream, line, Evidence.forms(line))
            if (row := row_before_output(stream, line)) is not None:
                self._take_row(stream, *row)
                self._note(stream, "joined", "other output of the job follows the row without a line end")
            elif not keep_piece(stream, line, self._contents.number) and is_number(words[0]):
                self._note(
                    stream, "damaged", f"a row into which other output was written: {line.strip()[:80]}"
                )
        elif not self._heading(stream, line) and not self._says(stream, line.strip().replace("\t", " ")):
            self._no_word(line, words)
            self._contents.take_words(stream, line)
        if not words[0].startswith("#"):
            self._contents.last_words = line

    def _take_row(self, stream: Stream, words: list[str], width: int) -> None:
        self._contents.take_row(stream, words, width)
        self._rows_of = stream

    def _no_word(self, line: str, words: list[str]) -> None:
        """A line that says nothing: a damaged row, one without its prefix, the first without a heading."""
        stream, other = self._stream, self._rows_of
        if stream.open:
            self._not_a_row(stream, line, words)
        elif other.open:
            if _looks_like_row(other, line, words, least=0.5):
                self._note(other, "damaged", f"a row that is not of this stream: {' '.join(words)[:80]}")
        elif not self._headless(stream, line, words) and stream.announced:
            self._contents.note_lost(stream, words)

    def _headless(self, stream: Stream, line: str, words: list[str]) -> bool:
        """Take the first row of a table whose heading is not in the text; whether it is one."""
        layout = layout_of_row(words, self._tool) if line.isascii() else None
        if layout is None:
            return False
        behind = (
            ", and a table ended above: did two jobs write this log at the same time?" if stream.ended else ""
        )
        self._contents.lose(stream)
        self._contents.begin_table(stream, layout)
        text = "its heading is not in the log: the columns are those that the tool prints without options"
        self._note(stream, "no-heading", text + behind)
        self._take_row(stream, words, len(line.rstrip()))
        return True

    def _heading(self, stream: Stream, line: str) -> bool:
        layout = heading(line, self._tool)
        if layout is not None:
            self._contents.begin_table(stream, layout)
            self._rows_of = stream
        elif (hidden := hidden_heading(line, self._tool)) is not None:
            self._contents.note_hidden(*hidden)
        return layout is not None

    def _says(self, stream: Stream, line: str) -> bool:
        """Whether the line says something about a table, which is taken then."""
        contents = self._contents
        unit = time_unit(line)
        if unit and stream.table is not None:
            stream.table.time_unit = unit
            return True
        if names_rank(line):
            contents.take_devices(stream, DeviceText(line.encode()))
            return True
        found = fact(line)
        if found is not None:
            contents.take_fact(stream, *found)
            return True
        if contents.take_own(stream, line):
            return True
        if may_be_command(line):
            contents.job.read(line)
        return False

    # ---- lines inside a table that are no whole row ----------------------------------------------------

    def _not_a_row(self, stream: Stream, line: str, words: list[str]) -> None:
        table, number = stream.table, self._contents.number
        assert table is not None
        if self._commented_row(stream, words) or rest_of_row(stream, words, number):
            return
        if line.strip() in ("...", "[...]", "…"):
            table.note(ImportFinding("gap", "rows were left out of this text", number))
        elif stream.take_failure(words, number):
            table.last_line = number
        elif not keep_piece(stream, line, number) and _looks_like_row(stream, line, words, least=1 / 3):
            table.note_damage(words, number)

    def _commented_row(self, stream: Stream, words: list[str]) -> bool:
        table = stream.table
        if table is None or words[0] != "#" or fault(table.layout.columns, words[1:]):
            return False
        if not table.commented and (stream.rows or table.blocks):
            return False  # in a table with plain rows somebody has commented this one out
        table.commented = True
        self._take_row(stream, words[1:], 0)
        return True

    def _note(self, stream: Stream, kind: str, text: str) -> None:
        if stream.open and stream.table is not None:
            stream.table.note(ImportFinding(kind, text, self._contents.number))


def _before_rows(prefix: bytes) -> bytes:
    """The prefix that rows of a stream have: srun's ends with a blank, but in lines that are empty."""
    return prefix + b" " if prefix.endswith(b":") and prefix.strip()[:-1].isdigit() else prefix


def _starts_row(stream: Stream, words: list[str]) -> bool:
    if stream.table is None:
        return False
    first = stream.table.layout.columns[0].kind
    return words[0].isdigit() if first is ColumnKind.INTEGER else is_number(words[0])


def _looks_like_row(stream: Stream, line: str, words: list[str], least: float) -> bool:
    """Whether a line that is no row was one, more or less: with so many numbers among the words of a row; in
    its own stream, a number in front is enough. Where rows have two words, one of two that is a number is.
    """
    if line.startswith("#"):
        return False
    numbers = sum(map(is_number, words))
    if words[0][:1].isdigit() and least < 0.5:
        return True
    if stream.expected == 2 == len(words):
        return numbers > 0
    return numbers >= max(2, int(stream.expected * least))
