"""Flags > BUSBW_ variables > defaults, seen through the command line that is made from the settings."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.cli import main as cli
from busbw.errors import ExitCode
from busbw.settings.run import RunSettings


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Parses a command line; gives operations and settings, and measures nothing."""
    seen: list[tuple[tuple[str, ...], RunSettings]] = []

    def run(operations: tuple[str, ...], settings: RunSettings, argv: tuple[str, ...]) -> ExitCode:
        seen.append((operations, settings))
        return ExitCode.OK

    for name in ("MAXBYTES", "RANKS", "HOT", "SEED", "ROOT", "WORLD", "BACKEND"):
        monkeypatch.delenv(f"BUSBW_{name}", raising=False)
    monkeypatch.setattr("busbw.cli.run.run", run)

    def parse(*words: str) -> tuple[tuple[str, ...], RunSettings]:
        assert cli.main(["run", *words]) == 0
        return seen.pop()

    return parse


def test_without_flags_the_defaults_hold(parsed: Any) -> None:
    assert parsed("all_reduce") == (("all_reduce",), RunSettings())


def test_letters_are_those_of_nccl_tests(parsed: Any) -> None:
    operations, settings = parsed(
        *[
            "all_reduce",
            "all_gather",
            "-b",
            "1K",
            "-e",
            "2K",
            "-f",
            "4",
            "-d",
            "half,float",
            "-o",
            "max",
            "-r",
            "1",
            "-n",
            "20",
            "-w",
            "5",
            "-c",
            "0",
            "--hot",
        ]
    )
    assert operations == ("all_reduce", "all_gather")
    assert settings == RunSettings(
        minbytes="1K",
        maxbytes="2K",
        stepfactor=4.0,
        datatype="half,float",
        op="max",
        root=1,
        iters=20,
        warmup_iters=5,
        check=0,
        hot=True,
    )


def test_operations_may_be_separated_by_commas(parsed: Any) -> None:
    assert parsed("all_reduce,sendrecv", "all_gather")[0] == ("all_reduce", "sendrecv", "all_gather")


def test_a_variable_overrides_a_default(parsed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_MAXBYTES", "4K")
    monkeypatch.setenv("BUSBW_CASE_TIME", "2s")
    monkeypatch.setenv("BUSBW_ITERS", "33")
    settings = parsed("all_reduce")[1]
    assert (settings.maxbytes, settings.case_time, settings.iters) == ("4K", "2s", 33)


def test_a_flag_overrides_a_variable(parsed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_MAXBYTES", "4K")
    monkeypatch.setenv("BUSBW_RANKS", "3")
    settings = parsed("all_reduce", "-e", "8K")[1]
    assert (settings.maxbytes, settings.ranks) == ("8K", 3)


def test_the_address_where_ranks_meet_is_not_the_root_of_a_collective(
    parsed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_ROOT", "10.0.0.1:29500")
    assert parsed("all_reduce")[1].root == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backend", "gloo"], "gloo"),
        (["-n", "many"], "many"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--format", "xml"], "xml"),
    ],
)
def test_a_bad_flag_is_one_error_with_a_hint(
    parsed: Any, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert cli.main(["run", "all_reduce", *words]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert "hint: see `busbw run --help`" in err
    assert "Traceback" not in err


def test_a_bad_variable_is_an_error_too(
    parsed: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_ITERS", "many")
    assert cli.main(["run", "all_reduce"]) == ExitCode.USAGE
    assert "many" in capsys.readouterr().err
