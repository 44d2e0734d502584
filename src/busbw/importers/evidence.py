"""What NCCL says about itself between the rows (NCCL_DEBUG=INFO): kept as evidence, never as a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS

_MOST_VALUES: Final = 16

# Key: what a line tells; the groups, joined by a blank, are the evidence.
_LINES: Final = (
    ("nccl_version", re.compile(r"\b([NR]CCL) version (\S+)")),
    ("network", re.compile(r"Using network (.+?)\s*$")),
    ("network_plugin", re.compile(r"NET/Plugin: Loaded net plugin (.+?)\s*$")),
    ("network_plugin", re.compile(r"NET/OFI (?:Initializing|Using) (aws-ofi-nccl) (\S+)")),
    ("provider", re.compile(r"NET/OFI Selected [Pp]rovider is (\S+?),?(?:\s|$)")),
    ("devices", re.compile(r"NET/(?:IB|Socket) : Using (.+?)\s*$")),
    ("algorithm", re.compile(r"(\w+): (\d+) Bytes -> Algo (\S+) proto (\S+)")),
    ("connected", re.compile(r"Connected (all rings|all trees|NVLS tree|binomial trees|all NVLS trees)")),
    ("setting", re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?\s*$")),
    ("warning", re.compile(r"NCCL WARN (.+?)\s*$")),
)
# One of these is in every line above: most lines of a debug log have none.
_SOME: Final = re.compile(r"CCL version|Using network|NET/|Algo|Connected|set by environment|CCL WARN")


class Evidence:
    """Distinct words by key, with a limit: a debug log repeats itself for every rank and channel."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}

    @staticmethod
    def is_one(line: str) -> bool:
        """Whether NCCL wrote the line."""
        return "CCL" in line and any(mark in line for mark in ("CCL INFO", "CCL WARN", "CCL version"))

    @staticmethod
    def forms(line: str) -> tuple[int, ...]:
        """Which of the kinds of evidence are in a line."""
        if _SOME.search(line) is None:
            return ()
        return tuple(number for number, (_, form) in enumerate(_LINES) if form.search(line))

    def take(self, line: str, forms: tuple[int, ...]) -> None:
        """Take what a line tells, in which there are these kinds."""
        for key, form in (_LINES[number] for number in forms):
            match = form.search(line)
            values = self._found.setdefault(key, {})
            if match is not None and len(values) < _MOST_VALUES:
                values[" ".join(_named(match.groups()) if key == "algorithm" else match.groups())] = None

    def read(self, line: str) -> bool:
        """Take what the line tells; whether it is a line of NCCL at all."""
        if not self.is_one(line):
            return False
        self.take(line, self.forms(line))
        return True

    def as_dict(self) -> dict[str, list[str]]:
        """The evidence, in order of appearance."""
        return {key: list(values) for key, values in self._found.items()}


def _named(groups: Sequence[str]) -> tuple[str, ...]:
    """Function, bytes, algorithm and protocol, where numbers of the last two are told as their names."""
    function, size, algorithm, protocol = groups
    return function, size, _name_of(algorithm, NCCL_ALGORITHMS), _name_of(protocol, NCCL_PROTOCOLS)


def _name_of(word: str, names: Sequence[str]) -> str:
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word
