"""Flags > BUSBW_ variables > defaults, seen through the command line that is made from the settings."""

from __future__ import annotations

from typing import Any

import pytest
from cyclopts import Parameter

from busbw.cli import main as cli
from busbw.cli.app import RunCommand
from busbw.errors import ExitCode
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import read_settings


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Parses a command line; gives operations and settings, and measures nothing."""
    seen: list[tuple[tuple[str, ...], RunSettings]] = []

    def run(command: RunCommand) -> ExitCode:
        seen.append((command.operations, command.settings))
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


def test_operations_may_be_separated_by_commas(parsed: Any) -> None:
    assert parsed("all_reduce,sendrecv", "all_gather")[0] == ("all_reduce", "sendrecv", "all_gather")


def test_a_variable_is_under_a_flag_and_over_a_default(parsed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_MAXBYTES", "4K")
    monkeypatch.setenv("BUSBW_CASE_TIME", "2s")
    monkeypatch.setenv("BUSBW_ROOT", "10.0.0.1:29500")  # the address where ranks meet, which is no root
    settings = parsed("all_reduce", "-e", "8K")[1]
    assert (settings.maxbytes, settings.case_time, settings.root) == (8192, 2.0, (0,))
    assert parsed("all_reduce")[1].maxbytes == 4096


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
    expected = read_settings(RunSettings, changed)
    assert expected != RunSettings()
    spellings = {letter, name, name.replace("_", "-")}
    assert [parsed("all_reduce", spelling, value)[1] for spelling in spellings] == [expected] * len(spellings)
    assert parsed("all_reduce", f"{name}={value}")[1] == expected


def test_no_letter_means_two_things() -> None:
    from typing import get_type_hints

    hints = get_type_hints(RunSettings, include_extras=True)
    marks = [mark for hint in hints.values() for mark in getattr(hint, "__metadata__", ())]
    names = [name for mark in marks if isinstance(mark, Parameter) for name in mark.name or ()]
    assert len(names) == len(set(names))


def test_statistics_may_be_given_one_by_one_or_together(parsed: Any) -> None:
    for words in (("--stats", "p50", "p99,cv"), ("--stats", "p50", "--stats", "p99,cv")):
        assert ",".join(parsed("all_reduce", *words)[1].stats) == "p50,p99,cv"
