"""Runs the commands that people use most on terminals of several widths, and keeps what these show.

    python tools/make_captures.py          # writes docs/captures/*.txt

The pages are text, as it stands on the screen when a command has ended. They measure CPU ranks.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from busbw_testing.terminal import on_terminal, screen  # noqa: E402

SWEEP: Final = ("run", "all_reduce", "-b", "1K", "-e", "4M", "-f", "64", "--ranks", "2")
HUNT: Final = ("--ranks", "4", "-b", "64K")
COMMANDS: Final = {
    "help": ("--help",),
    "run": SWEEP,
    "show": ("show", "last"),
    "list": ("list",),
    "compare": ("compare", "{first}", "{second}"),
    "compare-all": ("compare", "{first}", "{second}", "--all"),
    "expect": ("expect", "{second}"),
    "diagnose": ("diagnose", "{second}"),
    "pairs": ("pairs", *HUNT),
    "isolate": ("isolate", *HUNT),
    "presets": ("presets", "list"),
}
COLUMNS: Final = 100
OTHER_COLUMNS: Final = (80, 120, 200)


def captures(home: Path) -> Iterator[tuple[str, str]]:
    """The name and text of every page. Commands that read a run read those made here."""
    on_terminal(home, COLUMNS, *SWEEP)
    first = newest(home)
    for name, words in COMMANDS.items():
        named = {"first": first, "second": newest(home, of="all_reduce")}
        given = [word.format(**named) for word in words]
        yield name, page(home, given, COLUMNS)
        if name == "show":
            for columns in OTHER_COLUMNS:
                yield f"{name}-{columns}", page(home, given, columns)


def newest(home: Path, of: str = "") -> str:
    """The name of the run that was made last."""
    return max(path.name for path in home.iterdir() if path.is_dir() and of in path.name)


def page(home: Path, words: list[str], columns: int) -> str:
    """The command, and what it leaves on the screen; places of this machine under names of any."""
    text = "\n".join(screen(on_terminal(home, columns, *words)))
    for place, name in ((str(home), "~/.local/state/busbw"), (sys.prefix, "~/.venv"), (str(ROOT), "~/busbw")):
        text = text.replace(place, name)
    return f"$ busbw {' '.join(words)}\n{re.sub(r'[ ]+$', '', text, flags=re.MULTILINE).rstrip()}\n"


def main() -> None:
    """Write the pages."""
    folder = ROOT / "docs/captures"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        for name, text in captures(Path(home)):
            (folder / f"{name}.txt").write_text(text)
            print(f"{name}: {max(map(len, text.splitlines()[1:]), default=0)} columns")


if __name__ == "__main__":
    main()
