"""What NCCL writes into its log about single calls (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=TUNING), by rank 0
of a communicator: the lines of 2.20 to 2.32 (enqueue.cc of each).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS, Choice

# By algorithm, up to 2.22 without the function; a symmetric kernel (2.27 on); by copy engine (2.29 on).
TUNING_LINE: Final = re.compile(
    r"(?:\b(?P<call>[A-Za-z]\w*)(?: \[(?P<kind>[\w ]+)\])?: )?\b(?P<bytes>\d+) Bytes -> "
    r"(?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)|Kernel (?P<kernel>\w+))?"
    r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\}| nchannels (?P<channels>\d+))?"
)
# From 2.24 on the bytes are those of the call's own count, which is one rank's part of these.
_OF_PARTS: Final = frozenset(("AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"))


@dataclass(frozen=True)
class TuningLine:
    """One line. ``function`` is NCCL's name of the call, empty where the line has none; ``told_bytes`` are
    its bytes, of one rank's part where ``is_part``.
    """

    function: str
    told_bytes: int
    is_part: bool
    choice: Choice

    def size_bytes(self, ranks: int) -> int | None:
        """The size as nccl-tests defines it, on so many ranks; None where it takes them and they are 0."""
        if not self.is_part:
            return self.told_bytes
        return self.told_bytes * ranks if ranks else None


def tuning_lines(text: str) -> list[TuningLine]:
    """All of them in a text, in order."""
    return [_read(found) for found in TUNING_LINE.finditer(text) if found["call"] or found["algorithm"]]


def _read(found: re.Match[str]) -> TuningLine:
    # Versions that print the bytes of all ranks print algorithms by number.
    old = (found["algorithm"] or "").isdecimal()
    channels = int(found["high"]) - int(found["low"]) + 1 if found["high"] else found["channels"]
    choice = Choice(
        source="log",
        algorithm=_named(found["algorithm"] or (found["kind"] or "").upper(), NCCL_ALGORITHMS),
        protocol=_named(found["protocol"] or "", NCCL_PROTOCOLS),
        kernel=found["kernel"] or "",
        functions=(found["call"],) if found["call"] else (),
        channels=None if channels is None else int(channels),
    )
    return TuningLine(
        found["call"] or "", int(found["bytes"]), not old and found["call"] in _OF_PARTS, choice
    )


def _named(word: str, names: tuple[str, ...]) -> str:
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word
