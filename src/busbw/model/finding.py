"""A finding: what was concluded, from what, how bad it is, and what to try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar


class Severity(StrEnum):
    """``info`` is worth knowing, ``warning`` may spoil the numbers, ``error`` ends a run before they are
    made.
    """

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """``claim`` is one line with the values that make it so; ``evidence`` where they come from, empty where
    the claim has all; ``rank`` and ``host`` name the odd one, where it is one; ``node`` is the engine's
    name of a host that is to be left out. ``check`` is the row of the catalogue that found it.
    """

    severity: Severity
    claim: str
    evidence: str = ""
    hint: str = ""
    rank: int | None = None
    host: str = ""
    check: str = ""
    node: str = ""


def strictly(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same with every warning an error."""
    return tuple(
        replace(each, severity=Severity.ERROR) if each.severity is Severity.WARNING else each
        for each in findings
    )


_F = TypeVar("_F", bound=Finding)


def worst_first(findings: Iterable[_F]) -> tuple[_F, ...]:
    """Errors, then warnings, then the rest; otherwise in their order."""
    order = (Severity.ERROR, Severity.WARNING, Severity.INFO)
    return tuple(sorted(findings, key=lambda each: order.index(each.severity)))


def errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that end a run."""
    return tuple(each for each in findings if each.severity is Severity.ERROR)
