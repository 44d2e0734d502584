"""What a command of busbw left behind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    """Its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one error line, without its prefix."""
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self
        return errors[0].removeprefix("error: ")

    @property
    def hint(self) -> str:
        """The last hint, without its prefix: that of the error, which comes last."""
        hints = [line for line in self.err.splitlines() if line.startswith("hint: ")]
        return hints[-1].removeprefix("hint: ")
