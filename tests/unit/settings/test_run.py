"""Flags > BUSBW_ variables > defaults, seen through the command line that is made from the settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.cli import main as cli
from busbw.errors import ExitCode
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Parses a command line; gives operations and settings, and measures nothing."""
    seen: list[tuple[tuple[str, ...], RunSettings]] = []

    def run(
        operations: tuple[str, ...], settings: RunSettings, launch: LaunchSettings, argv: tuple[str, ...]
    ) -> ExitCode:
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
        root="1",
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
    assert parsed("all_reduce")[1].root == "0"


# Every flag of nccl-tests that busbw has, in its three spellings, and what it sets.
NCCL_TESTS = [
    ("-b", "--minbytes", "1K", {"minbytes": "1K"}),
    ("-e", "--maxbytes", "2K", {"maxbytes": "2K"}),
    ("-i", "--stepbytes", "8", {"stepbytes": "8"}),
    ("-f", "--stepfactor", "3", {"stepfactor": 3.0}),
    ("-n", "--iters", "0", {"iters": 0}),
    ("-m", "--agg_iters", "4", {"agg_iters": 4}),
    ("-w", "--warmup_iters", "2", {"warmup_iters": 2}),
    ("-p", "--parallel_init", "1", {"parallel_init": 1}),
    ("-c", "--check", "3", {"check": 3}),
    ("-o", "--op", "all", {"op": "all"}),
    ("-d", "--datatype", "all", {"datatype": "all"}),
    ("-r", "--root", "-1", {"root": "-1"}),
    ("-z", "--blocking", "2", {"blocking": 2}),
    ("-G", "--cudagraph", "5", {"cudagraph": 5}),
    ("-C", "--report_cputime", "1", {"report_cputime": 1}),
    ("-S", "--report_timestamps", "1", {"report_timestamps": 1}),
    ("-M", "--memory", "1", {"memory": 1}),
    ("-a", "--average", "0", {"average": 0}),
    ("-R", "--local_register", "2", {"local_register": 2}),
    ("-T", "--timeout", "1.5", {"timeout": 1.5}),
    ("-u", "--unalign", "1", {"unalign": 1}),
]


@pytest.mark.parametrize(
    ("letter", "name", "value", "changed"), NCCL_TESTS, ids=[row[0] for row in NCCL_TESTS]
)
def test_a_command_line_of_nccl_tests_means_the_same(
    parsed: Any, letter: str, name: str, value: str, changed: dict[str, object]
) -> None:
    expected = replace(RunSettings(), **changed)  # type: ignore[arg-type]
    assert expected != RunSettings()
    spellings = {letter, name, name.replace("_", "-")}
    assert [parsed("all_reduce", spelling, value)[1] for spelling in spellings] == [expected] * len(spellings)
    assert parsed("all_reduce", f"{name}={value}")[1] == expected


def test_no_letter_means_two_things() -> None:
    from typing import get_type_hints

    hints = get_type_hints(RunSettings, include_extras=True)
    names = [name for hint in hints.values() for name in hint.__metadata__[0].name or ()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "words",
    [
        ("--stats", "p50", "p99,cv"),
        ("--stats", "p50", "--stats", "p99,cv"),
        ("--stats=p50", "--stats=p99,cv"),
    ],
)
def test_statistics_may_be_given_one_by_one_or_together(parsed: Any, words: tuple[str, ...]) -> None:
    assert ",".join(parsed("all_reduce", *words)[1].stats) == "p50,p99,cv"


def test_the_words_of_modes(parsed: Any) -> None:
    settings = parsed(
        "barrier", "--mode", "latency", "--time", "span", "--arrival", "late-one", "--buffers", "host"
    )[1]
    assert (settings.mode, settings.time, settings.arrival, settings.buffers) == (
        "latency",
        "span",
        "late-one",
        "host",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backend", "gloo"], "gloo"),
        (["-n", "many"], "many"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--format", "xml"], "xml"),
        (["--mode", "fast"], "fast"),
        (["--time", "median"], "median"),
        (["--arrival", "never"], "never"),
        (["--buffers", "shared"], "shared"),
        (["-m", "two"], "two"),
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
