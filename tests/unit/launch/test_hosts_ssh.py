"""What a setup script may do before the agent and the ranks start."""

from __future__ import annotations

import os
import subprocess

import pytest

from busbw.launch.command import setup_failure
from busbw.launch.hosts.ssh import after_setup

SHOW = ("sh", "-c", 'echo "$A|$1|$(cat)"', "sh", "it's $(one)\ntwo")


def run(setup: str) -> tuple[int, str, str]:
    done = subprocess.run(after_setup(setup, SHOW), input="in", capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "setup",
    [
        "export A='b c'\nreturn 0\nexport A=late",
        "declare -x A='b c'; [ -n \"$A\" ] && return",
        "f() { export A='b c'; }; f; set -- other words",
        "set -eu; export A='b c' # the end",
    ],
)
def test_a_setup_script_is_sourced(setup: str) -> None:
    """It may return, what it exports is kept, and neither words nor standard input of others are its own."""
    assert run(setup) == (0, "b c|it's $(one)\ntwo|in\n", "")


@pytest.mark.parametrize(("setup", "code"), [("return 3", 3), ("exit 4", 4), ("set -e; false; true", 1)])
def test_one_that_fails_starts_nothing(setup: str, code: int) -> None:
    found, out, err = run(setup)
    said = f"the setup script ended with exit code {code} on {os.uname().nodename}"
    assert (found, out, setup_failure(err.splitlines())) == (code, "", said)


def test_without_one_nothing_is_put_before() -> None:
    assert after_setup("", SHOW) == SHOW
