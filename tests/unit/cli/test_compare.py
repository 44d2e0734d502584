"""``busbw compare``: published logs, runs, files of setups, exit codes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import compare, csv_rows, nccl_tests_log, record_of, stored, write

from busbw.cli import compare_setups
from busbw.cli.main import main
from busbw.errors import ExitCode, SiteError
from busbw.launch.series import create_series, measure
from busbw.model.record import RunStatus
from busbw.model.result import Status
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.setups import Setup
from busbw.record.folder import create
from busbw.record.write import write_record

pytestmark = pytest.mark.usefixtures("home")

MiB, GiB = 2**20, 2**30


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ({"status": Status.FAILED, "time_ns": None, "error": "hung"}, 3, "1 of 3 launches have no number"),
        ({"status": Status.WRONG, "wrong": 4}, 1, "wrong data in 1 of 3 launches: 4 wrong elements"),
    ],
)
def test_a_launch_that_failed_or_was_wrong_is_told_and_does_not_pass(
    home: Path, capsys: pytest.CaptureFixture[str], last: dict[str, Any], code: int, said: str
) -> None:
    stored(home, "before", {1024: 10.0})
    for name in ("a", "b", "c"):
        record = record_of({1024: 5.0}, name=name)
        if name == "c":
            record = replace(record, results=(replace(record.results[0], **last),))
        write_record(create(home, name), record)
    ended, text = compare(capsys, "before", "after=a,b,c", "--gate")
    assert (ended, said in text) == (code, True)


def test_gate_follows_the_verdicts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.0]
    stored(home, "before", {1024: steady, 2048: steady})
    stored(home, "same", {1024: steady, 2048: steady})
    stored(home, "slower", {1024: [1.5 * time for time in steady], 2048: steady})
    stored(home, "single", {1024: 100.0, 2048: 100.0})
    code, text = compare(capsys, "before", "same", "--gate")
    assert (code, "2 SAME" in text) == (0, True)
    code, text = compare(capsys, "before", "slower", "--gate")
    assert code == 1
    assert "slower by 49.7 to 50.3%" in text
    # One launch of each of a host-bound size tells no difference of 5 %, and one of 100 %.
    assert compare(capsys, "single", "single", "--gate")[0] == 3
    assert compare(capsys, "single", "single", "--gate", "--detect", "99%")[0] == 0
    assert compare(capsys, "before", "slower")[0] == 0
    assert "1 FASTER" in compare(capsys, "before", "slower", "--baseline", "slower")[1]


def test_a_gate_does_not_pass_what_was_not_compared(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = ("--gate", "--detect", "99%")
    steady = [100.0, 100.1, 99.9, 100.0]
    stored(home, "before", {1024: steady})
    stored(home, "other", {2048: steady})
    stored(home, "more", {1024: steady, 2048: steady})
    code, text = compare(capsys, "before", "other", *known)
    assert (code, "# cases    2 MISSING" in text) == (3, True)
    assert compare(capsys, "before", "more", *known)[0] == 3
    assert compare(capsys, "before", "before", *known)[0] == 0
    broken = replace(record_of({1024: 1.0}, name="broken"), results=(), status=RunStatus.FAILED, error="died")
    write_record(create(home, "broken"), broken)
    assert compare(capsys, "broken", "before", *known)[0] == 3
    assert compare(capsys, "before", "broken", *known)[0] == 1


def test_csv_has_a_line_a_row(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "a", {1024: 10.0, 2048: 20.0})
    stored(home, "b", {1024: 10.0, 2048: 10.0})
    rows = csv_rows(compare(capsys, "a", "b", "--format", "csv")[1])
    assert [(row["size_bytes"], round(float(row["speedup"]), 6), row["verdict"]) for row in rows] == [
        ("1024", 1.0, "AMBIGUOUS"),
        ("2048", 2.0, "AMBIGUOUS"),
    ]


def test_curves_of_three_worlds_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GB200: one rack and twenty (coreweave/nccl-tests 7c12c62), 8 GiB."""
    for ranks, busbw in ((72, 834.57), (128, 793.07), (1440, 381.48)):
        write(tmp_path / "logs" / f"{ranks}.log", nccl_tests_log({8 * GiB: busbw}, ranks))
    code, text = compare(capsys, tmp_path / "logs", "--scaling", "--format", "csv")
    rows = [row for row in csv_rows(text) if row["placement"] == "out-of-place"]
    assert code == 0
    assert [(int(row["ranks"]), int(row["nodes"])) for row in rows] == [(72, 18), (128, 32), (1440, 360)]
    assert float(rows[2]["busbw_gb_per_s"]) / float(rows[0]["busbw_gb_per_s"]) == pytest.approx(
        0.457, abs=0.001
    )
    # They are not one comparison.
    code = main(["compare", *(str(tmp_path / "logs" / f"{ranks}.log") for ranks in (72, 1440))])
    assert code == 2
    err = capsys.readouterr().err
    assert "has 72 ranks" in err
    assert "hint: add --scaling" in err


def in_series(home: Path, nodes: tuple[int, ...]) -> Path:
    """A series of two setups on several numbers of nodes; the second fails on the largest."""

    def start(setup: Setup, many: int, folder: Path, hear: object) -> ExitCode:
        if setup.name == "other" and many == nodes[-1]:
            raise SiteError("no such queue")
        write_record(folder, record_of({1024: 10.0 * many}, ranks=2 * many, hosts=many, name=folder.name))
        return ExitCode.OK

    home.mkdir(exist_ok=True)
    return measure(
        create_series((Setup("plain"), Setup("other")), 2, 7, nodes, {}), start, io.StringIO()
    ).folder


def test_a_series_on_several_numbers_of_nodes_scales(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_series(home, (2, 4, 8))
    code, text = compare(capsys, folder, "--scaling", "--format", "csv")
    rows = csv_rows(text)
    assert code == 0
    assert [(row["setup"], row["nodes"], row["runs"], row["failed"]) for row in rows] == [
        ("other", "2", "2", "0"),
        ("other", "4", "2", "0"),
        ("plain", "2", "2", "0"),
        ("plain", "4", "2", "0"),
        ("plain", "8", "2", "0"),
        ("other", "8", "0", "2"),  # came to no operation
    ]
    assert main(["compare", str(folder / "launches"), "--scaling"]) == 2
    err = capsys.readouterr().err
    assert "no run and no log in " in err
    assert f"name the series itself: {folder}" in err
    assert main(["expect", str(folder), "--least", "1K=1"]) == 2
    assert f"name a launch of the series: one of {folder / 'launches'}/*" in capsys.readouterr().err


def test_rows_of_several_numbers_of_nodes_are_told_apart(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = csv_rows(compare(capsys, in_series(home, (2, 4)), "--format", "csv")[1])
    told = [(row["nodes"], row["ranks"], row["baseline"], row["version"]) for row in rows]
    assert told == [("2", "4", "plain", "MPI 5.0.2"), ("4", "8", "plain", "")]


def test_rows_that_were_left_out_of_a_log_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row whose bandwidth does not fit its time is not among the cases, and was lost without a word."""
    good = nccl_tests_log({8 * MiB: 100.0, 16 * MiB: 110.0, 32 * MiB: 120.0}, 16)
    was, is_now = "58.67  110.00      0\n", "18.67  110.00      0\n"
    logs = [write(tmp_path / "good.log", good), write(tmp_path / "bad.log", good.replace(was, is_now))]
    assert is_now in logs[1].read_text()
    _, text = compare(capsys, *logs)
    assert "bad.log, line 22: left out: " in text
    assert main(["expect", str(logs[0]), "--least", "8M=50"]) == 0
    capsys.readouterr()
    assert main(["expect", str(logs[1]), "--least", "8M=50"]) == 3  # a size is not judged
    assert "bad.log, line 22: left out: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to compare"),
        (("a",), "nothing to compare with"),
        (("a", "nobody"), "no run 'nobody'"),
        (("a", "b", "-b", "8"), "--minbytes is only for measuring setups"),
        (("a", "b", "--order-seed", "3"), "--order-seed is only for measuring setups"),
        (("a", "b", "--save-env", "x.env"), "--save-env and --export-setup need a series of setups"),
        (("a", "b", "--baseline", "z"), "nothing here is called 'z', the baseline"),
        (("a", "b", "--delta", "2"), "is not between 0 and 1"),
        (("a", "b", "--format", "jsonl"), "--format jsonl"),
        (("a", "none.yaml"), "must be the only argument"),
        (("none.yaml",), "cannot read none.yaml"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    home: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "a", {1024: 10.0})
    stored(home, "b", {1024: 10.0})
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("launch", "nodes"),
    [
        ({}, ()),
        ({"on": "slurm", "nodes": "4,2"}, (2, 4)),
        ({"on": "hosts", "hosts": "a,u@b:2,a"}, (2,)),
        ({"on": "hosts", "hosts": "a,b,c", "nodes": "2"}, (2,)),
    ],
)
def test_a_series_says_on_how_many_nodes_it_is(launch: dict[str, Any], nodes: tuple[int, ...]) -> None:
    assert compare_setups.counts_of_nodes(LaunchSettings(**launch)) == nodes


def test_a_log_that_is_there_twice_is_one_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "x.log", nccl_tests_log({MiB: 30.0, 2 * MiB: 31.0}, 8))
    copy = write(tmp_path / "copy" / "y.log", f"\n{log.read_text()}")  # known by its rows
    other = write(tmp_path / "z.log", nccl_tests_log({MiB: 33.0, 2 * MiB: 34.0}, 8))
    assert main(["compare", f"A={log},{log},{copy}", f"B={other}", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert {row["baseline_launches"] for row in json.loads(out)["rows"]} == {1}
    assert err.count("it counts once") == 2
    assert main(["compare", f"A={log},{copy}", "--scaling", "--format", "json"]) == 0
    assert {row["runs"] for row in json.loads(capsys.readouterr().out)["rows"]} == {1}
    for words, runs in (((log, copy), {1}), ((log, other, copy), {2}), ((f"A={log}", f"B={copy}"), {1})):
        assert main(["compare", *map(str, words), "--scaling", "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert {row["runs"] for row in json.loads(out)["rows"]} == runs
        assert ("it counts once" in err) == (words[-1] == copy)


def test_a_series_that_is_named_twice_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(in_series(home, (2, 4)))
    for more in ((), ("--scaling",)):
        assert main(["compare", folder, folder, *more]) == 2
        assert "once more: its blocks count once" in capsys.readouterr().err
