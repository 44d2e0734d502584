"""The children of host.py: each has what is left of its step's time, and all it prints is kept."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import host_tables as tables

from busbw.units import parse_size

# Verdicts of busbw: good, bad, undecided. They are answers here.
VERDICTS = (0, 1, 3)
# A child that is told to end ends its ranks; then it is killed.
GRACE_S = 5.0
Found = dict[str, Any]


class StepFailed(Exception):
    """A command of a step ended badly, or not in time."""


@dataclass
class Job:
    """What steps run with; ``deadline_s`` is that of the step."""

    options: argparse.Namespace
    home: Path  # BUSBW_HOME, and a place for small files
    log: TextIO
    deadline_s: float = 0.0
    about: Found = field(default_factory=dict)  # machine and versions, of the first record

    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def size(self, text: str) -> str:
        return min(text, self.options.last, key=parse_size)

    def python(self, *words: str, good: tuple[int, ...] = (0,)) -> tuple[str, int, float]:
        """What a Python program printed, its exit code and its seconds."""
        self.log.write(f"\n$ python {' '.join(words)}\n")
        self.log.flush()
        start = time.monotonic()
        told, code = ended(
            (sys.executable, *words), {**os.environ, "BUSBW_HOME": str(self.home)}, self.left_s(), self.log
        )
        seconds = time.monotonic() - start
        self.log.write(f"{told}# exit code {code}, {seconds:.2f} s\n")
        if code is None or code not in good:
            why = "ran out of its time" if code is None else f"exit code {code}"
            raise StepFailed(f"{' '.join(words)[:100]}: {why} after {seconds:.0f} s")
        return told, code, seconds

    def busbw(self, *words: str, good: tuple[int, ...] = (0,)) -> Found:
        """The JSON of a command of busbw, its ``code`` and its ``wall_s``."""
        told, code, seconds = self.python("-m", "busbw", *words, "--format", "json", good=good)
        return {**json.loads(told), "code": code, "wall_s": seconds}

    def launch(self, *words: str, ranks: int = 0, good: tuple[int, ...] = (0,)) -> Found:
        ranks = ranks or self.options.ranks
        run = self.busbw(*words, "--ranks", str(ranks), "--backend", self.options.backend, good=good)
        self.about = self.about or tables.about(run)
        return run


def ended(
    command: tuple[str, ...], environ: dict[str, str], left_s: float, log: TextIO
) -> tuple[str, int | None]:
    """Standard output and exit code; None where the time was over and the process group was ended."""
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
    ) as process:
        for wait_s, sign in ((max(left_s, 0.1), signal.SIGTERM), (GRACE_S, signal.SIGKILL)):
            try:
                told, _ = process.communicate(timeout=wait_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, sign)
                continue
            return told, process.returncode if sign is signal.SIGTERM else None
        told, _ = process.communicate()
        return told, None
