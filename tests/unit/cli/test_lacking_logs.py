"""Logs that died or lost rows: what is there may pass, and the whole does not."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from busbw_testing.compared import nccl_tests_log, write

from busbw.cli.main import main

pytestmark = pytest.mark.usefixtures("home")

MiB = 2**20
NAN = f"{'nan':>8}  {'nan':>6}  {'nan':>6}    N/A"
_ROWS = {MiB: 50.0, 2 * MiB: 60.0, 4 * MiB: 70.0, 8 * MiB: 80.0}


def lines() -> list[str]:
    return nccl_tests_log(_ROWS, 8).splitlines()


def at(size: int) -> int:
    """The line of a size, from 0."""
    return next(number for number, line in enumerate(lines()) if line.split()[:1] == [str(size)])


def without_time(line: str, *, both: bool) -> str:
    kept, side = line[: line.index("-1") + 2], line[line.index("-1") + 2 :]
    return f"{kept}  {NAN}" + (f"  {NAN}" if both else side[len(side) // 2 :])


def died() -> list[str]:
    return [*lines()[: at(4 * MiB)], "node3: Test CUDA failure common.cu:1023 'an illegal memory access'"]


def lost(replacement: Callable[[str], list[str]]) -> list[str]:
    """The log with its row of 4 MiB replaced."""
    row = at(4 * MiB)
    return [*lines()[:row], *replacement(lines()[row]), *lines()[row + 1 :]]


LACKING = [
    (died(), "the test ended with: node3: Test CUDA failure"),
    (lines()[: at(8 * MiB)], "the line with the average is missing"),
    (lost(lambda _: []), "rows are missing or changed"),
    (lost(lambda line: [without_time(line, both=False)]), "time is not a number"),
]


@pytest.mark.parametrize(("log", "why"), LACKING)
def test_what_is_there_passes_and_the_log_is_undecided(
    tmp_path: Path, log: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.log", "\n".join(log) + "\n")
    assert main(["expect", str(path), "--least", "1M=10"]) == 3
    out = capsys.readouterr().out
    assert "# gate     10 GB/s from 1 MiB on: pass" in out
    assert "# note     run.log, line " in out
    assert why in out
    assert main(["expect", str(path), "--least", "1M=55"]) == 1  # a failure is one, whatever else is lost


@pytest.mark.parametrize(("log", "why"), LACKING[:1])
@pytest.mark.parametrize("lacks", [0, 1])
def test_a_gate_of_a_comparison_does_not_pass_either(
    tmp_path: Path, log: list[str], why: str, lacks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sizes that the log lost are in neither side, so that no row is MISSING."""
    path = write(tmp_path / "lacks.log", "\n".join(log) + "\n")
    main(["expect", str(path), "--format", "csv"])
    sizes = {
        int(line.split(",")[4]) for line in capsys.readouterr().out.splitlines() if ",out-of-place," in line
    }
    whole = write(tmp_path / "whole.log", nccl_tests_log({size: _ROWS[size] for size in sizes}, 8))
    both = [whole, whole]
    both[lacks] = path
    known = ("--gate", "--detect", "99%")
    assert main(["compare", str(whole), f"other={whole}", *known]) == 0
    assert main(["compare", *map(str, both), *known]) == 3
    told = capsys.readouterr().out
    assert "# note     lacks.log, line " in told
    assert why in told


def test_what_a_file_lost_of_no_table_is_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of a compressed file is missing; its table is whole."""
    text = "\n".join([*lines(), *("words of another program" + str(i) for i in range(5000))]).encode()
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(text)[:-2000])
    assert main(["import", str(path)]) == 0
    capsys.readouterr()
    for word in (str(path), "last"):
        assert main(["expect", word, "--least", "1M=10"]) == 3
        assert "# note     run.log.gz" in capsys.readouterr().out


def test_a_whole_placement_without_a_time_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {str(size) for size in _ROWS}
    log = [without_time(line, both=False) if line.split()[0] in sizes else line for line in lines()]
    path = write(tmp_path / "run.log", "\n".join(log) + "\n")
    assert main(["expect", str(path), "--least", "1M=10"]) == 3
    out = capsys.readouterr().out
    assert "no row has a time out-of-place" in out
    assert "# cases    4 no reference" in out  # the other placement is judged


def test_the_scaling_view_tells_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "run.log", "\n".join(died()) + "\n")
    assert main(["compare", str(path), "--scaling"]) == 0
    assert "# note     run.log: run.log, line 15: the test ended with" in capsys.readouterr().out


def test_other_output_is_told_and_lost_nothing_where_the_average_is_that_of_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same line in the place of a row is a row that was lost."""
    line = "0 412 55 70 100 40 0 0 0 0 2619 1980"
    beside = write(tmp_path / "beside.log", "\n".join(lost(lambda row: [line, row])) + "\n")
    assert main(["expect", str(beside), "--least", "1M=10"]) == 0
    assert "# note" not in capsys.readouterr().out
    assert main(["import", str(beside)]) == 0
    assert "by the printed average no row is missing" in "".join(capsys.readouterr())
    instead = write(tmp_path / "instead.log", "\n".join(lost(lambda _: [line])) + "\n")
    assert main(["expect", str(instead), "--least", "1M=10"]) == 3
