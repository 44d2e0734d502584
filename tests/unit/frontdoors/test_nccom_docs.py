"""The guide says what the program does: every flag has its support row, every command line in it parses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from busbw.errors import ExitCode
from busbw.frontdoors.nccom_flags import EXAMPLES, FLAGS, OPERANDS
from busbw.frontdoors.nccom_options import parse

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "from-nccom-test.md"
TEXT = PAGE.read_text(encoding="utf-8")
SUPPORT = TEXT.partition("## Support")[2]
LINES = sorted(
    {*re.findall(r"busbw nccom-test (-[^`\n]*)", TEXT), *(e.partition("test ")[2] for e in EXAMPLES)}
)


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_has_its_support(flag: object) -> None:
    name, short = getattr(flag, "name"), getattr(flag, "short")  # noqa: B009
    written = [f"`--{name}`"] + ([f"`-{short}`"] if short else [])
    assert any(word in SUPPORT for word in written), name


def test_every_operation_has_its_support() -> None:
    short = {"all_reduce", "all_gather", "reduce_scatter", "all_gatherv"}
    assert all(f"`{name}`" in SUPPORT for name in set(OPERANDS) - short)


@pytest.mark.parametrize("line", LINES)
def test_command_lines_of_the_page_and_the_help_parse(line: str) -> None:
    assert parse(shlex.split(line)).sizes_bytes


def test_exit_codes_are_those_of_busbw() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert told == {int(code) for code in ExitCode if code is not ExitCode.INTERRUPTED}
