"""What a command of the user's printed (``busbw exec``), kept line by line.

So every ``attach`` shows the same: the words as they were, on the stream that they came by.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from busbw.record.folder import PRINTED_FILE
from busbw.record.results import GrowingFile


@dataclass(frozen=True)
class Line:
    """One line, without its line break; ``is_error``: of standard error, as far as the engine says."""

    text: str
    is_error: bool


class Keeping:
    """Written by the one process that follows the job. An engine gives a job's lines from the first each time
    that it is followed: so the file begins anew.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / PRINTED_FILE
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        self._file = self._path.open("w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def keep(self, line: Line) -> None:
        """At once: others may read along."""
        assert self._file is not None
        self._file.write(json.dumps([line.text, line.is_error]) + "\n")
        self._file.flush()


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
