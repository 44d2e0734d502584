"""A command of busbw that may still run, in a session of its own, as in a terminal's foreground."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Long enough for a loaded machine; a run that needs it is far from what its test allows.
PATIENCE_S = 200.0


class Started:
    """What it prints goes into files in ``folder``; ``process`` is it, or what takes it to its host."""

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
