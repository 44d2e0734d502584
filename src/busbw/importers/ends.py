"""Words by which a job says that a test did not come to its end: of nccl-tests, launchers, kernels."""

from __future__ import annotations

import re
from collections import deque
from typing import Final, NamedTuple

# Slurm, Open MPI, hydra, PALS, Kubernetes, shells; nccl-tests says "Test NCCL failure". Warnings of a test
# that starts have "error" or "failed" in them too: these words alone end nothing.
_END: Final = re.compile(
    r"\bfailure\b|\bkilled\b|\bcancel+ed\b|\baborted\b|\bmpi_abort\b|\bsignal \d|\bsegmentation fault\b"
    r"|\bcore dumped\b|\btime limit\b|\bout of memory\b|\boom[-_ ]?kill|\bnon-zero exit|\bexit code:? [1-9]"
    r"|\bbad termination\b|\bfatal error\b",
    re.IGNORECASE,
)
_MOST: Final = 1000


class End(NamedTuple):
    """A line that says so, and the stream that it is in."""

    line: int
    stream: str
    text: str


class Ends:
    """The last of these lines."""

    def __init__(self) -> None:
        self._found: deque[End] = deque(maxlen=_MOST)

    def take(self, text: str, stream: str, line: int) -> None:
        """Keep a line, where it says that something ended."""
        if _END.search(text) is not None:
            self._found.append(End(line, stream, " ".join(text.split())[:200]))

    def behind(self, line: int, stream: str) -> End | None:
        """The first behind a line of a stream, in this stream or in the one of lines without a prefix."""
        found = (end for end in self._found if end.line > line and end.stream in (stream, ""))
        return next(found, None)
