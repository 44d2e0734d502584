"""Whole texts, compared with files that were looked at.

BUSBW_WRITE_GOLDEN=1 writes the files anew after a change that was meant: look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path


def is_golden(text: str, path: Path) -> None:
    """Fails where the text is not the file's."""
    if os.environ.get("BUSBW_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
