"""Settings to plan, once the number of ranks is known."""

from __future__ import annotations

import secrets

from busbw.errors import UsageError
from busbw.model.collective import COLLECTIVES, collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.planning.expand import Grid, expand
from busbw.planning.sweep import sizes
from busbw.settings.run import RunSettings
from busbw.units import parse_duration, parse_fraction, parse_size


def make_plan(operations: tuple[str, ...], settings: RunSettings, backend: str, ranks: int) -> Plan:
    """The plan of a run. Raises UsageError for anything that cannot be meant."""
    if not operations:
        known = ", ".join(row.name for row in COLLECTIVES)
        raise UsageError("no operation given", hint=f"name one or more of: {known}")
    grid = Grid(
        collectives=[collective(name) for name in operations],
        data_types=[data_type(name) for name in _words("element type", settings.datatype)],
        reduce_ops=[reduce_op(name) for name in _words("reduction", settings.op)],
        roots=[settings.root],
        sizes_bytes=_sizes(settings),
    )
    checks = _at_least("-c", settings.check, 0)
    return Plan(
        backend=backend,
        cases=expand(grid, ranks, backend),
        buffer_bytes=parse_size(settings.maxbytes),
        limits=_limits(settings),
        # The null backend moves nothing, so there is nothing to check.
        checks=0 if backend == "null" else checks,
        seed=secrets.randbits(48) if settings.seed is None else _at_least("--seed", settings.seed, 0),
        rotate=not settings.hot,
        nccl_path=settings.nccl,
    )


def _words(what: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"no {what} given", hint="name one, or several separated by commas")
    return words


def _sizes(settings: RunSettings) -> tuple[int, ...]:
    step = parse_size(settings.stepbytes) if settings.stepbytes is not None else 0
    factor = settings.stepfactor if settings.stepfactor is not None else (1.0 if step else 2.0)
    if step and factor != 1.0:
        raise UsageError("-f and -i exclude each other", hint="give -f FACTOR, or -i BYTES (with -f 1)")
    return sizes(parse_size(settings.minbytes), parse_size(settings.maxbytes), step, factor)


def _limits(settings: RunSettings) -> Limits:
    default = Limits()
    precision = parse_fraction(settings.precision) if settings.precision is not None else None
    return Limits(
        calls=None if settings.iters is None else _at_least("-n", settings.iters, 1),
        warmup_calls=None if settings.warmup_iters is None else _at_least("-w", settings.warmup_iters, 0),
        precision=precision if precision is not None else default.precision,
        small_precision=precision if precision is not None else default.small_precision,
        case_seconds=parse_duration(settings.case_time),
    )


def _at_least(flag: str, value: int, least: int) -> int:
    if value < least:
        raise UsageError(f"{flag} {value} is too small", hint=f"give {least} or more")
    return value
