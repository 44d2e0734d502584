"""The options of nccl-tests that would ask for a record's cases: its headers repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from busbw.exporters.rows import Table, ranks
from busbw.model.record import RankInfo, RunRecord

# What stands for a number that differs from case to case, or is not known.
VARIES: Final = 0


@dataclass(frozen=True)
class Options:
    """Under the names of nccl-tests' header. ``iters`` and ``warmup_iters`` count groups of ``agg_iters``
    calls; VARIES where cases differ. ``step`` is VARIES where sizes have no constant step.
    """

    min_bytes: int
    max_bytes: int
    step: int
    step_kind: str  # factor or bytes
    warmup_iters: int
    iters: int
    agg_iters: int
    validation: int
    graph: int
    unalign: int


def options(record: RunRecord, table: Table) -> Options:
    """The options of one table."""
    plan = record.plan.of_case(table.rows[0].case)  # a table is of one stream
    sizes = sorted({row.case.requested_bytes for row in table.rows})
    step, step_kind = _step(sizes)
    timed = [result for result in table.results if result.time_ns is not None]
    group = plan.options.aggregate
    calls = plan.limits.calls or _common(result.samples * result.calls_per_sample for result in timed)
    warmup = plan.limits.warmup_calls
    if warmup is None:
        warmup = _common(result.warmup_calls for result in timed)
    return Options(
        min_bytes=sizes[0],
        max_bytes=sizes[-1],
        step=step,
        step_kind=step_kind,
        warmup_iters=warmup // group,
        iters=calls // group,
        agg_iters=group,
        validation=plan.checks,
        graph=plan.options.graph,
        unalign=plan.options.unalign,
    )


def options_notes(asked: Options) -> list[str]:
    """What the zeros of a header stand for."""
    lines = []
    if VARIES in (asked.iters, asked.warmup_iters):
        lines.append(f"iters or warmup iters {VARIES} = differs from case to case, or not known")
    if asked.step == VARIES:
        lines.append(f"step {VARIES} = the sizes have no constant step")
    return lines


def _common(values: Iterable[int]) -> int:
    """The value that all have; VARIES where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else VARIES


def _step(sizes: Sequence[int]) -> tuple[int, str]:
    """How to come from one size to the next, and by what: a factor, or bytes to add."""
    pairs = list(pairwise(sizes))
    if not pairs:
        return 1, "factor"
    factors = {high // low if low and high % low == 0 else VARIES for low, high in pairs}
    if len(factors) == 1 and VARIES not in factors:
        return factors.pop(), "factor"
    steps = {high - low for low, high in pairs}
    return (steps.pop() if len(steps) == 1 else VARIES), "bytes"


def device_number(info: RankInfo) -> int:
    """The device as nccl-tests counts: its index on the host. CPU ranks have their own number there."""
    index = info.facts.get("device_index", info.local_rank)
    return index if isinstance(index, int) else info.local_rank


def bus_id(info: RankInfo) -> str:
    """Domain, bus and device of a GPU: 0000:0f:00; empty for CPU ranks."""
    return str(info.facts.get("pci_bus_id") or info.facts.get("bus_id") or "").partition(".")[0].lower()


def group(record: RunRecord, info: RankInfo) -> int:
    """The number of the communicator of a rank: by the run's groups, or by the log that was imported. A rank
    that sat out gets one behind all groups.
    """
    if record.plan.groups:
        role = record.plan.group_of(info.rank, ranks(record) or 0)
        return len(record.plan.groups) if role is None else role.group
    value = info.facts.get("group", 0)
    return value if isinstance(value, int) else 0
