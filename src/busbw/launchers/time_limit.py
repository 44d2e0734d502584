"""--time-limit as each engine writes it. Pure."""

from __future__ import annotations

import re
from typing import Final

from busbw.errors import UsageError
from busbw.units import parse_duration

# sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours and on; and two words.
SLURM: Final = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1|unlimited|infinite", re.IGNORECASE)
SLURM_HINT: Final = "write minutes, hours:minutes:seconds or days-hours, as 0:30:00"
# qsub(1B), walltime: seconds, or [days:][hours:]minutes:seconds.
PBS: Final = re.compile(r"\d+(:\d+){0,3}(\.\d+)?")
PBS_HINT: Final = "write hours:minutes:seconds, as 0:30:00"


def refuse_unlike(text: str, form: re.Pattern[str], hint: str) -> None:
    """Raises UsageError for a limit that the engine would not read; empty is none."""
    if text and form.fullmatch(text) is None:
        raise UsageError(f"--time-limit {text!r} is no time", hint=hint)


def seconds_of(text: str) -> int | None:
    """Seconds of ``90``, ``30m``, ``1h``; None for empty. Raises UsageError."""
    if not text:
        return None
    try:
        return int(text) if text.isdecimal() else round(parse_duration(text))
    except UsageError as error:
        raise UsageError(f"--time-limit {text!r} is no time", hint=error.hint) from error
