from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from busbw.errors import UsageError
from busbw.judge.run import cut_files
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.record import parquet, read
from busbw.record.folder import DIGESTS_FILE, DIGESTS_PARQUET, SAMPLES_FILE, SAMPLES_PARQUET
from busbw.record.write import RunWriter

if TYPE_CHECKING:
    import numpy as np


@pytest.fixture
def finished(folder: Path, record: RunRecord, samples: np.ndarray, digests: np.ndarray) -> Path:
    RunWriter(folder, record).append(CaseResult(0, Status.GOOD), samples, digests)
    return folder


def test_readers_take_both_forms(finished: Path) -> None:
    pytest.importorskip("polars")
    samples, digests = read.read_samples(finished), read.read_digests(finished)
    assert parquet.compact(finished)
    files = sorted(path.name for path in (finished / "samples").iterdir())
    assert files == [DIGESTS_PARQUET.name, SAMPLES_PARQUET.name]
    assert (read.read_samples(finished) == samples).all()
    assert (read.read_digests(finished) == digests).all()


def test_a_cut_file_stays_as_it_is_and_shows_it(finished: Path) -> None:
    pytest.importorskip("polars")
    raw = finished / SAMPLES_FILE
    raw.write_bytes(raw.read_bytes()[:-3])
    whole, said = read.read_samples(finished), cut_files(finished)
    assert parquet.compact(finished)
    assert raw.is_file()
    assert not (finished / DIGESTS_FILE).exists()
    assert (read.read_samples(finished) == whole).all()
    assert cut_files(finished) == said != ()


def test_without_polars_the_raw_segments_stay(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    assert not parquet.compact(finished)
    assert (finished / SAMPLES_FILE).is_file()


def test_reading_parquet_without_polars_names_the_extra(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    (finished / SAMPLES_FILE).unlink()
    (finished / SAMPLES_PARQUET).write_bytes(b"")
    with pytest.raises(UsageError, match="needs polars") as refused:
        read.read_samples(finished)
    assert ".[analysis]" in refused.value.hint
