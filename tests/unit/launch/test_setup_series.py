"""Series of setups: order, failures, what is not tried again, interrupts, and reading a series back."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw.cli.main import main
from busbw.errors import ExitCode, SiteError, UsageError
from busbw.judge.compare_setups import setup_arms
from busbw.launch.base import Command, LaunchRequest
from busbw.launch.series import Series, create_series, measure, read_all, read_series
from busbw.launch.series_plan import prepended
from busbw.model.event import Event, EventKind, event
from busbw.model.result import Status
from busbw.plan.flags import engines
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.setups import Setup, blocks
from busbw.record.folder import LOG_FILE
from busbw.record.write import write_record

SETUPS = (Setup("plain"), Setup("tuned", {"A": "1"}), Setup("broken", {"B": "2"}))


def test_what_an_engines_ranks_get_before_their_own() -> None:
    setup = Setup("s", {"A": "1"}, {"LD_LIBRARY_PATH": "/setup", "PATH": "/bin"})
    launch = LaunchSettings(on="slurm", library_path=("/a", "/b"))
    assert prepended(setup, launch, {"PATH": "/all"}) == {"LD_LIBRARY_PATH": "/setup:/a:/b"}
    assert prepended(setup, launch, {"LD_LIBRARY_PATH": "/all"}) == {"PATH": "/bin"}
    whole = Setup("s", {"LD_LIBRARY_PATH": "/whole"})
    assert prepended(whole, launch, {}) == {}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    return tmp_path


# What hydra says of a rank that a signal ended.
BANNER = "=" * 80
HYDRA_SIGNAL = f"""
{BANNER}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
{BANNER}
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
Please see the FAQ page for debugging suggestions
"""


class Starts:
    """A starter that notes its launches, each a microsecond longer than the last by ``step_us``; ``failing``
    maps a setup to what happens instead of a good run, ``log`` is what that prints, and ``fields`` are those
    of the records.
    """

    def __init__(
        self,
        failing: dict[str, Callable[[Callable[[Event], None]], ExitCode]] | None = None,
        log: str = "".join(f"line {i}\n" for i in range(9)),
        step_us: float = 1.0,
        **fields: Any,
    ) -> None:
        self.failing, self.log, self.step_us, self.fields = failing or {}, log, step_us, fields
        self.made: list[tuple[str, int]] = []

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        self.made.append((setup.name, nodes))
        if setup.name in self.failing:
            (folder / LOG_FILE).write_text(f"{self.log}\n")
            return self.failing[setup.name](hear)
        time_us = 10.0 + self.step_us * len(self.made)
        write_record(folder, record_of({1024: time_us}, name=folder.name, **self.fields))
        return ExitCode.OK


def died(hear: Callable[[Event], None]) -> ExitCode:
    hear(event(EventKind.ERROR, message="rank 1 died", hint="", exit_code=5))
    return ExitCode.RANK_FAILED


def refused(hear: Callable[[Event], None]) -> ExitCode:
    raise SiteError("no such queue")


def run(start: Starts, count: int = 4, nodes: tuple[int, ...] = ()) -> tuple[Series, str]:
    err = io.StringIO()
    return measure(create_series(SETUPS, count, 7, nodes, {}), start, err), err.getvalue()


def test_every_block_is_launched_in_its_order() -> None:
    start = Starts()
    series, _ = run(start)
    order = [name for block in blocks([setup.name for setup in SETUPS], 4, 7) for name in block]
    assert [name for name, _ in start.made] == order
    assert [outcome.block for outcome in series.outcomes] == [block for block in range(4) for _ in SETUPS]


def test_a_setup_that_has_lost_is_launched_no_more_from_the_next_block_on() -> None:
    start, asked = Starts(), []

    def losers(series: Series) -> frozenset[str]:
        asked.append(len(series.outcomes))
        return frozenset({"broken"} if len(asked) == 2 else {"tuned"})

    series = measure(create_series(SETUPS, 3, 7, (), {}), start, io.StringIO(), losers=losers)
    assert asked == [3, 6]  # at the end of every block
    names = [name for name, _ in start.made]
    assert [names.count(setup.name) for setup in SETUPS] == [3, 2, 2]
    assert [outcome.setup for outcome in series.outcomes if outcome.skipped] == ["tuned", "broken"]


def test_a_finding_is_told_with_its_launch_and_once() -> None:
    def warned(hear: Callable[[Event], None]) -> ExitCode:
        finding = {"severity": "warning", "claim": "LD_LIBRARY_PATH: unset on rank 1 (h3)", "evidence": "e"}
        hear(event(EventKind.FINDING, finding={**finding, "hint": ""}))
        return ExitCode.UNDECIDED

    _, err = run(Starts({"tuned": warned, "broken": warned}))
    assert err.count("LD_LIBRARY_PATH: unset on rank 1 (h3)") == 1
    place = err[: err.index("LD_LIBRARY_PATH")].splitlines()[-2]
    assert place.startswith("block 1 of 4, ")


@pytest.mark.parametrize(("how", "error"), [(died, "rank 1 died"), (refused, "no such queue")])
def test_a_setup_that_fails_twice_is_not_tried_again(how: object, error: str) -> None:
    start = Starts({"broken": how})  # type: ignore[dict-item]
    series, told = run(start)
    own = [outcome for outcome in series.outcomes if outcome.setup == "broken"]
    assert [outcome.error for outcome in own] == [error, error, "", ""]
    assert [outcome.skipped for outcome in own] == [False, False, True, True]
    assert own[0].words == tuple(f"line {i}" for i in range(4, 9))
    assert [name for name, _ in start.made].count("broken") == 2
    assert told.count("not tried again") == 2
    assert sum(not outcome.error and not outcome.skipped for outcome in series.outcomes) == 8


@pytest.mark.parametrize(
    ("before", "word"),
    [("no lock\n", "no lock"), ("", "Please see the FAQ page for debugging suggestions")],
)
def test_a_launchers_banner_is_shown_where_no_rank_said_anything(before: str, word: str) -> None:
    series, _ = run(Starts({setup.name: died for setup in SETUPS}, before + HYDRA_SIGNAL), count=1)
    assert series.outcomes[0].words[-1] == word


def test_another_number_of_nodes_is_tried_afresh() -> None:
    start = Starts({"broken": died})
    series, _ = run(start, count=3, nodes=(2, 4))
    assert start.made.count(("broken", 2)) == start.made.count(("broken", 4)) == 2
    assert start.made.count(("plain", 4)) == 3
    assert series.nodes == (2, 4)


class Writer(io.StringIO):
    """A terminal at which the user presses Ctrl-C while the end of a launch is told."""

    def __init__(self, launches: int) -> None:
        super().__init__()
        self.left = launches

    def write(self, text: str) -> int:
        self.left -= text.startswith("block ")
        if not self.left:
            self.left = -1
            raise KeyboardInterrupt
        return super().write(text)


def test_an_interrupt_between_two_launches_does_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said nothing of the series, so nobody knew what to go on with."""
    start = Starts()
    series = measure(create_series(SETUPS, 4, 7, (), {}), start, Writer(3))
    assert (series.stopped, len(series.outcomes), len(start.made)) == ("interrupted", 2, 3)
    again, records = read_series(series.folder)
    assert (again, len(records)) == (series, 2)
    spec = tmp_path / "setups.yaml"
    spec.write_text("setups: {plain: {}, tuned: {env: {A: x}}}")
    monkeypatch.setattr("busbw.cli.compare_setups.starter", lambda _: start)
    monkeypatch.setattr("sys.stderr", told := Writer(3))
    assert main(["compare", str(spec), "--ops", "all_reduce"]) == ExitCode.INTERRUPTED
    (folder,) = (path.parent for path in tmp_path.glob("*/setups.json") if path.parent != series.folder)
    assert f"series   {folder}" in told.getvalue()
    assert "CUT SHORT (interrupted): 2 of 24 launches" in capsys.readouterr().out


def test_a_request_that_is_wrong_ends_it_at_once() -> None:
    def wrong(hear: Callable[[Event], None]) -> ExitCode:
        raise UsageError("no such flag")

    with pytest.raises(UsageError, match="no such flag"):
        run(Starts({"plain": wrong}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema": 1}', "setups: field required"),
        ('{"schema": 2}', "another version of busbw"),
        ('{"schema": 1, "more": 3}', "more is an unknown key"),
        ("[1]", "setups.json"),
    ],
)
def test_a_damaged_series_is_refused(text: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    series, _ = run(Starts(), count=1)
    (series.folder / "setups.json").write_text(text)
    assert main(["compare", str(series.folder)]) == 2
    assert why in capsys.readouterr().err


def test_a_setups_variables_go_under_busbws_own() -> None:
    launch = LaunchRequest("mpi", 2, (Command(("mpiexec", "-n", "2"), {"BUSBW_REQUEST": "r"}),))
    (command,) = launch.given({"A": "1", "BUSBW_REQUEST": "x"}, {}, ("GONE", "TOO")).commands
    assert command.argv == ("env", "-u", "GONE", "-u", "TOO", "mpiexec", "-n", "2")
    assert command.environ == {"A": "1", "BUSBW_REQUEST": "r"}
    (plain,) = launch.given({}, {}).commands
    assert plain.argv == ("mpiexec", "-n", "2")


def test_a_second_series_of_the_same_setups_adds_its_blocks() -> None:
    first, second = run(Starts())[0], run(Starts(), count=3)[0]
    both, records = read_all([first.folder, second.folder])
    assert len(both.order) == 7
    assert len(records) == 21
    assert {outcome.block for outcome in both.outcomes} == set(range(7))
    arms = setup_arms("s", both.names, both.outcomes, records, 0)
    assert all(len(seen.times_ns) == 7 for arm in arms for seen in arm.cases.values())
    other = measure(create_series(SETUPS[:2], 1, 7, (), {}), Starts(), io.StringIO())
    with pytest.raises(UsageError, match="has other setups than"):
        read_all([first.folder, other.folder])


def test_an_interrupt_is_not_charged_to_the_setup_that_was_running() -> None:
    series, _ = run(Starts({"tuned": lambda hear: ExitCode.INTERRUPTED}))
    assert not any(outcome.error for outcome in series.outcomes)
    assert "tuned" not in [outcome.setup for outcome in series.outcomes]
    assert series.stopped == read_series(series.folder)[0].stopped == "interrupted"


def test_a_killed_series_of_equal_setups_does_not_pass_its_gate(capsys: pytest.CaptureFixture[str]) -> None:
    series = measure(create_series(SETUPS[:2], 8, 7, (), {}), Starts(step_us=0.0), io.StringIO())
    assert main(["compare", str(series.folder), "--gate"]) == 0
    body = json.loads((series.folder / "setups.json").read_text())
    (series.folder / "setups.json").write_text(json.dumps({**body, "outcomes": body["outcomes"][:-2]}))
    assert main(["compare", str(series.folder), "--gate"]) == 3
    assert "CUT SHORT (unfinished: its busbw process was killed, or still measures): 14 of 16 launches" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"ranks": 4}, "ranks: 2 and 4"),
        ({"version": "5.0.3"}, "version: MPI 5.0.2 and MPI 5.0.3"),
        ({"operation": "alltoall"}, "operations: all_reduce and alltoall"),
    ],
)
def test_series_of_other_worlds_are_not_one(fields: dict[str, Any], differs: str) -> None:
    first = run(Starts())[0]
    second = measure(create_series(SETUPS, 2, 8, (), {}), Starts(**fields), io.StringIO())
    with pytest.raises(UsageError, match=f"are not one measurement.*{differs}"):
        read_all([first.folder, second.folder])


def test_a_series_counts_once(home: Path) -> None:
    series, _ = run(Starts())
    link = home / "link"
    link.symlink_to(series.folder)
    for again in (series.folder, link):
        with pytest.raises(UsageError, match="once more: its blocks count once"):
            read_all([series.folder, again])


def test_wrong_data_are_said_as_the_launch_ends_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 0

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        nonlocal count
        count += setup.name == "tuned"
        made = record_of({1024: 10.0 if setup.name == "plain" else 5.0}, name=folder.name)
        is_wrong = setup.name == "tuned" and count in (3, 7)
        if is_wrong:
            bad = dataclasses.replace(made.results[0], status=Status.WRONG, wrong=5)
            made = dataclasses.replace(made, results=(bad,))
        write_record(folder, made)
        return ExitCode.BAD_VERDICT if is_wrong else ExitCode.OK

    err = io.StringIO()
    series = measure(create_series(SETUPS[:2], 10, 7, (), {}), start, err)
    assert err.getvalue().count("WRONG DATA") == 2
    env = tmp_path / "best.env"
    assert main(["compare", str(series.folder), "--gate", "--save-env", str(env)]) == 1
    told = capsys.readouterr().out
    assert "tuned: 10 of 10 launches completed; WRONG DATA in 2 of them" in told
    assert "failed: wrong data in 2 of 10 launches: 5 wrong elements" in told
    assert "take     plain for" in told
    assert "setup plain" in env.read_text()
    words = ("--save-env", str(tmp_path / "tuned.env"), "--export-setup", "tuned")
    assert main(["compare", str(series.folder), *words]) == 1
    assert "tuned.env is not written: setup tuned had wrong data in 2 of 10" in capsys.readouterr().err
    assert not (tmp_path / "tuned.env").exists()


@pytest.mark.parametrize("dry", [True, False])
def test_what_an_engine_cannot_do_is_refused_before_the_first_launch(
    home: Path, dry: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(engines.ENGINES, "hosts", engines.EngineRow("busbw_testing.here_engine"))
    spec = home / "s.yaml"
    spec.write_text("setups: {plain: {env: {A: b}}, other: {extends: plain, unset: [A]}}")
    words = ("--ops", "all_reduce", "--on", "hosts", "-N", "1", *(["--dry-run"] if dry else []))
    assert main(["compare", str(spec), *words]) == 2
    assert "setup other unsets A, which --on hosts cannot" in capsys.readouterr().err
    assert not list(home.glob("*setups*"))


def test_a_series_in_a_pbs_job_is_on_the_jobs_hosts(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(engines.ENGINES, "hosts", engines.EngineRow("busbw_testing.here_engine"))
    (home / "nodes").write_text("a\na\nb\n")
    monkeypatch.setenv("PBS_NODEFILE", str(home / "nodes"))
    spec = home / "s.yaml"
    spec.write_text("setups: {plain: {}, other: {env: {A: b}}}")
    words = ("--ops", "all_reduce", "--on", "hosts", "--blocks", "2")
    assert main(["compare", str(spec), *words, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert told.err.count("2 hosts with 3 slots, from PBS_NODEFILE") == 1
    assert "# 4 launches in 2 blocks" in told.out


def test_a_setup_that_no_launch_could_be_is_named_before_the_first(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = home / "s.yaml"
    spec.write_text("setups: {plain: {}, odd: {flags: {unalign: -1}}}")
    assert main(["compare", str(spec), "--ops", "all_reduce", "--ranks", "2", "--dry-run"]) == 2
    assert "setups: odd: flags: -u -1 is too small" in capsys.readouterr().err
