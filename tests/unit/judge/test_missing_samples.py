"""A samples file that was cut between two samples: what is left must not pass for the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from busbw.judge.samples import missing_samples, without_result
from busbw.model.result import not_run
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE
from busbw.record.read import read_record

EVERY = 6 * 300  # maximum, minimum and four ranks of ``late``


def rows_of(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.fromfile(folder / SAMPLES_FILE, SAMPLE_DTYPE), np.fromfile(folder / DIGESTS_FILE, DIGEST_DTYPE)


@pytest.mark.parametrize("kept", [1, 100, 300, EVERY // 2, EVERY - 300, EVERY - 1])
def test_any_cut_between_two_samples_is_found(written: Path, kept: int) -> None:
    rows, digests = rows_of(written)
    assert kept < len(rows) == EVERY
    (short,) = missing_samples(read_record(written), rows[:kept], digests)
    assert (short.case, short.found) == (0, kept)
    assert short.found < short.expected <= EVERY


def test_ranks_that_were_never_kept_are_not_missing(written: Path) -> None:
    record, (rows, digests) = read_record(written), rows_of(written)
    few = replace(record, plan=replace(record.plan, raw_ranks=2))
    rows = rows[(rows["rank"] < 2) | (rows["rank"] == 3)]
    assert missing_samples(few, rows, digests) == ()
    assert len(missing_samples(few, rows[:-1], digests)) == 1
    assert len(missing_samples(record, rows, digests)) == 1


def test_cases_of_which_there_are_samples_alone(written: Path) -> None:
    record, (rows, _) = read_record(written), rows_of(written)
    assert without_result(record, rows) == ()
    later = rows.copy()
    later["case"] = 2
    assert without_result(record, np.concatenate((rows, later))) == (2,)
    assert without_result(replace(record, results=not_run(4, 0)), rows) == (0,)


def test_without_digests_the_headline_says_how_many_there_were(written: Path) -> None:
    record, (rows, digests) = read_record(written), rows_of(written)
    (result,) = record.results
    record = replace(record, results=(replace(result, samples=300),))
    assert missing_samples(record, rows, digests[:0]) == ()
    assert missing_samples(record, rows[:299], digests[:0])[0].expected == 300
