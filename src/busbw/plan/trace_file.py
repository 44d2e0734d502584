"""Delays of ranks from a file: ``--arrival trace:FILE``."""

from __future__ import annotations

import hashlib
from typing import Final

from busbw.errors import UsageError
from busbw.model.arrival import TRACE, delay_ns
from busbw.plan.json_file import named, read_text

Trace = tuple[tuple[int, ...], ...]
_HINT: Final = "write a line a call, with a delay for every rank: 0 4ms 250us 0"


def read_trace(path: str, ranks: int = 0) -> Trace:
    """A line a call, a delay of every rank, in ns; without ``ranks``, of as many as the first line has.
    Raises UsageError naming the line.
    """
    flag = f"--arrival {TRACE}:{named(path)}"
    rows = []
    for number, line in enumerate(read_text(path, "--arrival", f"{TRACE}:FILE").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        ranks = ranks or len(words)
        if words and len(words) != ranks:
            raise UsageError(f"{flag}: line {number} has {len(words)} delays for {ranks} ranks", hint=_HINT)
        if words:
            rows.append(tuple(int(delay_ns(word, f"{flag}: line {number}")) for word in words))
    if not rows:
        raise UsageError(f"{flag} is empty", hint=_HINT)
    return tuple(rows)


def name_of(trace: Trace) -> str:
    """What runs with this trace have in common, wherever its file lies."""
    return f"{TRACE}:{hashlib.sha256(repr(trace).encode()).hexdigest()[:8]}"
