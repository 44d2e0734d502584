"""The page "old command to busbw command": what it names is there, and every command is taken."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from busbw.cli.main import app
from busbw.plan.presets.preset import names

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guides" / "from-scripts.md").read_text(encoding="utf-8")
_CODE = re.compile(r"`(busbw [^`]+)`")
_DOORS = ("nccl-tests", "nccom-test")  # their words are not cyclopts'
COMMANDS = [found for found in _CODE.findall(TEXT) if shlex.split(found)[1] not in _DOORS]


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_parses(command: str) -> None:
    words = shlex.split(command)[1:]
    app.parse_args(words, exit_on_error=False, print_error=False)
    for name in re.findall(r"\b(\w+\.yaml)\b", command):
        assert (ROOT / "examples" / "setups" / name).is_file()


def test_every_preset_is_there() -> None:
    named = set(re.findall(r"\b((?:aws|alcf|coreweave)/[\w.-]*\w(?:@[\d-]+\d)?)", TEXT)) - OTHER
    known = set(names())
    assert {name.partition("@")[0] for name in named} <= known
    assert len(named) > 8


# Repositories, which look like presets.
OTHER = {"coreweave/nccl-tests"}
