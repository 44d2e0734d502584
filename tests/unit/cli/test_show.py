"""`busbw show`: what of a record is damaged, and its parts: ranks, how samples spread, one case in full."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from busbw.cli import samples
from busbw.cli.show import show
from busbw.errors import ExitCode, UsageError
from busbw.model.plan import Timing
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason, not_run
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.record.folder import RESULTS_FILE, SAMPLES_FILE, create
from busbw.record.parquet import compact
from busbw.record.read import read_record
from busbw.record.write import RunWriter, write_record

RANKS, SAMPLES = 3, 60


def measured(case: int) -> tuple[CaseResult, np.ndarray, np.ndarray]:
    """Single calls of 10 us; rank 1 comes 100 us after the others."""
    noise = np.random.default_rng(case).integers(0, 2_000, (RANKS, SAMPLES))
    own = noise + np.array([110_000, 10_000, 110_000])[:, None]
    rows = np.zeros((RANKS + 1) * SAMPLES, SAMPLE_DTYPE)
    rows["case"], rows["k"] = case, 1
    rows["rank"] = np.repeat(np.arange(-1, RANKS), SAMPLES)
    rows["sample"] = np.tile(np.arange(SAMPLES), RANKS + 1)
    rows["elapsed_ns"] = rows["issue_ns"] = np.concatenate((own.max(axis=0), *own))
    digests = np.zeros(RANKS, DIGEST_DTYPE)
    digests["case"], digests["rank"], digests["samples"] = case, np.arange(RANKS), SAMPLES
    digests["median_ns"] = np.median(own, axis=1)
    digests["p95_ns"], digests["max_ns"] = np.percentile(own, 95, axis=1), own.max(axis=1)
    time_ns = float(np.median(own.max(axis=0)))
    result = CaseResult(
        case, Status.GOOD, time_ns, time_ns, time_ns, time_ns, 1.0, 1.0, SAMPLES, 1, 3, StopReason.CALLS, 0
    )
    return result, rows, digests


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of four cases, of which the last was not timed."""
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    plan = make_plan(
        ("all_reduce",), RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=11), "null", RANKS
    )
    record = RunRecord(
        schema=SCHEMA_VERSION,
        run_id="20260102-030405-all_reduce-00ff",
        busbw_version="0.1",
        created="2026-01-02T03:04:05.000+00:00",
        argv=("busbw", "run"),
        settings={},
        plan=replace(plan, timing=Timing(mode="latency")),
        status=RunStatus.RUNNING,
        method=Method(mode="latency"),
        world=WorldInfo("mpi", "slurm", RANKS, tuple(RankInfo(i, f"node{i}", 1, 0) for i in range(RANKS))),
    )
    folder = create(tmp_path, record.run_id)
    writer = RunWriter(folder, record)
    for case in range(3):
        writer.append(*measured(case))
    writer.finish(RunStatus.COMPLETE, "2026-01-02T03:04:06.000+00:00")
    return folder


def lines(capsys: pytest.CaptureFixture[str], **flags: Any) -> list[str]:
    assert show("last", **flags) is ExitCode.OK
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


def heads(told: list[str]) -> list[str]:
    return [line.split(":")[0].split()[-1] for line in told if line.startswith("# case ")]


def test_ranks_of_every_case_that_was_timed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = lines(capsys, ranks=True)
    assert heads(told) == ["0", "1", "2"]
    rows = [line.split() for line in told if not line.startswith("#")]
    assert [row[:2] for row in rows] == [["0", "node0"], ["1", "node1"], ["2", "node2"]] * 3
    latest = [line for line in told if line.startswith("# latest")]
    assert len(latest) == 3
    assert all("rank 1 on node1: shortest in 100%" in line for line in latest)
    assert not any("on node1: median" in line for line in told)


def test_a_case_in_full(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = dict(line.split(None, 1) for line in lines(capsys, case=1) if not line.startswith("#"))
    stored = read_record(run).results[1]
    assert told["time_ns"] == f"{stored.time_ns:.10g}"
    assert told["placement"] == "in-place"
    assert told["p99_ns"] == f"n/a (needs 299 samples, has {SAMPLES})"
    assert float(told["max_ns"]) == measured(1)[1]["elapsed_ns"].max()


def test_json_has_the_values(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = json.loads("\n".join(lines(capsys, format="json", ranks=True, histogram=True, case=0)))
    assert [part["part"] for part in parts] == ["ranks", "histogram"]
    ranks, spread = parts
    assert (ranks["case"], ranks["order"], ranks["latest"]["rank"]) == (0, "told", 1)
    assert sum(spread["counts"]) == SAMPLES


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"case": 4}, "no case 4: the run has 0 to 3"),
        ({"case": -1}, "no case -1"),
        ({"format": "csv", "ranks": True}, "--format csv cannot show parts of a run"),
        ({"ranks": True, "case": 3}, "no times of single ranks for case 3"),
        ({"histogram": True, "case": 3}, "no samples of case 3"),
    ],
)
def test_what_cannot_be_shown(run: Path, flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        show("last", **flags)


def test_a_run_in_which_nothing_was_timed(run: Path) -> None:
    write_record(run, replace(read_record(run), results=()))
    with pytest.raises(UsageError, match="no case of this run was timed"):
        show("last", ranks=True)


def test_a_cut_file_is_said_and_what_is_whole_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / SAMPLES_FILE
    size, left = SAMPLE_DTYPE.itemsize, 5
    kept = 2 * (RANKS + 1) * SAMPLES  # two of the three cases
    path.write_bytes(path.read_bytes()[: kept * size + left])
    assert show("last", histogram=True) is ExitCode.OK
    told = capsys.readouterr()
    assert heads(told.out.splitlines()) == ["0", "1"]
    assert told.err.splitlines() == [
        (
            f"warning: {path} is cut: {kept} whole records are kept, {left} bytes of another (of {size})"
            " are left out"
        ),
        "warning: samples of case 2 are missing: 0 of 240 records are there",
        "warning: the record has no samples of case 2",
    ]


@pytest.mark.parametrize("flag", ["ranks", "histogram"])
def test_a_series_says_where_its_launches_samples_are(
    run: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    series = create(run.parent, "20260102-040000-all_reduce-0100")
    (series / "launches").mkdir()
    first = series / "launches" / "1"
    shutil.copytree(run, first)
    record = read_record(run)
    write_record(series, record)
    with pytest.raises(UsageError, match="summary of several launches") as refused:
        show(str(series), **{flag: True})
    assert refused.value.hint == f"show one of its launches: `busbw show {first} --{flag}`"
    assert show(str(first), **{flag: True}) is ExitCode.OK
    assert capsys.readouterr().out
    # What is stored of a case is there for the series as well.
    assert show(str(series), case=0) is ExitCode.OK


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert show("last") is ExitCode.OK
    told = capsys.readouterr()
    assert told.out
    return told.err.splitlines()


def cut(path: Path, left_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:left_bytes])


def test_no_samples_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / SAMPLES_FILE).unlink()
    assert said(capsys)[0] == (
        f"warning: {run / SAMPLES_FILE} is missing, and samples.parquet too:"
        " 3 cases were measured with samples"
    )


def test_a_cut_line_of_results(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / RESULTS_FILE).write_text('{"case":')
    assert said(capsys)[0] == f"warning: {run / RESULTS_FILE} is cut: 8 bytes of a last line are left out"


def test_results_that_are_gone_while_samples_are_there(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = read_record(run)
    left = (record.results[0], *not_run(len(record.plan.cases), 1))
    write_record(run, replace(record, results=left, status=RunStatus.FAILED, error="rank 0 died"))
    assert said(capsys)[0] == ("warning: 2 cases have samples but no result (1, 2)")


def test_without_polars_results_are_shown_and_nothing_is_accused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compact(run)
    none: Callable[[str], ModuleSpec | None] = lambda _: None  # noqa: E731
    monkeypatch.setattr(samples, "find_spec", none)
    monkeypatch.setattr("busbw.record.parquet.find_spec", none)
    assert not any(line.startswith("warning") for line in said(capsys))
