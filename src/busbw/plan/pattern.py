"""Who exchanges what in a run: groups, tables of counts and pairs, from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import CountTable
from busbw.plan.counts_file import read_matrix, read_metadata
from busbw.plan.flags.run import RunSettings
from busbw.plan.groups import Groups, groups_of_size, read_groups, split_groups
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
    said = {
        "--groups": bool(settings.groups),
        "--group-size": settings.group_size is not None,
        "--split": bool(settings.split),
    }
    given = [flag for flag in said if said[flag]]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined", hint="give one of them")
    if settings.groups:
        return read_groups(settings.groups, ranks)
    if settings.group_size is not None:
        return groups_of_size(settings.group_size, ranks)
    if settings.split:
        return split_groups(settings.split, ranks)
    left = left_by(settings, ranks) if settings.beside else ()
    return (left,) if left else ()


def _tables(settings: RunSettings, names: Sequence[str], sizes: Sequence[int]) -> tuple[CountTable, ...]:
    said = {
        "--counts": bool(settings.counts),
        "--matrix": bool(settings.matrix),
        "--spread": settings.spread is not None,
        "--skew": settings.skew is not None,
    }
    given = [flag for flag in said if said[flag]]
    if settings.matrix_scale != 1 and not settings.matrix:
        raise UsageError("--matrix-scale needs --matrix", hint="give --matrix FILE")
    if not given:
        return ()
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined", hint="give one of them")
    if len(set(sizes)) > 1:
        raise UsageError(f"{given[0]} needs groups of one size, these have {sorted(set(sizes))} ranks")
    allowed = ("alltoallv", "all_gatherv") if given[0] in ("--counts", "--skew") else ("alltoallv",)
    variable = _require(given[0], names, allowed)
    if settings.skew is not None:
        skew, seed = settings.skew, settings.seed or 0
        return tuple(table for name in variable for table in skew_tables(skew, name, sizes[0], seed))
    return tuple(_table(settings, given[0], name, variable, sizes[0]) for name in variable)


def _table(settings: RunSettings, flag: str, name: str, variable: Sequence[str], ranks: int) -> CountTable:
    if flag == "--counts":
        if len(variable) > 1:
            raise UsageError("--counts takes one operation", hint="run alltoallv and all_gatherv separately")
        return read_metadata(settings.counts, name, ranks)
    if flag == "--matrix":
        return read_matrix(settings.matrix, settings.matrix_scale, ranks)
    assert settings.spread is not None, "one of the four flags was given"
    return spread_table(settings.spread, ranks)


def _require(flag: str, names: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    """The operations that the flag is for, at least one."""
    found = tuple(dict.fromkeys(name for name in names if name in allowed))
    if not found:
        raise UsageError(
            f"{flag} does not apply to {', '.join(names)}", hint=f"use it with {' and '.join(allowed)}"
        )
    return found
