"""``busbw check`` with scripted times: one line, an exit code, and files for those who watch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest  # noqa: TC002 (a fixture's type)
from junitparser import JUnitXml

from busbw.cli.main import main
from busbw.record.folder import run_folders

NULL = ("--backend", "null", "--world", "nccl", "--ranks", "2")


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["check", *NULL, *words])
    out, err = capsys.readouterr()
    (line,) = out.splitlines()
    assert err.startswith("check: at most 15 s of measuring"), err
    return code, line


def test_a_level_is_what_earlier_runs_reached(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = checked(capsys)
    assert (code, line) == (0, line)
    assert re.fullmatch(r"OK busbw: all_reduce 16M [\d.]+ GB/s, no level yet, 0 wrong", line)
    code, line = checked(capsys)
    assert code == 0
    assert re.fullmatch(r"OK busbw: all_reduce 16M [\d.]+ GB/s, 100 % of its level, 0 wrong", line)


def test_an_alarm_is_confirmed_by_a_second_launch(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = checked(capsys, "--least", "1M=1000000")
    assert code == 1
    assert line.startswith("ERROR busbw: 1e+06 GB/s from 1 MiB on: fail")
    assert len(run_folders(home)) == 2
    assert checked(capsys, "--least", "1M=0.001")[0] == 0
    assert len(run_folders(home)) == 3


def test_files_for_ci_and_node_exporter(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prom, junit = tmp_path / "busbw.prom", tmp_path / "junit.xml"
    checked(capsys, "--prometheus", str(prom), "--junit", str(junit))
    text = prom.read_text()
    value = r"nccl_bus_bandwidth_gbs\{[^}]*collective=\"AllReduce\",message_size=\"16MiB\"[^}]*\} [\d.]+\n"
    assert re.search(value, text)
    assert "busbw_check_exit_code 0\n" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert JUnitXml.fromfile(str(junit)).tests == 6


def test_a_plan_says_what_is_measured(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "check.yaml"
    plan.write_text("operations: alltoall\nminbytes: 64K\nmaxbytes: 1M\nstepfactor: 16\n")
    code, line = checked(capsys, "--plan", str(plan))
    assert code == 0
    assert line.startswith("OK busbw: alltoall 1M ")
    plan.write_text("launches: 3\n")
    assert main(["check", *NULL, "--plan", str(plan)]) == 2
    assert "launches: '3' is not a flag of a check" in capsys.readouterr().err


def test_ranks_that_cannot_measure_are_an_error(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prom = tmp_path / "busbw.prom"
    missing = ("--backend", "nccl", "--nccl", str(tmp_path / "libnccl.so"), "--prometheus", str(prom))
    code = main(["check", *missing])
    assert code == 4
    assert capsys.readouterr().out.startswith("ERROR busbw: ")
    assert "busbw_check_exit_code 4\n" in prom.read_text()
