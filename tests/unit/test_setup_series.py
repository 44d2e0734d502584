"""Series of setups: order, failures, what is not tried again, interrupts, and reading a series back."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare_setups import setup_arms
from busbw.cli.main import main
from busbw.errors import ExitCode, SiteError, UsageError
from busbw.launchers.base import Command, LaunchRequest
from busbw.model.event import Event, EventKind, event
from busbw.planning.setups import Setup, blocks
from busbw.record.folder import LOG_FILE
from busbw.record.write import write_record
from busbw.setup_series import Series, measure, read_all, read_series, with_setup

SETUPS = (Setup("plain"), Setup("tuned", {"A": "1"}), Setup("broken", {"B": "2"}))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    return tmp_path


class Starts:
    """A starter that notes its launches; ``failing`` maps a setup to what happens instead of a good run."""

    def __init__(
        self, failing: dict[str, Callable[[Callable[[Event], None]], ExitCode]] | None = None
    ) -> None:
        self.failing = failing or {}
        self.made: list[tuple[str, int]] = []

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        self.made.append((setup.name, nodes))
        if setup.name in self.failing:
            (folder / LOG_FILE).write_text("\n".join(f"line {i}" for i in range(9)) + "\n\n")
            return self.failing[setup.name](hear)
        write_record(folder, record_of({1024: 10.0 + len(self.made)}, name=folder.name))
        return ExitCode.OK


def died(hear: Callable[[Event], None]) -> ExitCode:
    hear(event(EventKind.ERROR, message="rank 1 died", hint="", exit_code=5))
    return ExitCode.RANK_FAILED


def refused(hear: Callable[[Event], None]) -> ExitCode:
    raise SiteError("no such queue")


def run(start: Starts, count: int = 4, nodes: tuple[int, ...] = ()) -> tuple[Series, str]:
    err = io.StringIO()
    return measure(SETUPS, count, 7, nodes, {}, start, err), err.getvalue()


def test_every_block_is_launched_in_its_order() -> None:
    start = Starts()
    series, _ = run(start)
    order = [name for block in blocks([setup.name for setup in SETUPS], 4, 7) for name in block]
    assert [name for name, _ in start.made] == order
    assert [outcome.block for outcome in series.outcomes] == [block for block in range(4) for _ in SETUPS]


def test_a_series_is_read_back_as_it_was_measured() -> None:
    series, _ = run(Starts())
    again, records = read_series(series.folder)
    assert again == series
    assert len(records) == 12
    assert records[series.outcomes[0].folder].results[0].time_ns == 11_000


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


def test_another_number_of_nodes_is_tried_afresh() -> None:
    start = Starts({"broken": died})
    series, _ = run(start, count=3, nodes=(2, 4))
    assert start.made.count(("broken", 2)) == start.made.count(("broken", 4)) == 2
    assert start.made.count(("plain", 4)) == 3
    assert series.nodes == (2, 4)


def test_an_interrupt_ends_the_series_and_keeps_what_there_is() -> None:
    start = Starts({"tuned": lambda hear: ExitCode.INTERRUPTED})
    series, _ = run(start)
    assert series.stopped == "interrupted"
    assert start.made[-1][0] == "tuned"
    again, _ = read_series(series.folder)
    assert again.stopped == "interrupted"


def test_a_request_that_is_wrong_ends_it_at_once() -> None:
    def wrong(hear: Callable[[Event], None]) -> ExitCode:
        raise UsageError("no such flag")

    with pytest.raises(UsageError, match="no such flag"):
        run(Starts({"plain": wrong}))


def test_wrong_data_are_a_result_not_a_failure() -> None:
    series, _ = run(Starts({"tuned": lambda hear: ExitCode.BAD_VERDICT}))
    assert not any(outcome.error for outcome in series.outcomes)


def test_a_damaged_series_is_refused(tmp_path: Path) -> None:
    series, _ = run(Starts(), count=1)
    (series.folder / "setups.json").write_text('{"schema": 1}')
    with pytest.raises(UsageError, match="cannot read"):
        read_series(series.folder)
    (series.folder / "setups.json").write_text('{"schema": 2}')
    with pytest.raises(UsageError, match="another busbw"):
        read_series(series.folder)


def test_a_setups_variables_go_under_busbws_own() -> None:
    launch = LaunchRequest("local", "mpi", 2, (Command(("mpiexec", "-n", "2"), {"BUSBW_REQUEST": "r"}),))
    (command,) = with_setup(launch, {"A": "1", "BUSBW_REQUEST": "x"}, ("GONE", "TOO")).commands
    assert command.argv == ("env", "-u", "GONE", "-u", "TOO", "mpiexec", "-n", "2")
    assert command.environ == {"A": "1", "BUSBW_REQUEST": "r"}
    (plain,) = with_setup(launch, {}, ()).commands
    assert plain.argv == ("mpiexec", "-n", "2")


def test_no_setup_leaves_its_variables_to_the_next() -> None:
    before = dict(os.environ)
    run(Starts())
    assert dict(os.environ) == before


def test_a_second_series_of_the_same_setups_adds_its_blocks() -> None:
    first, second = run(Starts())[0], run(Starts(), count=3)[0]
    both, records = read_all([first.folder, second.folder])
    assert len(both.order) == 7
    assert len(records) == 21
    assert {outcome.block for outcome in both.outcomes} == set(range(7))
    arms = setup_arms("s", both.names, both.outcomes, records, 0)
    assert all(len(seen.times_ns) == 7 for arm in arms for seen in arm.cases.values())
    other = measure(SETUPS[:2], 1, 7, (), {}, Starts(), io.StringIO())
    with pytest.raises(UsageError, match="has other setups than"):
        read_all([first.folder, other.folder])


def test_a_series_that_was_cut_short_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    series, _ = run(Starts({"broken": lambda hear: ExitCode.INTERRUPTED}))
    assert main(["compare", str(series.folder)]) == 0
    assert "4 blocks in random order, seed 7; CUT SHORT (interrupted) in block 1" in capsys.readouterr().out
    assert main(["compare", str(series.folder), "nobody"]) == 2
