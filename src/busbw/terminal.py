"""The way of all text to a terminal, and lines that fit it.

Names of hosts and files, labels and lines of logs come from strangers. What could move a cursor, set a title
or turn the direction of writing is taken out of all of it here, whatever command prints it.
"""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, TextIO, cast

from busbw.redact import redact_text

_BIDI: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
# C0 and C1 with DEL, and what turns the direction of writing; line ends and tabs stay.
_UNPRINTABLE: Final = {
    code: None
    for code in (*(code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"), *_BIDI)
    if chr(code) not in "\n\t"
}


def printable(text: str) -> str:
    """The text without control characters and without what turns the direction of writing."""
    return text if text.isascii() and text.isprintable() else text.translate(_UNPRINTABLE)


class Screen:
    """A text stream whose text passes ``clean``; all else is the stream's own."""

    def __init__(self, stream: TextIO, clean: Callable[[str], str] = printable) -> None:
        self.stream = stream
        self._clean = clean

    def write(self, text: str) -> int:
        """As of a text stream."""
        self.stream.write(self._clean(text))
        return len(text)

    def writelines(self, lines: Any) -> None:  # noqa: ANN401 (as of a text stream)
        """As of a text stream."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever a stream has)
        return getattr(self.stream, name)


def own_controls(stream: TextIO) -> TextIO:
    """The stream for control characters of our own, as those of a progress bar and of colours."""
    return own_controls(stream.stream) if isinstance(stream, Screen) else stream


# Words with wide gaps: the last column goes on. A line with a label, and a message, go on below their text.
_LABELS: Final = re.compile(r".*\S {2,}|# \S{8} |# [\w<]+: |# *|(?:error|hint|warning|note): | *")
_MESSAGE: Final = re.compile(r"error: |hint: |warning: |note: |submitted \w+ job |job \S+: ")
_LEAST_COLUMNS: Final = 20
_PATHS_INDENT: Final = 4  # of what goes on below, where a path in it needs the room


def fit(line: str, width: int) -> Iterator[str]:
    """The line, continued below its text where it is longer; no word is cut, so that it can be copied."""
    if len(line) <= width:
        yield line
        return
    labels = _LABELS.match(line, 0, width // 2)
    start = labels.end() if labels is not None else 0
    longest = max(map(len, line.split()))
    indent = start
    if start + longest > width >= longest + 2:
        indent = min(_PATHS_INDENT, width - longest)
    under = ("#" if line.startswith("#") else "").ljust(indent)
    first, text = line[:start], line[start:]
    if indent < start and start + len(text.split()[0]) > width:
        yield first.rstrip()
        first = under
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=under,
        break_long_words=False,
        break_on_hyphens=False,
    )


def has_unicode(stream: TextIO) -> bool:
    """Whether it is a terminal that shows more letters than ASCII."""
    return stream.isatty() and (stream.encoding or "").lower().startswith("utf")


def _width(stream: TextIO | None) -> int:
    """Columns of the terminal that a stream goes to; 0 where it goes elsewhere."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
    except (OSError, ValueError):
        return 0


@contextmanager
def screens() -> Iterator[None]:
    """Standard output and error of this process as Screens. Messages may quote anything: no secret passes."""

    def message(text: str) -> str:
        text = printable(redact_text(text))
        width = _width(sys.__stderr__) if len(text) > _LEAST_COLUMNS else 0
        if width < _LEAST_COLUMNS:
            return text
        # What a user's own command prints stays as it is.
        lines = (fit(line, width) if _MESSAGE.match(line) else (line,) for line in text.split("\n"))
        return "\n".join(part for line in lines for part in line)

    out = sys.stdout and cast("TextIO", Screen(sys.stdout))
    err = sys.stderr and cast("TextIO", Screen(sys.stderr, message))
    with redirect_stdout(out), redirect_stderr(err):
        yield


class _StandardError(io.TextIOBase):
    """Standard error as it is when something is written: a line of progress takes its place for a while."""

    def write(self, text: str) -> int:
        return sys.stderr.write(redact_text(text))

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def standard_error() -> TextIO:
    """Standard error for whoever keeps it, and prints while progress is shown."""
    return cast("TextIO", _StandardError())
