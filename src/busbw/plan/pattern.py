"""Who exchanges what in a run: groups, tables of counts and pairs, from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import CountTable
from busbw.plan.counts_file import read_matrix, read_metadata
from busbw.plan.flags.flag import flag_of
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
