"""``busbw tune --knobs``: variables that need a launch of their own, one after the other, each against the
best so far; then all that were taken together against how it was.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from busbw.errors import ExitCode
from busbw.judge.compare import Comparison, Verdict
from busbw.judge.knobs import leader
from busbw.plan.knobs_file import read_knobs
from busbw.plan.setups import Setup
from busbw.report.console import print_lines
from busbw.report.fields import remark
from busbw.report.tune import COLUMNS
from busbw.units import counted, format_share, format_size

# Launches the setups in turn, the first being how it is, and compares them.
Compare = Callable[[tuple[Setup, ...]], Comparison]
AS_IT_IS: Final = "as it is"
_NONE: Final = "no value is faster without being slower or failing somewhere"


def launches(path: Path, blocks: int) -> list[str]:
    """What would be launched for the knobs of a file, in words. Raises UsageError for a file that is none."""
    knobs = read_knobs(path)
    tried = [f"# {name}: {AS_IT_IS}, {', '.join(values)}" for name, values in knobs.items()]
    most = blocks * (sum(1 + len(values) for values in knobs.values()) + 2)
    said = f"at most {most} launches: {counted(blocks, 'block')} a variable, each on top of the best values"
    return [*tried, f"# {said} so far, and as many to confirm", "# one of them, as a run of its own:"]


def tune_knobs(path: Path, compare: Compare, format_name: str) -> ExitCode:
    """Try the knobs of a file and print what to set. Raises UsageError for a file that is none."""
    taken: dict[str, str] = {}
    told = []
    for name, values in read_knobs(path).items():
        tried = {f"{name}={value}": {**taken, name: value} for value in values}
        setups = (Setup(AS_IT_IS, environ=taken), *(Setup(word, environ=own) for word, own in tried.items()))
        race = compare(setups)
        best, saved = leader(race)
        taken = tried.get(best, taken)
        told.append(f"{best} saves {format_share(saved)}" if best in tried else f"{name}: {_NONE}")
        out = [arm.name for arm in race.candidates if arm.failures or arm.wrong]
        told += [f"{word} is out: a launch failed or had wrong data" for word in out]
    final = compare((Setup(AS_IT_IS), Setup("tuned", environ=taken))) if taken else None
    if format_name == "json":
        print(
            json.dumps({"taken": taken, "tried": told, "confirmed": final is not None and _gains(final) > 0})
        )
    else:
        remarks = (_answer(taken, final), *(f"tried: {each}" for each in told))
        print_lines([*(line for each in remarks for line in remark(each, COLUMNS)), *_next(taken, final)])
    return ExitCode.OK


def _gains(final: Comparison) -> int:
    """In how many cases all that was taken is faster; none where it is slower in any."""
    verdicts = [row.verdict for row in final.rows]
    is_bad = any(verdict in (Verdict.SLOWER, Verdict.FAILED, Verdict.MISSING) for verdict in verdicts)
    return 0 if is_bad else verdicts.count(Verdict.FASTER)


def _answer(taken: Mapping[str, str], final: Comparison | None) -> str:
    if final is None:
        return f"nothing to gain: {_NONE}"
    gains = _gains(final)
    words = ", ".join(f"{name}={value}" for name, value in taken.items())
    if not gains:
        return f"nothing to gain: {words} looked faster, and fresh launches did not show it"
    faster = [row for row in final.rows if row.verdict is Verdict.FASTER and row.speedup]
    most = max(faster, key=lambda row: row.speedup or 0.0)
    share = format_share(1 - 1 / (most.speedup or 1.0))
    where = f"{most.key.collective} {format_size(most.key.size_bytes)} {most.key.placement}"
    return f"{gains} of {len(final.rows)} cases gain, at most {share} ({where}), with {words}"


def _next(taken: Mapping[str, str], final: Comparison | None) -> Sequence[str]:
    if final is None or not _gains(final):
        return []
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in taken.items())
    return [f"# next: export {words}"]
