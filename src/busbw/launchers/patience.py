"""A job whose scheduler may not answer for a while: it is asked again, and goes on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from busbw.errors import SiteError
from busbw.launchers.engine import JobState

# A server's restart; a job lives through it.
PATIENCE_SECONDS: Final = 120.0


@dataclass
class Patient:
    """``ask`` gives the state or raises SiteError; ``name`` is the job's, for the error."""

    ask: Callable[[], JobState]
    name: str
    silent_since_s: float | None = None

    def state(self) -> JobState | None:
        """The state; None where there is no answer now. Raises SiteError after too long without one."""
        try:
            found = self.ask()
        except SiteError as error:
            now_s = time.monotonic()
            self.silent_since_s = self.silent_since_s or now_s
            if now_s - self.silent_since_s < PATIENCE_SECONDS:
                return None
            raise SiteError(
                f"{error.message} (for {PATIENCE_SECONDS:g} s now; job {self.name} goes on)",
                hint="follow it with `busbw attach` when there are answers again",
            ) from error
        self.silent_since_s = None
        return found
