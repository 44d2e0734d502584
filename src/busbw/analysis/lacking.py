"""Samples that a run once had and its file has no more. Pure.

A file that is cut in the middle of a sample shows it by itself; one cut between two samples only lacks what
the results and the digests count. Half of a case would then pass for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from busbw.model.record import RunRecord
from busbw.model.result import CaseResult
from busbw.model.sample import HEADLINE, MAX_OVER_RANKS, SampleFlag

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
    """The finished cases that have fewer samples than were kept of them. ``samples`` are SAMPLE_DTYPE rows,
    ``digests`` DIGEST_DTYPE rows, of the whole run; where its file of samples is not there at all, that is
    what to say (``record.absent``).
    """
    found = []
    samples_of, digests_of = _by_case(samples), _by_case(digests)
    for result in record.results:
        if not result.samples:
            continue
        counts = list(_counts(record, result, samples_of(result.case), digests_of(result.case)))
        if any(there < expected for there, expected in counts):
            found.append(Lacking(result.case, *map(sum, zip(*counts, strict=True))))
    return tuple(found)


def _by_case(rows: Rows) -> Callable[[int], Rows]:
    """The rows of one case: they are sorted once, as there may be thousands of cases."""
    ordered = rows[np.argsort(rows["case"], kind="stable")]
    cases = np.ascontiguousarray(ordered["case"])
    return lambda case: ordered[slice(*np.searchsorted(cases, (case, case + 1)))]


def without_result(record: RunRecord, samples: Rows) -> tuple[int, ...]:
    """The cases of which there are samples and no result: its line was cut off, or a kill came between."""
    known = {result.case for result in record.finished}
    return tuple(case for case in np.unique(samples["case"]).tolist() if case not in known)


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
    # A pass of single calls beside `--time loop` has no loop, so no rows of the headline's own.
    ranks = (ranks - {HEADLINE}) | set(rows["rank"][single].tolist())
    for rank in sorted(ranks) if "single_calls" in result.evidence else ():
        yield int(np.count_nonzero(rows["rank"][single] == rank)), int(result.evidence["single_calls"])
