"""Groups of ranks that each run the operation among themselves, all at once.

Three ways to say them: a file of replica groups, a group size, or an expression on the rank's number as
nccl-tests' NCCL_TESTS_SPLIT has it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from busbw.errors import UsageError
from busbw.plan.json_file import only_entry, rank_numbers, read_entries

Groups = tuple[tuple[int, ...], ...]

_NUMBER: Final = r"(0x[0-9a-f]{1,8}|[0-9]{1,10})"
_EXPRESSION: Final = re.compile(
    rf"\s*(and|or|mod|div)?\s*{_NUMBER}(?:\s+(and|or|mod|div)\s*{_NUMBER})?\s*", re.IGNORECASE
)
_COLOURS: Final[dict[str, Callable[[int, int], int]]] = {
    "and": lambda rank, value: rank & value,
    "or": lambda rank, value: rank | value,
    "mod": lambda rank, value: rank % value,
    "div": lambda rank, value: rank // value,
}


def read_groups(path: str, ranks: int) -> Groups:
    """The replica groups of a file ``{"replica_groups": [[[0, 1], [2, 3]]]}``: not empty, no rank twice;
    ranks may be missing. Raises UsageError.
    """
    place = f"--groups {path}: replica_groups"
    lists = only_entry(read_entries(path, "--groups", ("replica_groups",)), place)
    groups = tuple(
        rank_numbers(members, f"{place}[0][{number}]", ranks) for number, members in enumerate(lists)
    )
    seen: dict[int, int] = {}
    for number, members in enumerate(groups):
        if not members:
            raise UsageError(f"{place}[0][{number}] is empty", hint="leave out groups without ranks")
        for rank in members:
            if rank in seen:
                where = "twice" if seen[rank] == number else f"in group {seen[rank]} too"
                raise UsageError(f"{place}[0][{number}]: rank {rank} is there {where}")
            seen[rank] = number
    return groups


def groups_of_size(size: int, ranks: int) -> Groups:
    """Neighbouring ranks in groups of ``size``, which divides the number of ranks. Raises UsageError."""
    if size < 1 or ranks % size:
        raise UsageError(
            f"--group-size {size} does not divide {ranks} ranks",
            hint="give a divisor, or --groups FILE for groups of different sizes",
        )
    return tuple(tuple(range(first, first + size)) for first in range(0, ranks, size))


def split_groups(expression: str, ranks: int) -> Groups:
    """Ranks with equal values of the expression, in order of these values. Raises UsageError."""
    members: dict[int, list[int]] = defaultdict(list)
    for rank, colour in enumerate(split_colours(expression, ranks)):
        members[colour].append(rank)
    return tuple(tuple(members[colour]) for colour in sorted(members))


def split_colours(expression: str, ranks: int) -> list[int]:
    """The value of the expression for each rank; a second term takes the value of the first. Raises
    UsageError.
    """
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise UsageError(
            f"--split {expression!r} cannot be read",
            hint='give "MOD 4", "DIV 8", "AND 0x7", "OR 0x3", 0x7 or two of them: "DIV 4 MOD 2"',
        )
    said = [(match[1] or "and", match[2]), *([(match[3], match[4])] if match[3] else [])]
    terms = [(name.lower(), int(number, 16 if number[:2] in ("0x", "0X") else 10)) for name, number in said]
    if ("mod", 0) in terms or ("div", 0) in terms:
        raise UsageError(f"--split {expression!r} divides by zero", hint="give 1 or more")
    colours = list(range(ranks))
    for name, value in terms:
        colours = [_COLOURS[name](colour, value) for colour in colours]
    return colours
