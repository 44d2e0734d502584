"""Every ``busbw`` line in a code block of the pages is a command line that busbw takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.commands import COMMANDS
from busbw.cli.main import app, main
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import check_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
# On the page "old command to busbw command", whole commands stand in its tables.
_IN_TABLES = "from-scripts.md"
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The words of the front doors are not cyclopts'.
NAMES = sorted({name for rows in COMMANDS.values() for name in rows} - {"nccl-tests", "nccom-test"})
_COMMAND = re.compile(rf"(?:^|[\s/])busbw\s+((?:{'|'.join(NAMES)}|-).*)$")
# A shell ends a command at these; the rest is another command, a file or a comment.
_END = re.compile(r"\s(?:#|\||>|&&|&).*$")


def commands(page: Path) -> Iterator[list[str]]:
    """The words after ``busbw`` of every command, whatever launcher stands before it."""
    text = page.read_text(encoding="utf-8")
    cells = re.findall(r"`(busbw [^` ]+ [^`]+)`", text) if page.name == _IN_TABLES else []
    for block in (*_FENCE.findall(text), *cells):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.split("&&"):
                yield from _words(part)


def _words(line: str) -> Iterator[list[str]]:
    if line.lstrip().startswith("#"):
        return
    match = _COMMAND.search(_END.sub("", line))
    if match and "..." not in match[1]:
        yield shlex.split(match[1])


ALL = [(page.relative_to(ROOT).as_posix(), words) for page in PAGES for words in commands(page)]


def test_there_are_commands_to_look_at() -> None:
    assert len({page for page, _ in ALL}) >= 5
    assert sum(page.endswith(_IN_TABLES) for page, _ in ALL) > 30
    assert ["run", "all_reduce", "-b", "8", "-e", "64M", "-f", "2"] in [words for _, words in ALL]


@pytest.mark.parametrize(
    ("page", "words"), ALL, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_it_parses(page: str, words: list[str]) -> None:
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    if words[0] == "run":
        settings = bound.kwargs.get("settings") or RunSettings()
        operations = tuple(word for text in bound.args for word in text.split(","))
        # The pages' files (counts, groups, streams) are not there: without ranks nobody looks into them.
        settings = replace(settings, ranks=None)
        if settings.streams:
            settings = replace(settings, streams='text:{"streams": [{"operation": "all_reduce"}]}')
        check_settings(operations, settings)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "-h"], ["devices", "-h"], ["list", "-h"], ["show", "-h"]]
)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_fits_the_terminal_and_keeps_its_examples(
    arguments: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    examples = lines[lines.index("Examples:") + 1 :]
    assert examples[0].startswith("  busbw ")


def test_the_groups_of_run_come_in_the_order_of_work(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "--help-all"])
    told = capsys.readouterr().out
    places = [told.index(f"\n{group}:") for group in ("Sweep", "Method", "Buffers", "Where", "Output")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("words", "most"), [(["--help"], 48), (["run", "--help"], 59), (["isolate", "--help"], 39)]
)
def test_help_is_one_screen(
    words: list[str], most: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    main(words)
    assert len(capsys.readouterr().out.splitlines()) <= most


def test_every_command_is_in_a_group_of_the_help() -> None:
    grouped = {name for rows in COMMANDS.values() for name in rows}
    assert grouped == {name for name in app if not name.startswith("-")} - {"completion"}
