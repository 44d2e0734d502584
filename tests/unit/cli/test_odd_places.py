"""Limits and environments that are odd: an error that says which, and never a traceback."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from busbw_testing.reported import run_folder

from busbw.cli import main as cli
from busbw.errors import ExitCode, SiteError
from busbw.foreign.logs.labels import environment_beside
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.report.curves import spread


def failing(error: BaseException) -> Any:
    def fail(_: list[str]) -> int:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "words", "hint"),
    [
        (OSError(27, "File too large", "/a/run.json"), "/a/run.json: File too large", "ulimit -f"),
        (OSError(24, "Too many open files"), "Too many open files", "ulimit -n"),
        (OSError(28, "No space left", "/a/run.json"), "cannot write /a/run.json: No space", "free space"),
        (PermissionError(13, "Permission denied", "/a"), "/a: Permission denied", "check its permissions"),
        (MemoryError(), "there is not enough memory", "ulimit -v"),
    ],
)
def test_what_the_system_refuses_is_named(
    error: BaseException, words: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(cli, "_dispatch", failing(error))
    assert cli.main(["list"]) == ExitCode.ENVIRONMENT
    said = capsys.readouterr().err
    assert words in said
    assert hint in said


@pytest.mark.parametrize("columns", ["0", "-5", "1", "x", "٣٣"])
def test_a_width_that_cannot_be_is_not_taken(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    cli._settle_output()
    assert "COLUMNS" not in os.environ


def test_letters_that_the_terminal_lacks_are_printed_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", out)
    cli._settle_output()
    print("ä\udcff")
    assert out.buffer.getvalue() == b"\\xe4\\udcff\n"  # type: ignore[attr-defined]


def test_a_user_without_a_home_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from busbw.record.folder import home

    monkeypatch.setattr("pwd.getpwuid", failing(KeyError()))
    with pytest.raises(SiteError, match="has no home folder"):
        home({"HOME": ""})


@pytest.mark.parametrize("setup", ["ring/ll128", "a\0b", "..", "x" * 5000])
def test_a_setup_that_names_no_file_has_no_environment_beside_its_log(tmp_path: Path, setup: str) -> None:
    assert environment_beside(tmp_path / "log", setup) == ({}, "")


def test_times_that_do_not_vary_have_no_plot_of_their_spread() -> None:
    still = SimpleNamespace(samples=8, cv=0.0, result=SimpleNamespace(half_width=0.0))
    cases = [Case(at, "all_reduce", "float", "sum", -1, 8, 8 << at, 2, Placement.IN_PLACE) for at in range(3)]
    assert spread("name", "title", cases, dict.fromkeys(range(3), still)) is None  # type: ignore[arg-type]


def test_a_series_is_named_as_one(home: Path, called: Any) -> None:
    folder = home / "20260101-000000-setups-aaaa"
    folder.mkdir(parents=True)
    (folder / "setups.json").write_text("{}")
    code, out, _ = called(home, "list")
    assert code == 0
    assert out.splitlines()[1].startswith("20260101-000000-setups-aaaa")
    assert "unreadable: " in out
    code, _, err = called(home, "show", "20260101-000000-set", "--ranks")
    assert code == ExitCode.USAGE
    assert "is a series of setups" in err


def test_the_samples_of_launches_are_diagnosed(home: Path, called: Any) -> None:
    name = "20260101-000000-all_reduce-aaaa"
    run_folder(home, name, powers=range(10, 13))
    for number in ("1", "2"):
        run_folder(home / name / "launches", number, powers=range(10, 13))
    for path in (home / name / "samples").iterdir():
        path.unlink()
    _, out, _ = called(home, "diagnose", name, "--format", "json")
    found = {each["check"]: each for each in json.loads(out)["conclusions"]}
    assert found["variance.precision"]["answer"] != "not observable"
    assert "of 2, the worst" in found["ranks.spread"]["evidence"]


def test_a_folder_without_logs_has_nothing_to_compare(home: Path, called: Any, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    (folder / "samples").mkdir(parents=True)
    code, _, err = called(home, "compare", str(folder))
    assert code == ExitCode.USAGE
    assert "do not name two setups" in err
