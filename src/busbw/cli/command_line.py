"""The command line that a record keeps: what was typed, without secrets."""

from __future__ import annotations

import sys


def command_line() -> tuple[str, ...]:
    """This process's words, secrets in their ``NAME=VALUE`` replaced."""
    from busbw.probes.redact import redact_text

    return tuple(map(redact_text, sys.argv))
