"""Source-target pairs of permute."""

from __future__ import annotations

from busbw.errors import UsageError
from busbw.planning.json_file import only_entry, rank_numbers, read_entries

Pairs = tuple[tuple[int, int], ...]
_PAIR = 2


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
            raise UsageError(f"{where} has {len(found)} entries", hint="a pair is [source, target]")
        source, target = found
        for what, rank, others in (
            ("source", source, [other for other, _ in pairs]),
            ("target", target, [other for _, other in pairs]),
        ):
            if rank in others:
                raise UsageError(
                    f"{where}: rank {rank} is the {what} of an earlier pair too",
                    hint="every rank sends to one rank and receives from one, at most",
                )
        pairs.append((source, target))
    return tuple(pairs)
