"""A table whose columns have meaning, whatever tool wrote it: what every importer makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from busbw.importers.body import Body, Timing
from busbw.importers.columns import BoolArray, IntArray
from busbw.importers.devices import RankLine, communicator_size
from busbw.importers.own import Outcome
from busbw.importers.printed import OnePrinted
from busbw.importers.raw import NOTHING_EARLIER, Earlier, Failure
from busbw.model.collective import Placement
from busbw.model.record import ImportFinding

# The unit of bandwidths is not the same in every version of a tool (nccom-test), that of times neither
# (nccl-tests 2.0): both are decided from size and time.
GIB_PER_GB = 2**30 / 1e9


# Not frozen, for the time that takes: see ``Body``.
@dataclass(eq=False)
class Table:
    """One table of a log: rows by column, and what the log says about them.

    ``counts`` are -1 where the tool prints none. ``shares``: sizes are what one rank gives to or gets from
    each other one, as in OSU and IMB, where ours is the whole buffer. ``time`` says which reduction the times
    are; ``operation`` is empty where the log does not name it, ``rank_labels`` pairs a source with the number
    of ranks that it claims. ``old_formulas``: from before nccl-tests 2.13 (column ``error``), when some
    operations left a rank's own block out of algbw. ``trusted_time`` is off where the printed time is not
    that of the operation (-C). ``outcomes`` are by line and placement, where the log says more than numbers;
    ``cycle`` counts the sweeps before this table's; ``words_from`` says whose word reduction, root and type
    are. ``calls`` are the lines of NCCL in the table about single calls.
    """

    tool: str
    stream: str
    body: Body
    time: str
    operation: str = ""
    operation_from: str = ""
    shares: bool = False
    trusted_time: bool = True
    old_formulas: bool = False
    heading_width: int = 0
    first_line: int = 0
    last_line: int = 0
    rank_labels: tuple[tuple[str, int], ...] = ()
    ranks: Sequence[RankLine] = ()
    header: dict[str, Any] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    average: OnePrinted | None = None
    out_of_bounds: int | None = None
    ended: bool = False
    findings: tuple[ImportFinding, ...] = ()
    outcomes: dict[tuple[int, Placement], Outcome] = field(default_factory=dict)
    cycle: int = 0
    words_from: dict[str, str] = field(default_factory=dict)
    default_type: str = ""  # of failed rows, which have no word for it
    part: int = 1  # of the table, where it is too long for one run
    earlier: Earlier = NOTHING_EARLIER
    calls: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.body)

    @property
    def lines(self) -> IntArray:
        """Of the rows, from 1."""
        return self.body.lines

    @property
    def widths(self) -> IntArray:
        """Lengths of the rows; 0 where they are not to be compared."""
        return self.body.widths

    @property
    def sizes(self) -> IntArray:
        """In bytes, as printed."""
        return self.body.sizes

    @property
    def counts(self) -> IntArray:
        """-1 where the tool prints none."""
        return self.body.counts

    @property
    def types(self) -> Sequence[str]:
        """Element types, as printed."""
        return self.body.types

    @property
    def redops(self) -> Sequence[str]:
        """Reductions, as printed."""
        return self.body.redops

    @property
    def roots(self) -> IntArray:
        """-1 where there is none."""
        return self.body.roots

    @property
    def timings(self) -> tuple[Timing, ...]:
        """One for each placement."""
        return self.body.timings

    @property
    def algorithms(self) -> Sequence[str]:
        """Empty where there is no such column."""
        return self.body.algorithms

    @property
    def input_bytes(self) -> Sequence[int | None]:
        """In a rank's buffers; empty where there is no such column."""
        return self.body.input_bytes

    @property
    def output_bytes(self) -> Sequence[int | None]:
        """In a rank's buffers; empty where there is no such column."""
        return self.body.output_bytes

    @property
    def claims(self) -> tuple[tuple[str, int], ...]:
        """Every label for the number of ranks; that of the device list comes first."""
        listed = (("header", communicator_size(self.ranks)),) if self.ranks else ()
        return (*listed, *self.rank_labels)

    def keep(self, mask: BoolArray) -> Table:
        """The table with the rows of a mask."""
        return self if mask.all() else replace(self, body=self.body.rows(mask))

    def findings_of(self, kind: str) -> tuple[ImportFinding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def with_findings(self, *more: ImportFinding) -> Table:
        """The table with more findings."""
        return replace(self, findings=(*self.findings, *more))
