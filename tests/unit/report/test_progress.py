"""Progress: on a terminal only, with the time left, and lines of others above it."""

from __future__ import annotations

import io

import pytest

from busbw.report.progress import progress, time_left_s
from busbw.terminal import standard_error


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_that_are_left_take_as_long_as_those_before() -> None:
    assert time_left_s(2, 6, 10.0) == 30.0
    assert time_left_s(0, 6, 10.0) is None


@pytest.mark.parametrize("total", [1, 3])
def test_a_terminal_shows_steps_and_what_else_is_printed(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    err = standard_error()
    with progress(total, "launch 1") as step:
        step(1, "launch 2", 83.0)
        print("launch 1 took 42 s", file=err)
    text = terminal.getvalue()
    assert "launch 1 took 42 s\n" in text
    assert ("launch 2 about 1:23 left" in text) == (total == 3)  # one step has no steps left


def test_a_pipe_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(3, "launch 1") as step:
        step(1, "launch 2")
    assert capsys.readouterr() == ("", "")
