"""Percentiles of as few samples as there are: nccom-test prints p99 of 20 calls, so its front door does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from busbw.model.sample import EXCLUDING, HEADLINE, MAX_OVER_RANKS, SampleFlag
from busbw.record.read import read_samples
from busbw.stats.outliers import exclude
from busbw.stats.percentile import nearest_rank


def percentiles_ns(folder: Path, case: int, words: Sequence[str]) -> tuple[dict[str, float], int]:
    """Percentiles (pNN) of the times of one call in ns, by nearest rank, and of how many samples; of single
    calls where the run timed them, and without those that the mean is without.
    Nothing where the record has no samples here (yet).
    """
    rows = read_samples(folder)
    rows = rows[rows["case"] == case]
    of_headline = rows[rows["rank"] == HEADLINE]
    rows = of_headline if len(of_headline) else rows[rows["rank"] == MAX_OVER_RANKS]
    singles = rows[rows["flags"] & int(SampleFlag.SINGLE_CALL) != 0]
    rows = singles if len(singles) else rows
    if not len(rows):
        return {}, 0
    left = exclude(rows["flags"], EXCLUDING)
    rows = rows[left.kept] if left.valid else rows
    ordered = np.sort(rows["elapsed_ns"] / rows["k"])
    return {word: nearest_rank(ordered, float(word[1:])) for word in words}, len(rows)
