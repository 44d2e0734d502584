"""``--beside``: from what a user wrote to what runs beside the collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from busbw.errors import UnknownWord, UsageError
from busbw.model.collective import COLLECTIVES, collective
from busbw.model.neighbour import COMPUTE, GEMM, MEMORY, Neighbour
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.run import RunSettings
from busbw.units import counted, parse_duration, parse_fraction, parse_size

_LOADS: Final = (COMPUTE, MEMORY, GEMM)
# Hypercube's steps depend on one another, and a barrier moves nothing.
_OPERATIONS: Final = tuple(row.name for row in COLLECTIVES if row.sized and row.name != "hypercube")


def make_neighbours(settings: RunSettings, backend: str, ranks: int = 0) -> tuple[Neighbour, ...]:
    """Each --beside, in order; 0 ``ranks`` where these are not known yet. Raises UsageError for what is not
    known, or cannot be measured so.
    """
    if not settings.beside:
        return ()
    found = tuple(_neighbour(text, backend, ranks) for text in dict.fromkeys(settings.beside))
    _refuse_operations([each for each in found if each.is_operation], settings, ranks)
    for flag, given in (
        ("--streams", bool(settings.streams)),
        ("-n", bool(settings.iters)),
        ("--cycles", settings.repeats),
        ("--backend null", settings.backend == "null"),
    ):
        if given:
            raise UsageError(f"--beside cannot be combined with {flag}", hint="leave one of them out")
    return found


def left_by(settings: RunSettings, ranks: int) -> tuple[int, ...]:
    """The ranks of the collectives where operations beside them have ranks of their own; else none."""
    taken = {rank for each in make_neighbours(settings, settings.backend, ranks) for rank in each.ranks}
    return tuple(rank for rank in range(ranks) if rank not in taken) if taken else ()


def _refuse_operations(operations: list[Neighbour], settings: RunSettings, ranks: int) -> None:
    """What cannot be measured beside an operation."""
    given = {flag_of(name): bool(getattr(settings, name)) for name in ("groups", "group_size", "split")}
    given |= {
        "-m": settings.agg_iters > 1,
        "-G": settings.cudagraph > 0,
        "--coalesce": bool(settings.coalesce),
    }
    given |= {"--time loop": settings.time == "loop"}
    for each in operations:
        if flag := next((flag for flag, is_given in given.items() if is_given), ""):
            raise UsageError(f"--beside {each.text} cannot be combined with {flag}", hint="leave one out")
        shared = ranks and not each.ranks
        if (settings.mode == "latency" or settings.blocking) and shared:
            raise UsageError(
                f"--beside {each.text}: single calls on the same ranks do not overlap",
                hint="give the neighbour ranks of its own: ranks=odd",
            )
        if reason := collective(each.what).refuses(len(each.ranks) or ranks) if ranks else "":
            raise UsageError(f"--beside {each.text}: {reason}", hint="give it other ranks")
    taken = {rank for each in operations for rank in each.ranks}
    if taken and not all(each.ranks for each in operations):
        raise UsageError(
            "--beside has operations on the ranks of the collectives and on others",
            hint="give ranks= to all of them, or to none",
        )
    if ranks and taken and ranks - len(taken) < _LEAST_RANKS:
        raise UsageError(
            f"--beside {operations[0].text} leaves {counted(ranks - len(taken), 'rank')} to the collectives",
            hint="start more ranks, or give the neighbour fewer",
        )


def _neighbour(text: str, backend: str, ranks: int) -> Neighbour:
    what, _, rest = text.partition(":")
    if what not in (*_LOADS, *_OPERATIONS):
        raise UnknownWord(
            f"--beside {text}: {what!r} is no load and no operation that can run beside others",
            what,
            (*_LOADS, *_OPERATIONS),
            hint=f"use {', '.join(_LOADS)} or an operation such as alltoall",
        )
    known = _OPTIONS.get(what, ("ranks", "size"))
    options: dict[str, Any] = {}
    for option in filter(None, rest.split(",")):
        name, _, value = option.partition("=")
        if name not in known:
            raise UsageError(f"--beside {text}: unknown option {name!r}", hint=f"use {', '.join(known)}")
        options[_FIELDS.get(name, name)] = _option(name, value, f"--beside {text}", ranks)
    if backend == "mpi" and what == GEMM:
        raise UsageError(f"--beside {text}: cuBLAS works on GPUs", hint="give --beside compute")
    if backend == "mpi" and {"sms", "length_ns"} & set(options):
        raise UsageError(f"--beside {text}: sms and length are those of GPUs", hint="give share=50%")
    if {"sms", "share"} <= set(options):
        raise UsageError(f"--beside {text}: sms and share are the same choice", hint="give one of them")
    return Neighbour(text, what, **options)


def _ranks(ranks: int, value: str, where: str) -> tuple[int, ...]:
    """``odd``, ``even`` or ``4-7``, of the ranks that there are."""
    first, dash, last = value.partition("-")
    if value in ("odd", "even"):
        found = tuple(range(value == "odd", ranks, 2))
    elif dash and first.isdecimal() and last.isdecimal() and int(first) < int(last):
        found = tuple(range(int(first), int(last) + 1))
    else:
        raise UsageError(f"{where}: ranks={value} is unknown", hint="give ranks=odd, ranks=even or ranks=4-7")
    if ranks and (len(found) < _LEAST_RANKS or found[-1] >= ranks):
        raise UsageError(f"{where}: ranks={value} of {ranks} ranks", hint="name two or more of them")
    return found


def _option(name: str, value: str, where: str, ranks: int) -> Any:  # noqa: ANN401 (a field of Neighbour)
    """The value of an option. Raises UsageError for what it cannot be."""
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    match name:
        case "ranks":
            return _ranks(ranks, value, where)
        case "share":
            return _ENDS[value] if value in _ENDS else parse_fraction(value, where)
        case "size":
            if size_bytes := parse_size(value, where):
                return size_bytes
            raise UsageError(f"{where}: an operation of 0 bytes moves nothing", hint="give size=1M")
        case "sms":
            if number is not None:
                return number
            raise UsageError(f"{where}: sms={value} is no number of multiprocessors", hint="give sms=100")
        case "n":
            if number is not None and _LEAST_EDGE <= number <= _MOST_EDGE:
                return number
            raise UsageError(f"{where}: matrices of n={value}", hint="give n=256 to n=16384")
        case _:
            length_ns = round(parse_duration(value, where) * 1e9)
            if _SHORTEST_NS <= length_ns <= _LONGEST_NS:
                return length_ns
            raise UsageError(f"{where}: launches of {value}", hint="give length=20us to length=1ms")


# The options of a load, by what it is; all others are operations.
_OPTIONS: Final = {
    COMPUTE: ("share", "sms", "length"),
    MEMORY: ("share", "sms", "length"),
    GEMM: ("n",),
}
_LEAST_EDGE: Final = 256
_MOST_EDGE: Final = 16384  # 13 ms on an H200, and 1.6 GB
# Of what a neighbour takes, nothing and the whole are shares too.
_ENDS: Final[Mapping[str, float]] = {"0": 0.0, "0%": 0.0, "1": 1.0, "100%": 1.0}
_FIELDS: Final = {"size": "size_bytes", "length": "length_ns"}
# Shorter ones are the host's launches more than work; what holds a GPU for longer may starve its fellows.
_SHORTEST_NS: Final = 20_000
_LONGEST_NS: Final = 1_000_000
_LEAST_RANKS: Final = 2
