"""Runs the commands that people use most on terminals of several widths, and keeps what these show.

    python tools/make_captures.py          # writes docs/captures/*.txt

A page holds one command at every width, as it stands on the screen when the command has ended. Ranks are
CPUs. What measures runs once, on 100 columns; other widths are its record, shown again.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from busbw_testing.terminal import WIDTHS, on_terminal, screen  # noqa: E402

SWEEP: Final = ("run", "all_reduce", "-b", "1K", "-e", "4M", "-f", "64", "--ranks", "2")
HUNT: Final = ("--ranks", "4", "-b", "64K")
MEASURING: Final = {"run": SWEEP, "isolate": ("isolate", *HUNT), "pairs": ("pairs", *HUNT)}
READING: Final = {
    "help": ("--help",),
    "show": ("show", "{second}"),
    "list": ("list",),
    "compare": ("compare", "{first}", "{second}"),
    "expect": ("expect", "{second}"),
    "diagnose": ("diagnose", "{second}"),
    "presets": ("presets", "list"),
}
FIRST: Final = 100  # columns: what most terminals have


def captures(home: Path) -> Iterator[tuple[str, str]]:
    """The name and text of every page. Commands that read a run read those made here."""
    on_terminal(home, FIRST, *SWEEP)
    names = {"first": newest(home)}
    others = [columns for columns in WIDTHS if columns != FIRST]
    for name, words in MEASURING.items():
        first = part(home, words, FIRST)
        names.setdefault("second", newest(home))
        yield name, "\n".join((first, *(part(home, ("show", newest(home)), columns) for columns in others)))
    for name, words in READING.items():
        given = [word.format(**names) for word in words]
        yield name, "\n".join(part(home, given, columns) for columns in (FIRST, *others))


def newest(home: Path) -> str:
    """The name of the run that was made last."""
    return max(path.name for path in home.iterdir() if path.is_dir())


def part(home: Path, words: Sequence[str], columns: int) -> str:
    """The command, and what it leaves on the screen; places of this machine under names of any."""
    text = "\n".join(screen(on_terminal(home, columns, *words)))
    for place, name in ((str(home), "~/.local/state/busbw"), (sys.prefix, "~/.venv"), (str(ROOT), "~/busbw")):
        text = text.replace(place, name)
    body = re.sub(r"[ ]+$", "", text, flags=re.MULTILINE).rstrip()
    return f"{columns} columns: $ busbw {' '.join(words)}\n{body}\n"


def main() -> None:
    """Write the pages."""
    folder = ROOT / "docs/captures"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        for name, text in captures(Path(home)):
            (folder / f"{name}.txt").write_text(text)
            print(name)


if __name__ == "__main__":
    main()
