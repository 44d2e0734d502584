"""A command of busbw that may still run, in a session of its own, as in a terminal's foreground."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Long enough for a loaded machine; a run that needs it is far from what its test allows.
PATIENCE_S = 200.0


@dataclass(frozen=True)
class Done:
    """What a command left behind: its exit code, what it printed, and how long its end was waited for."""

    code: int
    out: str
    err: str
    seconds: float = 0.0

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


def completed(
    words: Sequence[str | Path], environ: Mapping[str, str] | None = None, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """A command to its end, without standard input; a test says what its exit code has to be."""
    return subprocess.run(
        list(map(str, words)),
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def until(what: Callable[[], Any], patience_s: float = 90.0) -> Any:
    """Wait until ``what`` gives something, and give it."""
    deadline = time.monotonic() + patience_s
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {patience_s:g} s"
        time.sleep(0.1)
    return found


class Started:
    """What it prints goes into files in ``folder``; ``process`` is it, or what takes it to its host."""

    patience_s = PATIENCE_S

    def __init__(self, words: Sequence[str | Path], environ: Mapping[str, str], folder: Path) -> None:
        name = secrets.token_hex(4)
        self._files = folder / f"{name}.out", folder / f"{name}.err"
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen(
                words, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self._files[0].read_text()

    @property
    def err(self) -> str:
        """What it has printed on standard error so far."""
        return self._files[1].read_text()

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait until ``what`` gives something, and give it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := what():
                return found
            assert self.process.poll() is None, (self.out, self.err)
            time.sleep(0.03)
        raise AssertionError((self.out, self.err))

    def finish(self) -> Done:
        """Wait for the end, which is no traceback."""
        began_s = time.monotonic()
        try:
            code = self.process.wait(self.patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(("it hangs", self.out, self.err)) from None
        done = Done(code, self.out, self.err, time.monotonic() - began_s)
        assert "Traceback" not in done.out + done.err, done
        return done

    def kill(self) -> None:
        """End it as a power failure does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
