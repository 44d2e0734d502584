"""A command on a real terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from busbw_testing.environ import clean_environ

WIDTHS: Final = (80, 100, 120, 200)
_ROWS: Final = 50
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(home: Path, columns: int, *words: str, through: Sequence[str] = (), **variables: str) -> str:
    """What a command wrote to a terminal of so many columns, its control characters too. ``through`` are the
    words of another command that starts it.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    environ = clean_environ(BUSBW_HOME=str(home), TERM="xterm-256color", **variables)
    for name in ("COLUMNS", "LINES", *({"NO_COLOR", "FORCE_COLOR"} - set(variables))):
        environ.pop(name, None)
    with subprocess.Popen(
        [*through, sys.executable, "-m", "busbw", *words],
        env=environ,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    ):
        os.close(follower)
        text = b"".join(_pieces(leader))
    os.close(leader)
    return text.decode()


def _pieces(leader: int) -> list[bytes]:
    pieces = []
    try:
        while piece := os.read(leader, 1 << 16):
            pieces.append(piece)
    except OSError:  # the last process has closed the terminal
        pass
    return pieces


def lines(text: str) -> list[str]:
    """As they stood on the screen, one after the other, without colours."""
    return re.split(r"\r?\n|\r", _CONTROL.sub("", text))


_STEP: Final = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[[^A-Za-z]*[A-Za-z]|(\r)|(\n)|([^\x1b\r\n]+)")


def screen(text: str) -> list[str]:
    """What is left on the terminal at the end: progress that was written over is gone."""
    shown, row, column = [""], 0, 0
    for number, control, start, end, words in _STEP.findall(text):
        if words:
            shown[row] = shown[row][:column].ljust(column) + words + shown[row][column + len(words) :]
            column += len(words)
        elif start:
            column = 0
        elif end:
            row, column = row + 1, 0
            shown += [""] * (row == len(shown))
        elif control == "A":
            row = max(0, row - int(number or 1))
        elif control == "K":
            shown[row] = "" if number == "2" else shown[row][:column]
    return shown
