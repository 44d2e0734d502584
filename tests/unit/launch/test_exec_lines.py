"""What a user's command prints, for whoever follows it: on its own stream, and the same for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from busbw_testing.fronts import finish, front, needs_mpich, only_run, record, wait_for, wait_for_run

pytestmark = needs_mpich

EXEC = ("exec", "--on", "hosts")
SAYS = ("sh", "-c", "echo to stdout, $0; echo to stderr, $0; exit $0")


def said(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("to ")]


def test_standard_error_comes_to_standard_error(tmp_path: Path) -> None:
    code, out, err = finish(front(tmp_path, *EXEC, "--", *SAYS, "0"))
    assert (code, out, said(err)) == (0, "to stdout, 0\n" * 2, ["to stderr, 0"] * 2)


def test_every_attach_shows_the_same(tmp_path: Path) -> None:
    """A command that failed ends as in the foreground."""
    assert finish(front(tmp_path, *EXEC, "--detach", "--", *SAYS, "3"))[0] == 0
    for _ in range(2):  # followed to its end, and from what was kept
        code, out, err = finish(front(tmp_path, "attach"))
        assert (code, out, said(err)) == (3, "to stdout, 3\n" * 2, ["to stderr, 3"] * 2), err
    assert record(only_run(tmp_path))["status"] == "failed"


# Ends when its file is there.
WAITS = ("sh", "-c", 'echo to stdout; echo to stderr; while [ ! -e "$0" ]; do sleep 0.05; done; echo end')


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_who_attaches_beside_another_sees_each_line_once(tmp_path: Path, killed: bool) -> None:
    home, gate = tmp_path / "home", tmp_path / "gate"
    first = front(home, *EXEC, "--", *WAITS, str(gate))
    wait_for_run(home)
    wait_for(only_run(home) / "log" / "printed.jsonl", "to stderr")
    second = front(home, "attach")
    assert second.stdout is not None
    seen = [second.stdout.readline() for _ in range(2)]  # while the other one follows
    assert seen == ["to stdout\n"] * 2
    if killed:
        first.kill()
        first.communicate()
    gate.touch()
    code, out, err = finish(second)
    assert code == 0, err
    assert out.splitlines() == ["end", "end"]
    assert said(err) == ["to stderr"] * 2
    if not killed:
        assert finish(first)[0] == 0
