"""The command line that a record keeps: what was typed, without secrets."""

from __future__ import annotations

import sys


def command_line() -> tuple[str, ...]:
    """This process's words, the secrets among its ``--env NAME=VALUE`` replaced."""
    from busbw.probes.environment import redact_words

    return redact_words(sys.argv)
