from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from busbw.errors import UsageError
from busbw.judge.run import cut_files
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE
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


def test_a_cut_file_is_compacted_to_its_whole_records(finished: Path) -> None:
    pytest.importorskip("polars")
    raw = finished / SAMPLES_FILE
    raw.write_bytes(raw.read_bytes()[:-3])
    whole = read.read_samples(finished)
    parquet.compact(finished)
    assert (read.read_samples(finished) == whole).all()


def test_what_compaction_leaves_out_of_cut_files_is_noted(finished: Path) -> None:
    pytest.importorskip("polars")
    for name, left_bytes in ((SAMPLES_FILE, SAMPLE_DTYPE.itemsize // 2), (DIGESTS_FILE, 5)):
        with (finished / name).open("ab") as file:
            file.write(bytes(left_bytes))
    said = cut_files(finished)
    assert parquet.compact(finished)
    assert not (finished / SAMPLES_FILE).exists()
    assert parquet.cut_notes(finished) == (
        "samples/samples.bin is cut: 6 whole records are kept, 18 bytes of another (of 36) are left out",
        "samples/digests.bin is cut: 2 whole records are kept, 5 bytes of another (of 64) are left out",
    )
    # Readers are told the same before and after, however often the folder is compacted.
    assert parquet.compact(finished)
    assert cut_files(finished) == said == tuple(f"{finished}/{note}" for note in parquet.cut_notes(finished))


def test_a_kill_between_note_and_replacement_says_it_once(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("polars")
    raw = finished / SAMPLES_FILE
    raw.write_bytes(raw.read_bytes()[:-3])
    said = cut_files(finished)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr("numpy.fromfile", killed)
        with pytest.raises(KeyboardInterrupt):
            parquet.compact(finished)
    assert (finished / parquet.CUT_NOTE).is_file()
    assert cut_files(finished) == said
    parquet.compact(finished)
    assert cut_files(finished) == said


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
