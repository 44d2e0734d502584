"""From every rank's samples to one series that all ranks share: one max-reduction a look.

A minimum is the negated maximum of negated values, so one reduction of [elapsed, -elapsed, issue, flags]
carries everything that the next decision needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np

from busbw.rank.backends.base import Int64Array, Look
from busbw.rank.world.base import World
from busbw.rank.world.clock import GlobalClock


@dataclass(frozen=True)
class Across:
    """Per sample, over ranks; nanoseconds of k calls each, the same on every rank.

    ``headline`` is what the plan's ``time`` asks for. ``skew`` is last entry minus first entry on a
    synchronised clock, -1 where there is none. ``flags`` holds every bit that any rank raised.

    ``by_group`` has a row for each group that the world was split into, of the headline over its ranks; none
    where the world is one. Then ``headline`` is the slowest group's.
    """

    worst: Int64Array
    best: Int64Array
    issue: Int64Array
    flags: Int64Array
    headline: Int64Array
    skew: Int64Array
    by_group: Int64Array = field(default_factory=lambda: np.empty((0, 0), np.int64))

    @classmethod
    def empty(cls) -> Across:
        """No samples."""
        return cls(*(np.empty(0, np.int64) for _ in fields(cls)[:-1]))

    def extended(self, more: Across) -> Across:
        """Both, one after the other."""
        if not len(self):
            return more
        pairs = ((getattr(self, f.name), getattr(more, f.name)) for f in fields(self))
        return Across(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def __len__(self) -> int:
        return len(self.worst)


@dataclass(frozen=True)
class Grouping:
    """How the world is split: the ranks of each group, and where this rank is (None: it sits out)."""

    members: tuple[tuple[int, ...], ...]
    group: int | None
    rank: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many ranks each group has."""
        return tuple(map(len, self.members))


def across_ranks(
    look: Look,
    flags: Int64Array,
    time: str,
    world: World,
    clock: GlobalClock | None = None,
    grouping: Grouping | None = None,
) -> Across:
    """Reduce one look. Collective over the world; every rank passes the same number of samples.

    ``clock`` is this rank's, where the world has synchronised clocks and the look has clock readings.
    """
    n = len(look.elapsed_ns)
    # A rank that sat out must be neither the slowest nor the fastest.
    fastest = -look.elapsed_ns if look.took_part else np.full(n, -NEVER, np.int64)
    columns = [look.elapsed_ns, fastest, look.issue_ns]
    columns += [(flags >> bit) & 1 for bit in range(_FLAG_BITS)]
    if clock is not None and look.entry_ns is not None and grouping is None:
        entry = clock.to_global(look.entry_ns)
        left = clock.to_global(look.entry_ns + look.elapsed_ns)
        here = (entry, -entry, left)
        columns += here if look.took_part else (np.full(n, -NEVER, np.int64),) * len(here)
    rows = world.max(np.concatenate(columns)).reshape(-1, n)
    worst, best, issue = rows[0], -rows[1], rows[2]
    bits = rows[3 : 3 + _FLAG_BITS]
    skew, span = np.full(n, -1, np.int64), worst
    if len(rows) > 3 + _FLAG_BITS:
        last_entry, first_entry, last_exit = rows[-3], -rows[-2], rows[-1]
        skew, span = last_entry - first_entry, last_exit - first_entry
    raised = sum((row << bit for bit, row in enumerate(bits)), np.zeros(n, np.int64))
    if grouping is not None:
        by_group = _by_group(look, time, world, clock, grouping)
        return Across(worst, best, issue, raised, by_group.max(axis=0), np.full(n, -1, np.int64), by_group)
    headline = _headline(look, time, worst, best, span, world)
    return Across(worst, best, issue, raised, headline, skew)


def _by_group(
    look: Look, time: str, world: World, clock: GlobalClock | None, grouping: Grouping
) -> Int64Array:
    """The headline of every group: each rank fills in its own group's row."""
    own, name = look.elapsed_ns, time.removeprefix("loop-")
    shape = (len(grouping.sizes), len(own))
    takes_part = grouping.group is not None and look.took_part

    def worst(values: Int64Array, *, mine: bool = True) -> Int64Array:
        table = np.full(shape, -NEVER, np.int64)
        if grouping.group is not None and takes_part and mine:
            table[grouping.group] = values
        return world.max(table.reshape(-1)).reshape(shape)

    if name in ("min", "last"):
        return -worst(-own)
    if name == "rank0":
        return worst(own, mine=grouping.rank == 0)
    if name == "avg":
        table = np.zeros((shape[0], shape[1] + 1), np.int64)
        if grouping.group is not None and takes_part:
            table[grouping.group] = (*own, 1)
        sums = world.sum(table.reshape(-1)).reshape(table.shape)
        return np.asarray(sums[:, :-1] // np.maximum(1, sums[:, -1:]), np.int64)
    if name == "span" and clock is not None:
        entry = look.entry_ns if look.entry_ns is not None else np.zeros_like(own)
        return worst(clock.to_global(entry + own)) + worst(-clock.to_global(entry))
    return worst(own)


# SampleFlag's bits that a look can raise: the reasons to exclude.
_FLAG_BITS = 4
# Longer than any sample, and far from where sums of two overflow.
NEVER: Final = 2**61


def _headline(
    look: Look, time: str, worst: Int64Array, best: Int64Array, span: Int64Array, world: World
) -> Int64Array:
    own = look.elapsed_ns
    time = time.removeprefix("loop-")
    if time in ("min", "last"):
        return best
    if time == "span":
        return span
    if time == "avg":
        sums = world.sum(np.append(own, 1) if look.took_part else np.zeros(len(own) + 1, np.int64))
        return np.asarray(sums[:-1] // sums[-1], np.int64)
    if time == "rank0":
        return np.frombuffer(world.broadcast(own.tobytes() if world.rank == 0 else None), np.int64)
    return worst
