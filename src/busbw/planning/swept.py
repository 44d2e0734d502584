"""One sweep: what is exchanged by whom, and the cases of it. A run is one, or one for every stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op
from busbw.planning.expand import Grid, expand
from busbw.planning.pattern import Pattern, make_pattern
from busbw.planning.sweep import sizes
from busbw.planning.values import at_least, ratios
from busbw.settings.run import RunSettings
from busbw.units import parse_size

DEFAULT_MIN_BYTES: Final = "8"
DEFAULT_MAX_BYTES: Final = "64M"
DEFAULT_STEP_BYTES: Final = "1M"  # as nccl-tests, with -f 1
ALL: Final = "all"
MOST_PARTS: Final = 64  # as the native core takes
LARGEST_RATIO: Final = 1_000_000


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
    names = operation_names(operations)
    first, last = _range(settings)
    types, ops = _words("element type", settings.datatype), _words("reduction", settings.op)
    pattern = make_pattern(settings, names, ranks)
    smallest, largest = pattern.group_sizes[0], pattern.group_sizes[-1]
    grid = Grid(
        collectives=[collective(name) for name in names],
        # What is named twice, also by an alias, is measured once.
        data_types=DATA_TYPES if types == [ALL] else list(dict.fromkeys(map(data_type, types))),
        reduce_ops=REDUCE_OPS if ops == [ALL] else list(dict.fromkeys(map(reduce_op, ops))),
        roots=_roots(settings.root, smallest),
        sizes_bytes=_sizes(settings, first, last),
        lenient=types == [ALL],
        cycles=at_least("--cycles", settings.cycles, 1),
        tables=pattern.counts,
        own_sizes=settings.minbytes is None and settings.maxbytes is None,
        coalesce=_coalesce(settings),
    )
    cases = expand(grid, largest, backend, pattern.group_sizes[:-1])
    return Swept(pattern, cases, _buffer_bytes(cases, pattern, last, settings))


def _buffer_bytes(cases: tuple[Case, ...], pattern: Pattern, last: int, settings: RunSettings) -> int:
    """The largest size of the sweep, or what the counts of a file need: gaps between segments count too.
    With a buffer for every call, so many times as much.
    """
    needed = 0
    for case in cases:
        table = pattern.table(case.collective)
        own = table.buffer_bytes(case.requested_bytes) if table is not None else case.requested_bytes
        ranged = case.row.sized and not (table is not None and table.is_exact and not settings.minbytes)
        needed = max(needed, own, last if ranged else 0)
    return needed * _calls_with_buffers(settings)


def _calls_with_buffers(settings: RunSettings) -> int:
    if not settings.unique_buffers:
        return 1
    if not settings.iters or settings.hot:
        raise UsageError(
            "--unique-buffers makes a buffer for every call: the number of calls must be known",
            hint="give -n (and -w), and leave out --hot",
        )
    return (settings.iters + (settings.warmup_iters or 0)) * settings.agg_iters


def _coalesce(settings: RunSettings) -> tuple[int, ...]:
    """The ratios of --coalesce; a list in brackets is taken too."""
    if not settings.coalesce:
        return ()
    given = ratios(settings.coalesce)
    if not 1 < len(given) <= MOST_PARTS or not all(0 < ratio <= LARGEST_RATIO for ratio in given):
        raise UsageError(
            f"--coalesce {settings.coalesce!r} are no ratios",
            hint=f"give 2 to {MOST_PARTS} whole numbers from 1 to {LARGEST_RATIO}: 1,2,1",
        )
    if settings.agg_iters > 1:
        raise UsageError("--coalesce and -m both make groups of calls", hint="give one of them")
    return given


def _words(what: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"no {what} given", hint="name one, or several separated by commas")
    return words


def _range(settings: RunSettings) -> tuple[int, int]:
    """First and last size: one of the two alone is both."""
    first = settings.minbytes or settings.maxbytes or DEFAULT_MIN_BYTES
    last = settings.maxbytes or settings.minbytes or DEFAULT_MAX_BYTES
    return (
        parse_size(first, "-b" if settings.minbytes else "-e"),
        parse_size(last, "-e" if settings.maxbytes else "-b"),
    )


def _sizes(settings: RunSettings, first: int, last: int) -> tuple[int, ...]:
    factor = settings.stepfactor
    if factor is None:
        factor = 2.0 if settings.stepbytes is None and first != last else 1.0
    if settings.stepbytes is not None and factor != 1.0:
        raise UsageError("-f and -i exclude each other", hint="give -f FACTOR, or -i BYTES (with -f 1)")
    return sizes(first, last, parse_size(settings.stepbytes or DEFAULT_STEP_BYTES, "-i"), factor)


def _roots(text: str, ranks: int) -> list[int]:
    words = _words("root", text)
    if words in ([ALL], ["-1"]):
        return list(range(ranks))
    try:
        return list(dict.fromkeys(map(int, words)))
    except ValueError as error:
        raise UsageError(f"not a root: {text!r}", hint="give ranks separated by commas, or all") from error
