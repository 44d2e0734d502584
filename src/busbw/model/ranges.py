"""The text of the range in which a profiler sees a call, written by ranks and read from its export.

``all_reduce float sum 26214400 B out-of-place``; a group of calls adds ``x 8``, a CUDA graph ``graph``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from busbw.model.case import Case
from busbw.model.collective import Placement

_TEXT: Final = re.compile(
    r"(?P<collective>[a-z_]+) (?P<dtype>\w+) (?P<op>\w+|-) (?P<bytes>\d+) B (?P<placement>[a-z-]+)"
    r"(?: x (?P<group>\d+))?(?P<graph> graph)?"
)


@dataclass(frozen=True)
class CallRange:
    """What a call was. ``size_bytes`` is the message size of nccl-tests; ``calls`` in one group are one
    issue; ``graph`` where it was the launch of a CUDA graph of any number of calls.
    """

    collective: str
    dtype: str
    op: str
    size_bytes: int
    placement: Placement
    calls: int = 1
    graph: bool = False

    @classmethod
    def of(cls, case: Case, calls: int = 1, *, graph: bool = False) -> CallRange:
        """Of a case's call."""
        return cls(case.collective, case.dtype, case.op, case.size_bytes, case.placement, calls, graph)

    @classmethod
    def read(cls, text: str) -> CallRange | None:
        """From a range's text; None for the text of another program."""
        match = _TEXT.fullmatch(text)
        if match is None or match["placement"] not in tuple(Placement):
            return None
        return cls(
            collective=match["collective"],
            dtype=match["dtype"],
            op="" if match["op"] == "-" else match["op"],
            size_bytes=int(match["bytes"]),
            placement=Placement(match["placement"]),
            calls=int(match["group"] or 1),
            graph=bool(match["graph"]),
        )

    def __str__(self) -> str:
        group = f" x {self.calls}" if self.calls > 1 else ""
        words = f"{self.collective} {self.dtype} {self.op or '-'} {self.size_bytes} B {self.placement}"
        return words + group + (" graph" if self.graph else "")
