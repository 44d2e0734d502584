"""Commands on a real terminal: no line is longer than it is wide, and no number is broken."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from busbw_testing.runs import NULL, start
from busbw_testing.terminal import WIDTHS, lines, on_terminal

SWEEP = ("all_reduce", "broadcast", "-b", "4", "-e", "256M", "-f", "64", *NULL)


@pytest.fixture(scope="module")
def measured() -> Iterator[Path]:
    """The home of one run, whose path is short enough for a line."""
    with tempfile.TemporaryDirectory() as folder:
        assert start(Path(folder), "run", *SWEEP).returncode == 0
        yield Path(folder)


@pytest.mark.parametrize("columns", WIDTHS)
def test_show_fits_and_keeps_its_numbers(measured: Path, columns: int) -> None:
    shown = lines(on_terminal(measured, columns, "show"))
    assert max(map(len, shown)) <= columns
    piped = start(measured, "show").stdout.splitlines()
    numbers = [word for line in piped if not line.startswith("#") for word in line.split() if "." in word]
    on_screen = [word for line in shown if not line.startswith("#") for word in line.split()]
    # The full table has one column more with a point, the imbalance.
    assert numbers
    assert {word for word in numbers if word != "0.00"} <= set(on_screen)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "words",
    ["compare {} {} --all", "expect {} --all", "diagnose {}", "show {} --case 0", "presets list"],
)
def test_other_commands_fit(measured: Path, words: str, columns: int) -> None:
    (run, *_) = (path.name for path in measured.iterdir() if path.is_dir())
    shown = lines(on_terminal(measured, columns, *words.format(run, run).split()))
    assert max(map(len, shown)) <= columns
    assert not any(line.startswith("error") for line in shown)


def test_run_fits_with_its_progress(measured: Path) -> None:
    text = lines(on_terminal(measured, 80, "run", "all_gather", "-b", "64M", "-e", "64M", *NULL))
    assert max(map(len, text)) <= 80
    assert any(line.startswith(" 64 MiB out ") for line in text)


def test_wide_shows_all_columns(measured: Path) -> None:
    wide = [line for line in lines(on_terminal(measured, 80, "show", "--wide")) if not line.startswith("#")]
    assert "\n".join(filter(None, wide)) == "\n".join(
        line for line in start(measured, "show").stdout.splitlines() if not line.startswith("#")
    )


def test_colours_are_for_terminals_that_want_them(measured: Path) -> None:
    assert "\x1b[" in on_terminal(measured, 100, "show")
    assert "\x1b[" not in on_terminal(measured, 100, "show", NO_COLOR="1")
    assert "\x1b[" not in start(measured, "show").stdout
