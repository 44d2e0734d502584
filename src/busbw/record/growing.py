"""A file that another process appends lines to, read along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class GrowingFile:
    """The lines of a file, each once, from the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_lines(self) -> Iterator[bytes]:
        """The lines that came since; one whose end is still to come waits for it, as does a file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from whole.splitlines()
