"""Marks: what a reader must know about a row beside its numbers. A word in the row, its meaning below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Mark:
    """One row: the word shown and what it says."""

    name: str
    meaning: str


MARKS: Final = (
    Mark("contended", "more ranks than cores on a host: the time is that of waiting for time slices too"),
    Mark("shared-gpu", "ranks take turns on one GPU: the time is not that of a GPU for each"),
    Mark(
        "profiled", "a profiler was attached: the time is its cost too, and is to be compared with no other"
    ),
    Mark(
        "delayed", "ranks came late on purpose (--arrival), by up to a call's time: `busbw show RUN --case N`"
    ),
    Mark("unchecked", "no check data can tell right from wrong for this type, reduction and rank count"),
    Mark("user-op", "MPI has no such type: the reduction function that is timed is busbw's own"),
    Mark("scaled", "MPI has no such reduction: it sums, and busbw's own scaling is timed with it"),
    Mark("grouped", "this NCCL has no such call: grouped sends and receives are timed"),
    Mark("emulated", "NCCL has no barrier: an all_reduce of one float is timed, as PyTorch does"),
    Mark("as-bytes", "NCCL does not have the element type: its bytes are moved"),
    Mark("stopped", "a limit (time, budget, samples) ended sampling before the interval was narrow enough"),
    Mark("unstable", "the level shifts or the samples hang together for long: two runs may differ by more"),
    Mark("bimodal", "the samples lie around two values; the median is one of them or between"),
    Mark("host-bound", "issuing the calls takes as long as they run: compare with -G 1 (a CUDA graph)"),
    Mark("part-alone", "for more than a tenth of its time not all other streams were under way; see overlap"),
    Mark("descheduled", "a rank lost its core while it was timed; see `busbw show RUN --case N`"),
    Mark("throttled", "right after the case power, heat or the power brake held a GPU's clocks down"),
    Mark("clock-error", "the ranks' clocks are not known well enough for a span this short"),
    Mark(
        "clock-step", "a host's clocks, or the ranks', ran apart meanwhile: a suspended or migrated machine"
    ),
)


def meaning(name: str) -> str:
    """What a mark says; empty for one of a newer version."""
    return next((mark.meaning for mark in MARKS if mark.name == name), "")
