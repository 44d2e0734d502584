"""How a rank that is not at a terminal tells what happens: event lines on its standard output."""

from __future__ import annotations

import sys

from busbw.model.event import Event, encode_parts


def emit(item: Event) -> None:
    """Each line in one write, so that launchers which merge the ranks' output cannot mix it with another."""
    for line in encode_parts(item):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
