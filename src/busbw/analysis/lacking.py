"""Samples that a run once had and its file has no more. Pure.

A file that is cut in the middle of a sample shows it by itself; one cut between two samples only lacks what
the results and the digests count. Half of a case would then pass for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.model.sample import MAX_OVER_RANKS, SampleFlag

Rows = npt.NDArray[np.void]


@dataclass(frozen=True)
class Lacking:
    """One case: ``found`` of at least ``expected`` rows are there."""

    case: int
    found: int
    expected: int

    def __str__(self) -> str:
        return f"samples of case {self.case} are missing: {self.found} of {self.expected} records are there"


def lacking(record: RunRecord, samples: Rows, digests: Rows) -> tuple[Lacking, ...]:
    """The finished cases that have fewer samples than were kept of them; none where the run's samples were
    never brought here. ``samples`` are SAMPLE_DTYPE rows, ``digests`` DIGEST_DTYPE rows, of the whole run.
    """
    if not len(samples):
        return ()
    found = []
    for result in record.results:
        if not result.samples:
            continue
        rows = samples[samples["case"] == result.case]
        counts = list(_counts(record, result, rows, digests[digests["case"] == result.case]))
        if any(there < expected for there, expected in counts):
            found.append(Lacking(result.case, *map(sum, zip(*counts, strict=True))))
    return tuple(found)


def _counts(record: RunRecord, result: CaseResult, rows: Rows, digests: Rows) -> Iterator[tuple[int, int]]:
    """(found, expected) rows of every series of a case: its ranks', and what they have in common."""
    single = (rows["flags"] & SampleFlag.SINGLE_CALL) != 0
    several = rows[~single]
    # Without digests, those of the headline alone: some may have been left out of it.
    taken = int(digests["samples"].max()) if len(digests) else result.samples
    all_kept = record.world is not None and record.world.size <= record.plan.raw_ranks
    ranks = set(several["rank"].tolist()) | {MAX_OVER_RANKS}
    ranks |= set(digests["rank"].tolist()) if all_kept else set()
    for rank in sorted(ranks):
        yield int(np.count_nonzero(several["rank"] == rank)), taken
    for rank in sorted(ranks) if "single_calls" in result.evidence else ():
        yield int(np.count_nonzero(rows["rank"][single] == rank)), int(result.evidence["single_calls"])
