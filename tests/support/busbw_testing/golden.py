"""Whole texts, compared with files that were looked at.

BUSBW_WRITE_GOLDEN=1 writes the files anew after a change that was meant: look at the difference.
"""

from __future__ import annotations

import os
import re
from difflib import unified_diff
from pathlib import Path


def is_golden(text: str, path: Path) -> None:
    """Fails where the text is not the file's."""
    if os.environ.get("BUSBW_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def difference(base: str, text: str) -> str:
    """What differs, as ``diff -U0`` without its heading."""
    lines = list(unified_diff(base.splitlines(), text.splitlines(), n=0, lineterm=""))
    return "".join(f"{line}\n" for line in lines[2:])


def restored(base: str, changes: str) -> str:
    """The text whose ``difference`` from ``base`` that is."""
    lines, found, at = base.splitlines(), list[str](), 0
    for line in changes.splitlines():
        if match := re.match(r"@@ -(\d+)(?:,(\d+))?", line):
            count = int(match[2] or 1)
            first = int(match[1]) - (count > 0)
            found += lines[at:first]
            at = first + count
        elif line.startswith("+"):
            found.append(line[1:])
    return "\n".join((*found, *lines[at:], ""))


def whole(path: Path) -> str:
    """The text of a golden file, or of one that has the difference from the whole one of its kind beside
    it.
    """
    kind = ".".join(path.name.split(".")[-2:])
    texts = [other.read_text() for other in sorted(path.parent.glob(f"*.{kind}"))]
    (base,) = (text for text in texts if text and not text.startswith("@@"))
    text = path.read_text()
    return text if text == base else restored(base, text)
