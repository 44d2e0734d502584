"""``busbw nccom-test``: nccom-test's command line."""

from __future__ import annotations

import sys

from busbw.errors import ExitCode
from busbw.frontdoors.nccom_test import nccom_test as front_door


def nccom_test(words: tuple[str, ...], argv: tuple[str, ...]) -> ExitCode:
    """Measure what a command line of nccom-test asks for. Raises BusbwError for what cannot be started."""
    return front_door(words, argv, sys.stdout, sys.stderr)
