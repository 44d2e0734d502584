"""What a command of the user's printed (``busbw exec``), kept line by line.

So every ``attach`` shows the same: the words as they were, on the stream that they came by.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from busbw.record.folder import PRINTED_FILE
from busbw.record.results import GrowingFile


@dataclass(frozen=True)
class Line:
    """One line, without its line break; ``is_error``: of standard error, as far as the engine says."""

    text: str
    is_error: bool


@contextmanager
def keeping(folder: Path) -> Iterator[Callable[[Line], None]]:
    """What keeps a line at once, for the one process that follows the job. An engine gives a job's lines from
    the first each time that it is followed: so the file begins anew.
    """
    with (folder / PRINTED_FILE).open("w") as file:

        def keep(line: Line) -> None:
            file.write(json.dumps([line.text, line.is_error]) + "\n")
            file.flush()  # others read along

        yield keep


class Reading:
    """For the one that shows the lines: each once, also where another process begins to follow in between."""

    def __init__(self, folder: Path) -> None:
        self._file = GrowingFile(folder / PRINTED_FILE)
        self._shown: Counter[Line] = Counter()

    def new(self) -> Iterator[Line]:
        """The lines that came since, those without an end yet left out."""
        for raw in self._file.new_lines():
            line = Line(*json.loads(raw))
            self._shown[line] += 1
            yield line

    def is_new(self, line: Line) -> bool:
        """Whether a line that the engine gives (again) was not read here before."""
        if self._shown[line]:
            self._shown[line] -= 1
            return False
        return True
