"""What a notebook gets: frames, their columns, and what a kill has cut off."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from busbw_testing.ranks_of_a_case import LATE

import busbw
from busbw.errors import UsageError
from busbw.judge.run import results
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import DIGESTS_FILE, RESULTS_FILE, RUN_FILE, SAMPLES_FILE
from busbw.record.parquet import compact
from busbw.record.read import read_record

pl = pytest.importorskip("polars")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "frames.md"


def test_a_run_opens_by_its_folder_its_name_and_as_the_last_one(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(written.parent))
    for run in (written, str(written), written.name, written.name[:8], "last"):
        assert busbw.open_run(run).record == read_record(written)
    assert busbw.open_run().folder == written


def test_results_have_a_row_for_every_case_of_the_plan(written: Path) -> None:
    results = busbw.open_run(written).df
    assert results["case"].to_list() == [0, 1, 2, 3]
    assert results["status"].to_list() == ["good", "not-run", "not-run", "not-run"]
    assert results["size_bytes"].to_list() == [1024, 1024, 2048, 2048]
    assert results["time_ns"].to_list() == [2000.0, None, None, None]
    first = results.row(0, named=True)
    assert (first["ranks"], first["mode"], first["time"], first["stop"]) == (4, "latency", "max", "precision")
    assert (first["wrong"], first["wrong_at"], first["placement"]) == (0, [], "out-of-place")


def test_results_of_another_order_stay_with_their_case(written: Path) -> None:
    record = read_record(written)
    (first,) = record.results
    mixed = replace(record, results=(replace(first, case=2, time_ns=7.0), first))
    assert results(mixed)["time_ns"].to_list() == [2000.0, None, 7.0, None]


def test_columns_keep_their_types_where_nothing_was_measured(written: Path) -> None:
    measured = busbw.open_run(written).df.schema
    nothing = replace(read_record(written), results=(), world=None, method=None)
    assert results(nothing).schema == measured
    assert measured["time_ns"] == pl.Float64
    assert measured["wrong"] == pl.Int64
    assert measured["marks"] == pl.List(pl.String)
    assert measured["wrong_at"].inner.to_schema()["first_offset"] == pl.Int64


def test_samples_and_digests_are_the_record_s_own(written: Path) -> None:
    run = busbw.open_run(written)
    own = run.samples.filter(pl.col("rank") == 2)
    assert own["elapsed_ns"].to_list() == LATE[2].tolist()
    assert own["call_ns"].to_list() == LATE[2].tolist()
    assert run.samples.filter(pl.col("rank") == -1)["call_ns"].to_list() == LATE.max(axis=0).tolist()
    assert run.digests.columns == [*(DIGEST_DTYPE.names or ()), "host", "local_rank", "device"]
    assert run.digests["host"].to_list() == ["node0", "node0", "node1", "node1"]
    assert run.digests["median_ns"].to_list() == np.median(LATE, axis=1).tolist()


def test_call_ns_is_the_time_of_one_call(written: Path) -> None:
    rows = np.fromfile(written / SAMPLES_FILE, SAMPLE_DTYPE)
    rows["k"] = 8
    (written / SAMPLES_FILE).write_bytes(rows.tobytes())
    samples = busbw.open_run(written).samples
    assert samples["call_ns"].to_list() == (rows["elapsed_ns"] / 8).tolist()


def test_frames_of_a_compacted_run_are_the_same(written: Path) -> None:
    before = busbw.open_run(written)
    samples, digests = before.samples, before.digests
    assert compact(written)
    after = busbw.open_run(written)
    assert after.samples.equals(samples)
    assert after.digests.equals(digests)


@pytest.mark.parametrize("name", [SAMPLES_FILE, DIGESTS_FILE])
@pytest.mark.parametrize("left", [1, 20])
def test_a_cut_file_keeps_whole_records_and_says_what_is_left_out(
    written: Path, name: Path, left: int
) -> None:
    dtype = SAMPLE_DTYPE if name == SAMPLES_FILE else DIGEST_DTYPE
    whole = 3
    data = (written / name).read_bytes()
    (written / name).write_bytes(data[: whole * dtype.itemsize + left])
    with pytest.warns(UserWarning, match=f"3 whole records are kept, {left} bytes of another") as said:
        run = busbw.open_run(written)
    assert run.warnings == (str(said[0].message),)
    assert str(written / name) in run.warnings[0]
    if name == SAMPLES_FILE:
        with pytest.warns(UserWarning, match=f"case 0 are missing: {whole} of "):
            assert run.samples.height == whole
    else:
        assert run.digests.height == whole


def test_a_result_that_was_cut_is_said(written: Path) -> None:
    path = written / RESULTS_FILE
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    with pytest.warns(UserWarning, match="40 bytes of a last line are left out"):
        run = busbw.open_run(written)
    assert [result.case for result in run.record.results] == [0]


def test_the_record_needs_no_polars_and_frames_name_the_extra(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busbw.judge.run.find_spec", lambda name: None)
    run = busbw.open_run(written)
    assert run.record.run_id == written.name
    for name in ("df", "samples", "digests"):
        with pytest.raises(UsageError, match="frames need polars") as refused:
            getattr(run, name)
        assert ".[analysis]" in refused.value.hint


def test_a_run_that_never_started_says_so(written: Path) -> None:
    (written / RUN_FILE).unlink()
    (written / "request" / "request.json").write_text("{}")
    with pytest.raises(UsageError, match="never started"):
        busbw.open_run(written)


@pytest.mark.parametrize("frame", ["df", "samples", "digests"])
def test_every_column_is_documented(written: Path, frame: str) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## `{frame}`\n")[1].split("\n## ")[0]
    documented = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    assert documented == set(getattr(busbw.open_run(written), frame).columns)


def test_the_code_of_the_page_runs(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(block, {"run": busbw.open_run(written)})
    assert f"{np.median(LATE.max(axis=0))}" in capsys.readouterr().out
