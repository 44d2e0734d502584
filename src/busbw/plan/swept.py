"""One sweep: its sizes, what is exchanged by whom, and the cases of it. A run is one, or one a stream."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from busbw.errors import UsageError
from busbw.model.arm import arms_of
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, Placement, collective
from busbw.model.counts import table_of
from busbw.plan.expand import Grid, expand, refuse_roots, refuse_unsupported
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.skew import COUNTS
from busbw.plan.flags.values import ALL
from busbw.plan.pattern import Pattern, make_pattern
from busbw.plan.router import read_counts
from busbw.units import format_size

DEFAULT_MIN_BYTES: Final = 8
DEFAULT_MAX_BYTES: Final = 64 * 2**20
DEFAULT_STEP_BYTES: Final = 2**20  # as nccl-tests, with -f 1


@dataclass(frozen=True)
class Swept:
    """The cases of a sweep in order, and the size of each of a rank's two buffers for them."""

    pattern: Pattern
    cases: tuple[Case, ...]
    buffer_bytes: int


def operation_names(operations: tuple[str, ...]) -> list[str]:
    """The collectives' names. Raises UsageError where none is given."""
    if not operations:
        known = ", ".join(row.name for row in COLLECTIVES)
        raise UsageError("no operation given", hint=f"name one or more of: {known}")
    return list(operations) if list(operations) != [ALL] else [row.name for row in COLLECTIVES]


def swept(operations: tuple[str, ...], settings: RunSettings, backend: str, ranks: int) -> Swept:
    """The sweep that the settings ask for. Raises UsageError for anything that cannot be meant."""
    pattern = make_pattern(settings, operation_names(operations), ranks)
    grid = replace(
        _grid(operations, settings),
        roots=settings.root.among(pattern.group_sizes[0]),
        tables=pattern.counts,
        even_beside=settings.skew is not None,
    )
    cases = expand(grid, pattern.group_sizes[-1], backend, pattern.group_sizes[:-1])
    if settings.arms:
        cases = with_arms(cases, settings.arms_out)
    if settings.beside:  # what runs beside a call is as much to either
        cases = in_one_placement(cases)
    _, last = _range(settings)
    return Swept(pattern, cases, _buffer_bytes(cases, pattern, last, settings))


def with_arms(cases: tuple[Case, ...], out: Collection[str] = ()) -> tuple[Case, ...]:
    """Each case as NCCL does it by itself, and then in every way that its tuner may choose but those that
    are ``out``. A tuner does not know in which buffers a call is, so one placement tells.
    """
    found = [
        replace(case, arm=arm)
        for case in cases
        if case.applicable and case.size_bytes and case.placement is Placement.OUT_OF_PLACE
        for arm in ("", *map(str, arms_of(case.collective)))
        if f"{case.collective} {arm}" not in out
    ]
    return tuple(replace(case, index=index) for index, case in enumerate(found))


def in_one_placement(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Each case once, out-of-place where it has that."""
    found: dict[tuple[object, ...], Case] = {}
    for case in cases:
        key = (case.collective, case.dtype, case.op, case.root, case.requested_bytes, case.cycle, case.even)
        if key not in found or (case.applicable and not found[key].applicable):
            found[key] = case
    return tuple(replace(case, index=index) for index, case in enumerate(found.values()))


def check_sweep(operations: tuple[str, ...], settings: RunSettings) -> None:
    """Raises UsageError for what can be refused before ranks, and perhaps the backend, are known."""
    refuse_unsupported(_grid(operations, settings), settings.backend)
    _calls_with_buffers(settings)
    if settings.ranks is not None:
        pattern = make_pattern(settings, operation_names(operations), settings.ranks)
        refuse_roots(settings.root, pattern.group_sizes[0])
    elif settings.skew is not None and settings.skew.kind == COUNTS:
        read_counts(settings.skew.path)


def _grid(operations: tuple[str, ...], settings: RunSettings) -> Grid:
    """What does not depend on the ranks."""
    first, last = _range(settings)
    factor = settings.stepfactor
    if factor is None:
        factor = 2.0 if settings.stepbytes is None and first != last else 1.0
    if settings.stepbytes is not None and factor != 1.0:
        raise UsageError("-f cannot be combined with -i", hint="give -f FACTOR, or -i BYTES (with -f 1)")
    step = DEFAULT_STEP_BYTES if settings.stepbytes is None else settings.stepbytes
    if settings.coalesce and settings.agg_iters > 1:
        raise UsageError("--coalesce cannot be combined with -m", hint="give one of them")
    return Grid(
        collectives=[collective(name) for name in operation_names(operations)],
        data_types=settings.datatype,
        reduce_ops=settings.op,
        roots=settings.root,
        sizes_bytes=sizes(first, last, step, factor),
        lenient=settings.datatype.is_all,
        own_sizes=settings.minbytes is None and settings.maxbytes is None,
        coalesce=tuple(settings.coalesce),
    )


def _buffer_bytes(cases: tuple[Case, ...], pattern: Pattern, last: int, settings: RunSettings) -> int:
    """The largest size of the sweep, or what the counts of a file need: gaps between segments count too.
    With a buffer for every call, so many times as much.
    """
    needed = 0
    for case in cases:
        table = table_of(pattern.counts, case.collective, case.cycle)
        own = table.buffer_bytes(case.requested_bytes) if table is not None else case.requested_bytes
        ranged = case.row.sized and not (table is not None and table.is_exact and settings.minbytes is None)
        needed = max(needed, own, last if ranged else 0)
    return needed * _calls_with_buffers(settings)


def _calls_with_buffers(settings: RunSettings) -> int:
    if not settings.unique_buffers:
        return 1
    if not settings.iters or settings.hot:
        raise UsageError(
            "--unique-buffers needs a fixed number of calls", hint="give -n (and -w), and leave out --hot"
        )
    return (settings.iters + (settings.warmup_iters or 0)) * settings.agg_iters


def _range(settings: RunSettings) -> tuple[int, int]:
    """First and last size: one of the two alone is both."""
    first, last = settings.minbytes, settings.maxbytes
    if first is None and last is None:
        return DEFAULT_MIN_BYTES, DEFAULT_MAX_BYTES
    return int(first if first is not None else last or 0), int(last if last is not None else first or 0)


# ---- sizes --------------------------------------------------------------------------------------------


MOST_SIZES: Final = 1_000_000  # a mistaken step, not a sweep


def sizes(min_bytes: int, max_bytes: int, step_bytes: int, factor: float) -> tuple[int, ...]:
    """Sizes from ``min_bytes`` to ``max_bytes`` by a factor, or, with factor 1, by adding ``step_bytes``.

    As in nccl-tests, a factor starts from the first size and stops at the last one not above the maximum.
    Raises UsageError for an empty or endless sweep.
    """
    if min_bytes > max_bytes:
        raise UsageError(
            f"the first size ({format_size(min_bytes)}) is larger than the last ({format_size(max_bytes)})",
            hint="give -b (first size) and -e (last size) with -b <= -e",
        )
    if min_bytes < 0:
        raise UsageError("a size cannot be negative")
    if not 1 <= factor < math.inf:
        raise UsageError(
            f"the factor between sizes is {_shown(factor)}", hint="give -f 2, or -f 1 with -i STEP"
        )
    if factor == 1:
        if step_bytes <= 0 and min_bytes != max_bytes:
            raise UsageError("the step between sizes is 0", hint="give -i, the bytes to add, or -f, a factor")
        steps = range(min_bytes, max_bytes + 1, max(1, step_bytes))
        if len(steps) > MOST_SIZES:
            raise UsageError(
                f"a step of {max(1, step_bytes)} bytes makes {len(steps)} sizes",
                hint=f"give a larger -i, or -f 2 (at most {MOST_SIZES} sizes)",
            )
        return tuple(steps)
    return _by_factor(min_bytes, max_bytes, factor)


def _by_factor(min_bytes: int, max_bytes: int, factor: float) -> tuple[int, ...]:
    if min_bytes == 0:
        raise UsageError(
            "a sweep by a factor cannot start at 0 bytes", hint="start at -b 1, or step with -f 1 -i"
        )
    out = [min_bytes]
    while (following := out[-1] * factor) < max_bytes + 1:  # a float still: it may be infinite
        if len(out) == MOST_SIZES:
            raise UsageError(
                f"factor {_shown(factor)} makes more than {MOST_SIZES} sizes", hint="use a larger -f"
            )
        if int(following) == out[-1]:
            raise UsageError(
                f"factor {_shown(factor)} does not change {format_size(out[-1])}", hint="use a larger -f"
            )
        out.append(int(following))
    return tuple(out)


def _shown(factor: float) -> str:
    """As it was written: 2, 1.0000001."""
    return repr(float(factor)).removesuffix(".0")
