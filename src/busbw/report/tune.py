"""What a tuning came to, as lines: the answer, a row a size with something to gain, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from busbw.judge.tune import LEAST_GAIN, Tuned, Tuning
from busbw.model.arm import Arm
from busbw.report.fields import aligned, remark
from busbw.units import counted, first_of, format_share, format_size, format_time

COLUMNS: Final = 100  # of prose


def lines(tuning: Tuning, name: str) -> list[str]:
    """The whole text; ``name`` is how commands call the run."""
    text = remark(answer(tuning), COLUMNS)
    if found := rows(tuning):
        text += ["#", *(f"# {line}" for line in aligned([HEAD, *found]))]
    text += [line for each in remarks(tuning) for line in remark(each, COLUMNS)]
    if any(each.confirmed is not None for each in tuning.tuned):
        emit = f"busbw tune {name} --emit nccl-csv --output table.csv"
        text.append(f"# next: `{emit}`, then start any NCCL job with")
        text.append("#   NCCL_TUNER_PLUGIN=$(busbw tune --plugin) BUSBW_TUNER_FILE=$PWD/table.csv")
    return text


def answer(tuning: Tuning) -> str:
    """How many sizes gain, and how much."""
    takes = tuning.winners
    shown = [each for each in takes if each.confirmed is not None]
    sizes = counted(len(tuning.tuned), "case")
    if not takes:
        return f"nothing to gain: NCCL's own choice is as fast as any other ({sizes})"
    if not tuning.was_confirmed:
        return f"{len(takes)} of {sizes} may gain; not confirmed in fresh launches (--blocks 3 does)"
    if not shown:
        looked = f"{counted(len(takes), 'case')} looked faster"
        return f"nothing to gain: {looked}, and fresh launches did not show it"
    most = max(shown, key=lambda each: each.confirmed or 0.0)
    where = f"{most.operation} {format_size(most.size_bytes)} by {Arm.of(most.arm).words}"
    return f"{len(shown)} of {sizes} gain, at most {format_share(most.confirmed or 0.0)} ({where})"


HEAD: Final = ("operation", "size", "NCCL", "best", "time", "gain in the race %", "confirmed")


def rows(tuning: Tuning) -> list[tuple[str, ...]]:
    """Below HEAD: a row a size with something to gain."""
    return [
        (
            each.operation,
            format_size(each.size_bytes),
            format_time(each.default_ns),
            Arm.of(each.arm).short,
            format_time(each.time_ns or 0.0),
            f"{100 * each.gain:.1f} ({100 * each.gain_low:.1f} to {100 * each.gain_high:.1f})",
            each.verdict.lower() or "not tried" if each.confirmed is None else format_share(each.confirmed),
        )
        for each in tuning.winners
    ]


def remarks(tuning: Tuning) -> Iterator[str]:
    """Sizes with nothing to gain, and what was left out of the race."""
    without: dict[str, list[Tuned]] = defaultdict(list)
    for each in tuning.tuned:
        if not each.arm:
            without[each.operation].append(each)
    for operation, sizes in without.items():
        tried = max(each.tried for each in sizes)
        bounds = (  # how much they may have hidden
            f"{format_share(max(LEAST_GAIN, each.hidden))} at {format_size(each.size_bytes)}"
            for each in sizes
        )
        yield f"{operation}: nothing to gain beyond {', '.join(bounds)} ({tried} other ways tried)"
    wrong = [
        f"{each.operation} {format_size(each.size_bytes)} {arm}"
        for each in tuning.tuned
        for arm in each.wrong
    ]
    if wrong:
        yield f"wrong data, and so out: {first_of(wrong, 4)}"
    if tuning.lost:
        yield f"did not come back, and so out: {', '.join(tuning.lost)}"
