"""Who exchanges what in a run, from the settings: groups (a file of replica groups, a group size, or an
expression on the rank's number as nccl-tests' NCCL_TESTS_SPLIT has it), tables of counts, and pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import CountTable
from busbw.plan.counts_file import read_matrix, read_metadata
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.run import RunSettings
from busbw.plan.json_file import only_entry, rank_numbers, read_entries
from busbw.plan.neighbours import left_by
from busbw.plan.router import skew_tables, spread_table

# Of source and target.
Pairs = tuple[tuple[int, int], ...]
_PAIR: Final = 2


@dataclass(frozen=True)
class Pattern:
    """See ``Plan``'s fields of these names. ``group_sizes`` has the world's where it is not split."""

    groups: Groups
    group_sizes: tuple[int, ...]
    counts: tuple[CountTable, ...]
    pairs: Pairs


def make_pattern(settings: RunSettings, names: Sequence[str], ranks: int) -> Pattern:
    """Raises UsageError for what cannot be meant together, and for files that are not what they should be."""
    groups = _groups(settings, ranks)
    sizes = tuple(len(members) for members in groups) or (ranks,)
    pairs: Pairs = ()
    if settings.pairs:
        _require("--pairs", names, ("permute",))
        if groups:
            raise UsageError("--pairs cannot be combined with groups", hint="leave the groups out")
        pairs = read_pairs(settings.pairs, ranks)
    return Pattern(groups, tuple(sorted(set(sizes))), _tables(settings, names, sizes), pairs)


def read_pairs(path: str, ranks: int) -> Pairs:
    """The pairs of a file ``{"src_target_pairs": [[[0, 1], [1, 0]]]}``: no rank sends or receives twice; a
    rank may be its own target, or in no pair. Raises UsageError.
    """
    place = f"--pairs {path}: src_target_pairs"
    lists = only_entry(read_entries(path, "--pairs", ("src_target_pairs",)), place)
    pairs: list[tuple[int, int]] = []
    for number, pair in enumerate(lists):
        where = f"{place}[0][{number}]"
        found = rank_numbers(pair, where, ranks)
        if len(found) != _PAIR:
            raise UsageError(f"{where} has {len(found)} entries", hint="write [source, target]")
        source, target = found
        for what, rank, others in (
            ("source", source, [other for other, _ in pairs]),
            ("target", target, [other for _, other in pairs]),
        ):
            if rank in others:
                raise UsageError(
                    f"{where}: rank {rank} is the {what} of an earlier pair too",
                    hint="let every rank send to at most one and receive from at most one",
                )
        pairs.append((source, target))
    return tuple(pairs)


def _groups(settings: RunSettings, ranks: int) -> Groups:
    if settings.beside and (left := left_by(settings, ranks)):
        return (left,)
    match _one_of(settings, {"groups": "", "group_size": None, "split": ""}):
        case "--groups":
            return read_groups(settings.groups, ranks)
        case "--group-size":
            return groups_of_size(settings.group_size or 0, ranks)
        case "--split":
            return split_groups(settings.split, ranks)
    return ()


def _one_of(settings: RunSettings, unsaid: Mapping[str, object]) -> str:
    """The flag of these settings that is given, empty where none is. Raises UsageError for several."""
    given = [flag_of(name) for name, default in unsaid.items() if getattr(settings, name) != default]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined", hint="give one of them")
    return given[0] if given else ""


def _tables(settings: RunSettings, names: Sequence[str], sizes: Sequence[int]) -> tuple[CountTable, ...]:
    flag = _one_of(settings, {"counts": "", "matrix": "", "spread": None, "skew": None})
    if settings.matrix_scale != 1 and not settings.matrix:
        raise UsageError("--matrix-scale needs --matrix", hint="give --matrix FILE")
    if not flag:
        return ()
    if len(set(sizes)) > 1:
        raise UsageError(f"{flag} needs groups of one size, these have {sorted(set(sizes))} ranks")
    allowed = ("alltoallv", "all_gatherv") if flag in ("--counts", "--skew") else ("alltoallv",)
    variable, ranks = _require(flag, names, allowed), sizes[0]
    if flag == "--counts":
        if len(variable) > 1:
            raise UsageError("--counts takes one operation", hint="run alltoallv and all_gatherv separately")
        return (read_metadata(settings.counts, variable[0], ranks),)
    if flag == "--matrix":
        return (read_matrix(settings.matrix, settings.matrix_scale, ranks),)
    if settings.skew is None:
        return (spread_table(settings.spread or 0.0, ranks),)
    skew, seed = settings.skew, settings.seed or 0
    return tuple(table for name in variable for table in skew_tables(skew, name, ranks, seed))


def _require(flag: str, names: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    """The operations that the flag is for, at least one."""
    found = tuple(dict.fromkeys(name for name in names if name in allowed))
    if not found:
        raise UsageError(
            f"{flag} does not apply to {', '.join(names)}", hint=f"use it with {' and '.join(allowed)}"
        )
    return found


# ---- groups of ranks that each run the operation among themselves, all at once ------------------------


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
    by_colour = sorted(enumerate(split_colours(expression, ranks)), key=itemgetter(1))
    return tuple(tuple(rank for rank, _ in own) for _, own in groupby(by_colour, itemgetter(1)))


def split_colours(expression: str, ranks: int) -> list[int]:
    """The expression's value for each rank; a second term takes that of the first. Raises UsageError."""
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
