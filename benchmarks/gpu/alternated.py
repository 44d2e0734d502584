"""Commands that run in turn, round after round, and the seconds that each takes."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from busbw.stats.interval import estimate

# A row of all_reduce: of busbw's and nccl-tests' tables (size, count, type) or of IMB's (size, calls, time),
# which begin with one of 0 B.
ROW = re.compile(r"^\s+[1-9]\d*\s+\d+\s+(float|\d+\.\d)")
_CONFIDENCE = 0.95
_KEPT_LINES = 20  # of a command's output, for the message where it fails


@dataclass(frozen=True)
class Took:
    """Seconds until the first row was there, until the command had ended, and of all processes' CPU time."""

    first_row_s: float
    prompt_s: float
    cpu_s: float


def run(command: Sequence[str], environ: Mapping[str, str]) -> Took:
    """Run the command and wait for its rows. Raises SystemExit with its errors where it fails or has none."""
    first_row_s, said = 0.0, deque[str](maxlen=_KEPT_LINES)
    with tempfile.TemporaryFile("w+") as errors:
        began_s = time.monotonic()
        process = subprocess.Popen(
            command, env=dict(environ), stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if not first_row_s and ROW.match(line):
                first_row_s = time.monotonic() - began_s
        _, status, usage = os.wait4(process.pid, 0)
        prompt_s = time.monotonic() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode or not first_row_s:
            raise SystemExit(
                f"{' '.join(command)}\nexit code {process.returncode}\n{''.join(said)}{errors.read()}"
            )
    return Took(first_row_s, prompt_s, usage.ru_utime + usage.ru_stime)


def rounds(
    arms: Mapping[str, Sequence[Sequence[str]]], environ: Mapping[str, str], most: int, seconds: float
) -> dict[str, list[Took]]:
    """``most`` rounds of all arms, each round in the other order, or as many as fit into ``seconds``. An arm
    of several commands takes the sum of their times.
    """
    taken: dict[str, list[Took]] = {arm: [] for arm in arms}
    longest_s, began_s = 0.0, time.monotonic()
    for number in range(most):
        started_s = time.monotonic()
        if number and started_s - began_s + longest_s > seconds:
            break
        for arm in list(arms)[:: -1 if number % 2 else 1]:
            each = [run(command, environ) for command in arms[arm]]
            columns = zip(*(asdict(took).values() for took in each), strict=True)
            taken[arm].append(Took(*map(sum, columns)))
        longest_s = max(longest_s, time.monotonic() - started_s)
    return taken


def lines(taken: Mapping[str, Sequence[Took]], base: str = "") -> list[str]:
    """A table of the medians, the ranges, and each arm's time until the prompt over that of ``base``."""
    head = f"{'':>26}  {'first row s':>20}  {'prompt s':>20}  {'CPU s':>7}"
    found = [head + (f"  prompt / {base} (95 %)" if base else "")]
    for arm, times in taken.items():
        first, prompt = [each.first_row_s for each in times], [each.prompt_s for each in times]
        line = f"{arm:>26}  {_spread(first):>20}  {_spread(prompt):>20}"
        line += f"  {statistics.median(each.cpu_s for each in times):7.2f}"
        if base and arm != base:
            pairs = zip(times, taken[base], strict=True)
            ratio = estimate(np.array([own.prompt_s / other.prompt_s for own, other in pairs]), _CONFIDENCE)
            line += f"  {ratio.median:.2f} ({ratio.low:.2f} - {ratio.high:.2f})"
        found.append(line)
    return found


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} - {max(seconds):.2f})"


def as_json(taken: Mapping[str, Sequence[Took]]) -> dict[str, dict[str, list[float]]]:
    """Per measure and arm, the seconds of every round."""
    names = ("first_row_s", "prompt_s", "cpu_s")
    return {
        name: {arm: [getattr(each, name) for each in times] for arm, times in taken.items()} for name in names
    }


def busbw_environ() -> dict[str, str]:
    """The environment of installed programs: Python keeps its compiled modules, as it does of a package."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept.setdefault("PYTHONPYCACHEPREFIX", f"{tempfile.gettempdir()}/busbw-compiled-{os.getuid()}")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**kept, **(as_root if os.getuid() == 0 else {})}
