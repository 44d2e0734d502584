"""What all readers of logs share: a tool, a table and its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from busbw.foreign.logs.context import Evidence
from busbw.foreign.logs.row_words import (
    NO_ALGORITHM,
    NO_NUMBER,
    NO_REDUCTION,
    Layout,
    Number,
    PrintedRow,
    is_number,
    printed,
)
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding

# Versions of a tool print bandwidths in units of 10^9 or of 2^30 bytes and call both GB.
GIB_PER_GB: Final = 2**30 / 1e9
_MOST_FINDINGS: Final = 200
# A share of the rows must agree before the others are called damaged.
ENOUGH: Final = 0.5


# ---- what a reader says of its tool ------------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    """A kind of line that says something beside the rows. The pattern's groups are words of the header.

    ``scope``: *launch* begins the words of a new launch of a test, *test* those of the next table of the same
    launch, *header* goes on with them, *footer* belongs to the table above, *placements* names those of the
    columns below, *units* are those of the columns, *rank* a rank of the device list. ``mark`` stands in
    every such line: it is quicker to look for than the pattern. ``forgets`` are words of the table above that
    do not hold for the next one.
    """

    scope: str
    mark: str
    pattern: re.Pattern[str]
    forgets: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool whose tables are read, and how it prints.

    ``heading`` gives the layout that a line announces, which has one of ``heading_marks`` in it;
    ``interpret`` completes a table that was found, ``decided`` one whose operation and ranks are known.
    ``usual`` is the layout without options, by which a row without a heading is recognised. ``started``:
    words of a header that say that a test began, for tests that end before their heading. ``end_line`` is
    its last line in words, empty where it prints none. ``gb_sizes`` are what its GB can be, in 10^9 bytes.
    ``operations`` are those that it has, where rows have neither reduction nor root.
    """

    name: str
    backend: str
    heading_marks: tuple[str, ...]
    heading: Callable[[str], Layout | None]
    facts: tuple[Fact, ...]
    interpret: Callable[[Table], Table]
    decided: Callable[[Table], Table]
    library: str = ""
    usual: Layout | None = None
    started: frozenset[str] = frozenset()
    end_line: str = ""
    gb_sizes: tuple[float, ...] = (1.0,)
    operations: frozenset[str] = frozenset()

    def without_rows(self) -> Table:
        """The table of a test that ended before its first row."""
        assert self.usual is not None
        return self.interpret(Table(self, self.usual, "", 0, Facts()))


def fact(scope: str, mark: str, pattern: str, *, forgets: tuple[str, ...] = ()) -> Fact:
    """A kind of line by its pattern, which is compared from the beginning of the line on, behind the comment
    sign: pages of the web and mails eat it.
    """
    return Fact(scope, mark, re.compile(r"(?<!\w)#*\s*" + pattern), forgets)


def fact_words(match: re.Match[str]) -> dict[str, Any]:
    """The words of a line that a fact's pattern fits, digits as numbers."""
    return {name: number_or_word(text) for name, text in match.groupdict().items() if text is not None}


def rank_line(words: Mapping[str, str | None]) -> RankLine:
    """The rank that such words name; each but its number may be missing."""
    return RankLine(
        rank=int(words["rank"] or 0),
        group=int(words.get("group") or 0),
        pid=int(words.get("pid") or 0),
        host=words.get("host") or "",
        device=int(words.get("device") or -1),
        bus_id=words.get("bus_id") or "",
        device_name=(words.get("device_name") or "").strip(),
    )


def number_or_word(text: str) -> int | str:
    """A whole number that fits 64 bits; any other text as it is."""
    return int(text) if text.isdigit() and text.isascii() and len(text) < 19 else text


# ---- as it was found ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankLine:
    """One rank as the log names it; empty or -1 where the log has no such word."""

    rank: int
    group: int = 0
    pid: int = 0
    host: str = ""
    device: int = -1
    bus_id: str = ""
    device_name: str = ""


@dataclass
class Facts:
    """Words of one launch, as written: numbers stay numbers, nothing is corrected."""

    header: dict[str, Any] = field(default_factory=dict)
    ranks: list[RankLine] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """A size that the tool itself reports as failed, with its words; ``dtype`` where the row has it."""

    line: int
    size_bytes: int
    text: str
    dtype: str = ""


Cell = tuple[str, int]  # name of a column, and its placement
Cells = Mapping[Cell, str]  # the words of a row


def _known_bytes(cells: Cells, name: str) -> int | None:
    return int(cells[name, 0]) if (name, 0) in cells else None


def number(cells: Cells, name: str, placement: int = 0) -> Number:
    """The number in a column; NaN where the table has no such column."""
    return printed(cells[name, placement]) if (name, placement) in cells else NO_NUMBER


# ---- with meaning ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One placement of a row. ``wrong`` is NaN where nothing was checked and infinite where the row is wrong,
    but the log does not count the elements; ``stats`` are more statistics, in ns (cv: a fraction).
    ``deviation`` is that of the old column ``error`` of nccl-tests.
    """

    time_us: Number
    algbw: Number = NO_NUMBER
    busbw: Number = NO_NUMBER
    wrong: float = math.nan
    stats: Mapping[str, float] = field(default_factory=dict)
    deviation: Number = NO_NUMBER


@dataclass(frozen=True, slots=True)
class Row:
    """One size: bytes as printed, ``count`` and ``root`` -1 where the tool prints none."""

    line: int
    size: int
    count: int
    dtype: str
    redop: str
    root: int
    sides: tuple[Side, ...]
    algorithm: str = ""
    input_bytes: int | None = None
    output_bytes: int | None = None


class Consensus(NamedTuple):
    """The interval on which most rows agree. ``agree`` of ``judged`` rows have it."""

    low: float
    high: float
    agree: int
    judged: int

    @property
    def is_usual(self) -> bool:
        """Whether half of the rows have it: then the others are called damaged."""
        return self.agree >= ENOUGH * self.judged

    def contains(self, value: float) -> bool:
        """Whether the value lies within."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class RankInterval:
    """Numbers of ranks that the printed digits allow. ``high`` is None without an upper bound."""

    low: int
    high: int | None

    @property
    def only(self) -> int | None:
        """The number of ranks where only one fits."""
        return self.low if self.low == self.high else None

    def contains(self, ranks: int) -> bool:
        """Whether that many ranks fit."""
        return self.low <= ranks and (self.high is None or ranks <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low} or more"
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


@dataclass(eq=False)
class Table:
    """One table of a log: first as it is found, line by line, then with what its tool's reader makes of it.

    As found: ``job`` are the words of the command line above it, ``above`` is the line above its heading:
    whose columns follow; ``lines`` are its rows by their words; ``evidence`` is what libraries said in its
    launch, ``calls`` NCCL's lines about single calls; ``headings`` counts how often its heading is there.

    As read: a row has a side for each of ``placements``. ``sides_apart``: every placement
    of a row was an entry of its own, and can be missing. ``time`` says which reduction the times are;
    ``operation`` is empty where the log does not name it, ``rank_labels`` pairs a source with the number of
    ranks that it claims. ``trusted_time`` is off where the printed time is not that of the operation (-C).
    ``words_from`` says where reduction, root, type and size come from. ``ended``: the tool's last line is
    there, or it has none; ``largest`` is the size of the last row by the header, 0 where it does not say it.
    ``scale`` is algbw over size / time, None if the rows do not show it or contradict each other; once they
    are decided, ``operation`` and ``world_size`` are those of the record, and the digits allow ``interval``.
    ``formulas`` of its algbw are ``today's`` (size / time), ``old`` (from before nccl-tests 2.13: some
    operations left a rank's own block out), or not known.
    """

    tool: Tool
    layout: Layout
    stream: str
    first_line: int
    facts: Facts
    job: dict[str, Any] = field(default_factory=dict)
    above: str = ""
    lines: list[PrintedRow] = field(default_factory=list)
    footer: dict[str, Any] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    findings: list[ImportFinding] = field(default_factory=list)
    last_line: int = 0
    evidence: Evidence = field(default_factory=dict)
    calls: Evidence = field(default_factory=dict)
    headings: int = 1

    rows: tuple[Row, ...] = ()
    placements: tuple[Placement, ...] = ()
    time: str = ""
    operation: str = ""
    operation_from: str = ""
    sides_apart: bool = False
    trusted_time: bool = True
    rank_labels: tuple[tuple[str, int], ...] = ()
    ended: bool = False
    largest: int = 0
    words_from: dict[str, str] = field(default_factory=dict)
    formulas: str = ""
    scale: Consensus | None = None
    world_size: int = 0
    ranks_from: str = ""
    interval: RankInterval | None = None

    @property
    def header(self) -> dict[str, Any]:
        """The log's own words of it."""
        return {**self.facts.header, **self.footer}

    @property
    def ranks(self) -> Sequence[RankLine]:
        """The device list, in which a line may be there twice."""
        return tuple(dict.fromkeys(self.facts.ranks))

    @property
    def processes(self) -> int:
        """How many processes have the same rank, by the device list; 0 where it has every rank once."""
        places: dict[tuple[int, int], set[tuple[str, int]]] = {}
        for line in self.facts.ranks:
            places.setdefault((line.group, line.rank), set()).add((line.host, line.pid))
        most = max(map(len, places.values()), default=0)
        return most if most > 1 else 0

    @property
    def average(self) -> Number | None:
        """The bandwidth that the line below the table gives."""
        word = str(self.footer.get("average", ""))
        return printed(word) if is_number(word) else None

    @property
    def gb(self) -> float | None:
        """The size of its GB in 10^9 bytes; None where undecided."""
        sizes, scale = self.tool.gb_sizes, self.scale
        fits = (size for size in sizes if scale is not None and scale.contains(1 / size))
        return sizes[0] if len(sizes) == 1 else next(fits, None)

    @property
    def is_in_its_unit(self) -> bool:
        """Whether algbw is size / time, in GB of that size."""
        return self.gb is not None and self.scale is not None and self.scale.contains(1 / self.gb)

    @property
    def claims(self) -> tuple[tuple[str, int], ...]:
        """Every label for the number of ranks; that of the device list comes first."""
        listed = (("header", communicator_size(self.ranks)),) if self.facts.ranks else ()
        return (*listed, *self.rank_labels)

    @property
    def sides(self) -> list[Side]:
        """Of all rows."""
        return [side for row in self.rows for side in row.sides]

    def findings_of(self, kind: str) -> tuple[ImportFinding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def with_findings(self, *more: ImportFinding) -> Table:
        """The table with more findings."""
        return replace(self, findings=[*self.findings, *more]) if more else self

    def note(self, kind: str, text: str, line: int) -> None:
        """Keep a finding, up to a limit: a text that is no log can have one a line."""
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(ImportFinding(kind, text, line))

    def read(
        self,
        side: Callable[[Cells, int], Side],
        placements: Mapping[int, Placement],
        **own: Any,  # noqa: ANN401 (fields of Table)
    ) -> Table:
        """The table with its rows. ``side`` makes one placement of a row, by its number among the columns;
        ``own`` are other fields.
        """
        names = [(column.name, column.placement) for column in self.layout.columns]
        found = (dict(zip(names, line.words, strict=True)) for line in self.lines)
        rows = [
            _row(line.line, cells, tuple(side(cells, index) for index in placements))
            for line, cells in zip(self.lines, found, strict=True)
        ]
        shared = {"rows": tuple(rows), "placements": tuple(placements.values())}
        return replace(self, **{"ended": "average" in self.footer} | shared | own)


def _row(line: int, cells: Cells, sides: tuple[Side, ...]) -> Row:
    algorithm = cells.get(("algorithm", 0), "")
    return Row(
        line=line,
        size=int(cells.get(("size", 0), 0)),
        count=int(cells.get(("count", 0), -1)),
        dtype=cells.get(("type", 0), ""),
        redop=cells.get(("redop", 0), NO_REDUCTION),
        root=int(cells.get(("root", 0), -1)),
        sides=sides,
        algorithm="" if algorithm == NO_ALGORITHM else algorithm,
        input_bytes=_known_bytes(cells, "input_bytes"),
        output_bytes=_known_bytes(cells, "output_bytes"),
    )


def communicator_size(ranks: Sequence[RankLine]) -> int:
    """How many ranks a communicator has by the device list.

    An excerpt may show the last line of the list only: then the highest rank counts. Split communicators
    (NCCL_TESTS_SPLIT) are several groups, and bandwidth is that of one.
    """
    listed = len({rank.rank for rank in ranks})
    total = max(listed, max(rank.rank for rank in ranks) + 1)
    return total // len({rank.group for rank in ranks}) if listed == total else total
