"""Who exchanges what with whom in a case, in words that are equal where it is. Pure.

The words are of the plan alone, so that a launch that failed before it knew its world has the same ones;
``where`` adds what only the world shows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final

from busbw.model.case import Case
from busbw.model.counts import SHARES, CountTable, table_of
from busbw.model.record import NOT_STATED, RunRecord
from busbw.units import counted

Groups = tuple[tuple[int, ...], ...]

EVENLY: Final = "of all ranks together, evenly"
_SHOWN: Final = 4  # of groups and pairs; more are distinguished by a digest


def pattern_of(record: RunRecord, case: Case) -> str:
    """Empty where all ranks together exchange evenly, in one call."""
    plan, words = record.plan.of_case(case), []
    groups = _groups(record, plan.groups)
    if groups and not _is_whole(groups):
        words.append(_group_words(groups))
    if case.coalesce:
        words.append(f"coalesced {','.join(map(str, case.coalesce))}")
    table = table_of(plan.counts, case.collective, case.cycle)
    if table is not None:
        words.append(_count_words(table) + (", evenly spread" if case.even else ""))
    ring = [(rank, (rank + 1) % len(plan.pairs)) for rank in range(len(plan.pairs))]
    if case.collective == "permute" and (pairs := sorted(plan.pairs)) != ring:
        shown = ", ".join(f"{source}->{target}" for source, target in pairs[:_SHOWN])
        words.append(f"pairs {shown}{_rest(pairs)}")
    return ", ".join(words)


def joined(pattern: str, place: str) -> str:
    """A pattern with ``where``: what must be equal for two bandwidths to be of the same thing."""
    return ", ".join(filter(None, (pattern, place)))


def where(record: RunRecord) -> str:
    """Of groups: how many ranks there are in all, and on how many nodes each group is; else empty."""
    groups, world = _groups(record, record.plan.groups), record.world
    if not groups or world is None:
        return ""
    size = max(world.size, len(world.ranks))
    host_of = {rank.rank: rank.host for rank in world.ranks if rank.host != NOT_STATED}
    if _is_whole(groups) and len(groups[0]) == size:
        return ""
    words = f"of {size} ranks"
    if len(set(host_of.values())) < 2 or any(rank not in host_of for group in groups for rank in group):
        return words
    nodes = {len({host_of[rank] for rank in group}) for group in groups}
    least, most = min(nodes), max(nodes)
    return f"{words}, each on {f'{least} to ' if least < most else ''}{counted(most, 'node')}"


def _groups(record: RunRecord, groups: Groups) -> Groups:
    """Those of the plan, or of the communicators that an imported log gives its ranks."""
    if groups or record.source is None or record.world is None:
        return groups
    found: dict[object, list[int]] = defaultdict(list)
    for rank in record.world.ranks:
        found[rank.facts.get("group", 0)].append(rank.rank)
    return tuple(map(tuple, found.values())) if len(found) > 1 else ()


def _is_whole(groups: Groups) -> bool:
    """Whether it is one group of the first ranks in their order, as without groups."""
    return len(groups) == 1 and groups[0] == tuple(range(len(groups[0])))


@lru_cache(maxsize=32)
def _group_words(groups: Groups) -> str:
    shown = " | ".join(map(_members, groups[:_SHOWN]))
    count = f"{len(groups)} groups at once" if len(groups) > 1 else "1 group"
    return f"{count} {shown}{_rest(groups)}"


def _members(group: tuple[int, ...]) -> str:
    """``0-7``, ``0-14/2`` for every second rank, else one by one."""
    step = group[1] - group[0] if len(group) > 1 else 1
    if len(group) > 2 and step > 0 and group == tuple(range(group[0], group[-1] + 1, step)):
        return f"{group[0]}-{group[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, group[:8])) + (f",... {_digest(group)}" if len(group) > 8 else "")


@lru_cache(maxsize=32)
def _count_words(table: CountTable) -> str:
    """The number that a table was made from; of a file its content, wherever it lies."""
    if table.unit == SHARES:
        return f"counts {table.origin}"
    said = (table.unit, table.by_distance, table.whole, table.send, table.send_offsets, table.recv_offsets)
    return f"counts of a file ({_digest(said)})"


def _rest(values: Sequence[object]) -> str:
    return f" ... ({_digest(values)})" if len(values) > _SHOWN else ""


def _digest(value: object) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:8]
