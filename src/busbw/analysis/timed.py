"""How calls were issued and timed, where it is not back to back in a loop, one GPU a process.

Two such times differ by what it takes to launch an operation and to wait for it, which small sizes consist of
and large ones do not notice.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from busbw.analysis import compare_arms
from busbw.model.record import RunRecord
from busbw.references.reference import Reference

PLAIN: Final = "back to back, one GPU a process"
# More than launching, a wait or a barrier add to a call on any machine seen so far: 8 to 25 us on H200.
LAUNCH_PATH_NS: Final = 50_000.0
_LOOPS: Final = ("throughput", "max", "loop")  # of busbw: the mean over a loop of calls
_WORDS: Final = {"graph": "CUDA graph"}
_BARRIER: Final = "a barrier between calls"
_EACH: Final = frozenset(("p99", "cv", "cv%"))  # of nccl-tests: printed under -I alone
_NCCL_TESTS: Final = "mean over the timed calls of one loop"


def how_timed(record: RunRecord) -> tuple[str, ...]:
    """Words for what is not ``PLAIN``; empty where everything is, or the log does not say it."""
    words = _defined(compare_arms.definition(record))
    if record.source is not None:
        words += _of_log(record)
    return tuple(sorted(dict.fromkeys(words)))


def reference_timed(reference: Reference) -> tuple[str, ...]:
    """The same of a reference."""
    if reference.timed:
        return tuple(reference.timed.split("; "))
    return tuple(sorted(_defined(reference.definition)))


def otherwise(record: RunRecord, reference: Reference) -> str:
    """How the two were timed, where that is not alike; empty where it is."""
    ours, theirs = how_timed(record), reference_timed(reference)
    if ours == theirs:
        return ""
    told = (", ".join(words) or PLAIN for words in (ours, theirs))
    return f"timed otherwise: the run {next(told)}; {reference.name} {next(told)}"


def other_buffers(ours: str, reference: Reference) -> str:
    """How the two's buffers lay, where both say it and it is not alike; else empty."""
    if not reference.buffers or ours in ("", compare_arms.NOT_STATED, reference.buffers):
        return ""
    return f"other buffers: the run {ours}; {reference.name} {reference.buffers}"


def _defined(definition: str) -> list[str]:
    """What a definition of time says; see ``compare_arms.definition``."""
    if definition.startswith("busbw "):
        words = definition.removeprefix("busbw ").split(", ")
        return [_WORDS.get(word, word) for word in words if word not in _LOOPS]
    return [_BARRIER] if _BARRIER in definition else []


def _of_log(record: RunRecord) -> list[str]:
    """What the header of nccl-tests' log says, and its list of ranks."""
    assert record.source is not None
    header, options = record.source.header, record.plan.options
    words = []
    if header.get("blocking") not in (None, "", 0):
        words.append("blocking")
    if options.graph:
        words.append("CUDA graph")
    if options.aggregate > 1:
        words.append(f"{options.aggregate} in a group")
    is_test = compare_arms.definition(record).startswith(_NCCL_TESTS)
    if is_test and any(_EACH & result.stats.keys() for result in record.results):
        words.append("an event around each call")
    gpus = _gpus_of_a_process(record)
    return [*words, f"{gpus} GPUs of one process"] if gpus > 1 else words


def _gpus_of_a_process(record: RunRecord) -> int:
    """By the header, else by the process ids of the ranks that the log names."""
    assert record.source is not None
    said = str(record.source.header.get("gpus", ""))
    if re.fullmatch(r"\d+", said):
        return int(said)
    ranks = record.world.ranks if record.world is not None else ()
    return max(Counter((rank.host, rank.pid) for rank in ranks if rank.pid).values(), default=1)
