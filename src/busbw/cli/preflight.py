"""``busbw preflight``: a run that checks everything and measures nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from busbw.cli.run import run
from busbw.errors import ExitCode

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

# The sizes decide whether memory is enough; the operation does not matter.
_OPERATION: Final = "all_reduce"


def preflight(
    operations: tuple[str, ...],
    settings: RunSettings,
    launch: LaunchSettings,
    argv: tuple[str, ...],
    *,
    deep: bool,
) -> ExitCode:
    """Start (or join) the ranks that a run would have, and let them check. ENVIRONMENT where there is an
    error.
    """
    checked = replace(settings, stop_after="deep" if deep else "only")
    return run(operations or (_OPERATION,), checked, launch, argv)
