"""A table as it stands in a log, and the stream it is read from: rows of words before they have meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from busbw.importers.blocks import Part
from busbw.importers.columns import Columns, Layout, convert, fault, join, part
from busbw.importers.evidence import Evidence
from busbw.importers.facts import Facts, fact
from busbw.importers.headings import OSU
from busbw.importers.own import Outcome, Remark, failure
from busbw.importers.printed import is_number
from busbw.model.record import DAMAGED, OTHER_OUTPUT, ImportFinding

_MOST_FINDINGS: Final = 200
# nccom-test: Failure running; IMB: out-of-mem., int-overflow, time-out.
_FAILED: Final = re.compile(r"fail|^(?:out-of-mem|int-overflow|time-out)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """A size that the tool itself reports as failed, with its words; ``outcome`` where these are ours,
    ``dtype`` where the row has it.
    """

    line: int
    size_bytes: int
    text: str
    outcome: Outcome | None = None
    dtype: str = ""


class Earlier(NamedTuple):
    """Of the parts of a table before this one, for its average: how many bus bandwidths they print, the sum
    of these, and of the halves of their last digits.
    """

    printed: int
    total: float
    half: float


NOTHING_EARLIER: Final = Earlier(0, 0.0, 0.0)


@dataclass
class RawTable:
    """A table as it stands in the log. ``placements`` is the line above its heading: whose columns follow."""

    layout: Layout
    stream: str
    heading_line: int
    facts: Facts
    job: dict[str, Any] = field(default_factory=dict)  # of the command line above it
    placements: str = ""
    blocks: list[Columns | Part] = field(default_factory=list)
    footer: dict[str, Any] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    findings: list[ImportFinding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    time_unit: str = ""
    last_line: int = 0
    commented: bool = False  # nccl-tests 2.0 puts # before the rows that it did not check
    number: int = 1  # of the part, where a long table is handed on in parts
    goes_on: bool = False  # in another part
    earlier: Earlier = NOTHING_EARLIER
    calls: Evidence | None = None  # NCCL's lines about single calls of the table, where it has such

    @property
    def rows(self) -> int:
        """How many rows were converted so far."""
        return sum(len(block) for block in self.blocks)

    @property
    def columns(self) -> Columns | None:
        """All rows, in the order of their lines; None where there are none."""
        if not self.blocks:
            return None
        found = join([block.columns if isinstance(block, Part) else block for block in self.blocks])
        if len(self.blocks) == 1 or (found.lines[1:] >= found.lines[:-1]).all():
            return found
        return part(found, np.argsort(found.lines, kind="stable"))

    @property
    def only_run(self) -> tuple[Columns, int, int] | None:
        """What a pattern found, and which adjacent rows of it are those of this table; None where its rows
        are of several such runs, or were read word by word.
        """
        block = self.blocks[0] if len(self.blocks) == 1 else None
        if not isinstance(block, Part) or len(block.spans) != 1:
            return None
        return block.found, *block.spans[0]

    def add(self, found: Columns, begin: int, end: int) -> None:
        """Add rows ``begin`` to ``end`` of what a pattern found in a piece of text."""
        for block in reversed(self.blocks):
            if isinstance(block, Part) and block.found is found:
                block.add(begin, end)
                return
        self.blocks.append(Part(found, [(begin, end)]))

    def in_order(self) -> None:
        """Put the findings into the order of their lines: rows are converted later than they are read."""
        if len(self.findings) > 1:
            self.findings.sort(key=lambda finding: finding.line)

    def next_part(self) -> RawTable:
        """The table as it goes on after this part of it."""
        self.goes_on = True
        return replace(
            self,
            blocks=[],
            failures=[],
            findings=[],
            remarks=[],
            footer={},
            number=self.number + 1,
            goes_on=False,
            earlier=self._totals(),
            calls=None,
        )

    def _totals(self) -> Earlier:
        columns = self.columns
        found = (
            []
            if columns is None
            else [printed for (name, _), printed in columns.measures.items() if name == "busbw"]
        )
        count, total, half = self.earlier
        for printed in found:
            usable = np.isfinite(printed.value)
            count += int(usable.sum())
            total += float(printed.value[usable].sum())
            half += float(printed.half[usable].sum())
        return Earlier(count, total, half)

    def note(self, finding: ImportFinding) -> None:
        """Keep a finding, up to a limit: a text that is no log can have one a line."""
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)

    def note_damage(self, words: list[str], number: int) -> None:
        """Keep that a line is not a whole row, and why; or that it is no row."""
        why = fault(self.layout.columns, words) or "line is not printable"
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(words)[:80])
        kind = OTHER_OUTPUT if self.layout.tool == OSU and _is_text(words) else DAMAGED
        self.note(ImportFinding(kind, f"not a whole row ({why}): {shown}", number))


def _is_text(words: list[str]) -> bool:
    """Whether a line cannot have been a row of numbers, nor hold the rest of one: it has no size in front,
    and is of words beside numbers, as `time` prints: ``real 12.3``, ``12.3 seconds``.
    """
    plain = [word.rstrip(":,").isalpha() and not is_number(word) for word in words]
    mixed = any(not is_plain and not is_number(word) for word, is_plain in zip(words, plain, strict=True))
    return any(plain) and not mixed and not words[0].isdigit()


class Stream:
    """The state of one launcher stream: the table that is open, and rows not converted yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts = Facts()
        self.table: RawTable | None = None
        self.open = False
        self.expected = -1  # words of a row of the open table
        self.rows: list[list[str]] = []
        self.lines: list[int] = []
        self.widths: list[int] = []
        self.piece: list[str] = []  # the beginning of a row that other output interrupted
        self.piece_line = 0
        self.placements = ""  # of the table whose heading comes next
        self.own_time = ""  # what the times of our own export are
        self.lost: list[
            ImportFinding
        ] = []  # lines behind these words that are perhaps rows without a heading
        self.announced = 0  # the line of the first words of a launch whose heading was not there yet
        self.ended = False  # a table of this launch has ended: the next launch fact begins a new one

    def add(self, words: list[str], number: int, width: int) -> None:
        """Collect a row. ``width`` 0: its length is not to be compared with that of others."""
        self.rows.append(words)
        self.lines.append(number)
        self.widths.append(width)

    def convert(self) -> None:
        """Turn the rows collected so far into arrays; rows with a fault are reported and left out."""
        table = self.table
        if not self.rows or table is None:
            return
        table.last_line = max(table.last_line, self.lines[-1])
        try:
            block = convert(table.layout, self.rows, self.lines, self.widths)
        except (ValueError, OverflowError):
            block = self._good_rows(table)
        if len(block):
            table.blocks.append(block)
        self.rows, self.lines, self.widths = [], [], []

    def take_failure(self, words: list[str], number: int) -> bool:
        """Keep a size and why it has no numbers: in the words of nccom-test or IMB, or in ours below a line
        of ours.

        Such a line can have as many words as a row.
        """
        if self.table is not None and "group" in self.table.layout.names:
            words = words[1:]
        if self.table is None or len(words) < 2 or not words[0].isdecimal():
            return False
        said = " ".join(words[1:])
        ours = failure(said) if "own_collective" in self.facts.header else None
        if ours is None and (not _FAILED.search(said) or "errors found" in said):
            return False
        self.table.failures.append(Failure(number, int(words[0][:18]), said, ours))
        return True

    def _good_rows(self, table: RawTable) -> Columns:
        good = []
        for index, (words, number) in enumerate(zip(self.rows, self.lines, strict=True)):
            if not fault(table.layout.columns, words):
                good.append(index)
            elif not self.take_failure(words, number):
                _footer_or_damage(table, words, number)
        return convert(
            table.layout,
            [self.rows[index] for index in good],
            [self.lines[index] for index in good],
            [self.widths[index] for index in good],
        )


def _footer_or_damage(table: RawTable, words: list[str], number: int) -> None:
    """A line with as many words as a row: nccom-test's count of errors has them too."""
    found = fact(" ".join(words))
    if found is not None and found[0] == "footer":
        table.footer.update(found[1])
    else:
        table.note_damage(words, number)
