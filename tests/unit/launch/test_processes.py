from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from busbw.errors import SiteError
from busbw.launch.base import Command
from busbw.launch.processes import Exit, Line, Processes


def shells(*scripts: str) -> list[Command]:
    return [Command(("sh", "-c", script), {"NUMBER": str(i)}) for i, script in enumerate(scripts)]


def gone(pid: int) -> bool:
    """Whether it is, soon: a process that was killed still has to be taken down."""
    for _ in range(50):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_lines_and_exits_in_order() -> None:
    with Processes(shells("echo one $NUMBER; echo oops >&2; printf half; exit 3", "kill -9 $$")) as processes:
        items = [item for item in processes.follow() if item is not None]
    lines = {item for item in items if isinstance(item, Line)}
    assert lines == {Line(0, "one 0", False), Line(0, "oops", True), Line(0, "half", False)}
    exits = {item.process: item.code for item in items if isinstance(item, Exit)}
    assert exits == {0: 3, 1: -9}
    assert isinstance([item for item in items if getattr(item, "process", 0) == 0][-1], Exit)


def test_an_end_is_seen_at_once_where_the_pipes_were_closed_before() -> None:
    start = time.monotonic()
    with Processes(shells("exec >&- 2>&-; sleep 0.2; exit 4")) as processes:
        items = [item for item in processes.follow(lambda: 100.0) if item is not None]
    assert [item.code for item in items if isinstance(item, Exit)] == [4]
    assert time.monotonic() - start < 60


def test_much_output_and_no_utf8() -> None:
    script = "import sys; sys.stdout.buffer.write((b'x' * 99 + b'\\n') * 20000 + b'\\xff\\n')"
    with Processes([Command((sys.executable, "-c", script))]) as processes:
        lines = [item.text for item in processes.follow() if isinstance(item, Line)]
    assert len(lines) == 20001
    assert lines[-1] == "\ufffd"


def test_end_takes_the_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.launch.processes._GRACE_SECONDS", 60.0)
    with Processes(shells("sleep 100 & echo $!; wait")) as processes:
        child = next(int(item.text) for item in processes.follow() if isinstance(item, Line))
        start = time.monotonic()
    assert time.monotonic() - start < 30
    assert gone(child)


def test_end_insists_where_a_process_does_not_listen() -> None:
    insisted = Mock(return_value=True)
    with Processes(shells("trap '' TERM; echo ready; while :; do sleep 0.05; done"), insisted) as processes:
        assert next(item for item in processes.follow() if item) == Line(0, "ready", False)
        (pid,) = processes.pids
    insisted.assert_called()
    assert gone(pid)


def test_a_process_that_hangs_in_its_driver_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here it is one that no signal reaches."""
    monkeypatch.setattr("busbw.launch.processes._GRACE_SECONDS", 0.1)
    monkeypatch.setattr("busbw.launch.processes._KILLED_SECONDS", 0.1)
    processes = Processes(shells("sleep 60"))
    (process,) = processes._processes
    with monkeypatch.context() as patched:
        patched.setattr("busbw.launch.processes.signal_group", lambda process, number: None)
        start = time.monotonic()
        processes.end()
    assert time.monotonic() - start < 30
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_stopped_process_hears_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.launch.processes._GRACE_SECONDS", 60.0)
    with Processes(
        shells("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    ) as processes:
        next(item for item in processes.follow() if item)
        os.kill(processes.pids[0], signal.SIGSTOP)
        start = time.monotonic()
    assert time.monotonic() - start < 30


def test_a_command_that_is_not_there() -> None:
    commands = [Command(("sleep", "100")), Command(("/nonexistent/mpiexec",))]
    with pytest.raises(SiteError, match="cannot start /nonexistent/mpiexec: No such file"):
        Processes(commands)
