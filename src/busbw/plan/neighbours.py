"""``--beside``: from what a user wrote to what runs beside the collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from busbw.errors import UsageError
from busbw.model.neighbour import COMPUTE, MEMORY, PRIORITIES, Neighbour
from busbw.plan.flags.run import RunSettings
from busbw.units import parse_fraction

_KINDS: Final = (COMPUTE, MEMORY)


def make_neighbours(settings: RunSettings, backend: str) -> tuple[Neighbour, ...]:
    """Each --beside, in order. Raises UsageError for what is not known, or cannot be measured so."""
    found = tuple(_neighbour(text, backend) for text in dict.fromkeys(settings.beside))
    for flag, given in (
        ("--streams", bool(settings.streams)),
        ("-n", bool(settings.iters)),
        ("--cycles 0", settings.cycles == 0 or settings.soak is not None),
        ("--backend null", settings.backend == "null"),
    ):
        if found and given:
            raise UsageError(f"--beside cannot be combined with {flag}", hint="leave one of them out")
    return found


def _neighbour(text: str, backend: str) -> Neighbour:
    what, _, rest = text.partition(":")
    if what not in _KINDS:
        raise UsageError(f"--beside {text}: unknown load {what!r}", hint=f"use {' or '.join(_KINDS)}")
    options: dict[str, Any] = {}
    for option in filter(None, rest.split(",")):
        name, _, value = option.partition("=")
        if name not in _OPTIONS:
            raise UsageError(f"--beside {text}: unknown option {name!r}", hint=f"use {', '.join(_OPTIONS)}")
        options[name] = _OPTIONS[name](value, f"--beside {text}")
    if backend == "mpi" and {"sms", "priority"} & set(options):
        raise UsageError(f"--beside {text}: sms and priority are those of GPUs", hint="give share=50%")
    if {"sms", "share"} <= set(options):
        raise UsageError(f"--beside {text}: sms and share are the same choice", hint="give one of them")
    return Neighbour(text, what, **options)


def _share(value: str, where: str) -> float:
    if value.rstrip("%") in ("0", "100"):  # of percents both ends are shares too
        return float(value.rstrip("%")) / 100
    return parse_fraction(value, where)


def _sms(value: str, where: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise UsageError(f"{where}: sms={value} is no number of multiprocessors", hint="give sms=100")
    return int(value)


def _priority(value: str, where: str) -> str:
    if value not in PRIORITIES:
        raise UsageError(f"{where}: priority={value}", hint=f"use {' or '.join(PRIORITIES)}")
    return value


_OPTIONS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "share": _share,
    "sms": _sms,
    "priority": _priority,
}
