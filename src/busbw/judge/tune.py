"""What a race of NCCL's choices showed, what fresh launches confirmed, and the tables that hold it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Final

from busbw.judge.compare import Comparison, Verdict
from busbw.model.arm import FUNCTIONS, Arm
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.record import RunRecord, WorldInfo
from busbw.model.result import CaseResult, Status

# A gain of less is not worth a table that has to be kept.
LEAST_GAIN: Final = 0.01
CSV_HEAD: Final = "# collective,first,last,algorithm,protocol,channels,nodes,ranks,group,registered"


@dataclass(frozen=True)
class Tuned:
    """What one operation and size came to. Gains are shares of NCCL's own time that are saved: from the race,
    with what its intervals leave (``gain_low``, ``gain_high``).

    ``arm`` is the choice to take, as text; empty where nothing is surely faster than NCCL's own. ``hidden``
    is the gain that the fastest other arm may have all the same. ``tried`` arms were measured, ``wrong`` had
    wrong data or failed. ``confirmed`` is by how much it was faster in fresh launches, None where these did
    not show it; ``verdict`` is what they showed, empty before.
    """

    operation: str
    dtype: str
    op: str
    size_bytes: int
    default_ns: float
    arm: str = ""
    time_ns: float | None = None
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0
    hidden: float = 0.0
    tried: int = 0
    wrong: tuple[str, ...] = ()
    verdict: str = ""
    confirmed: float | None = None


@dataclass(frozen=True)
class Tuning:
    """What a whole race came to, on so many nodes (as ``nodes_of``) and ranks. ``lost`` are arms in which it
    died or stood still; ``was_confirmed``: fresh launches were made.
    """

    nodes: int
    ranks: int
    tuned: tuple[Tuned, ...]
    lost: tuple[str, ...] = ()
    was_confirmed: bool = False

    @property
    def winners(self) -> tuple[Tuned, ...]:
        """What gained in the race."""
        return tuple(each for each in self.tuned if each.arm)


def nodes_of(world: WorldInfo) -> int:
    """What a table's filter of nodes is: hosts; -1, any, where NVLink goes from host to host, since NCCL may
    count all hosts of such a domain as one node (init.cc).
    """
    hosts = len(world.known_hosts) or 1
    return -1 if hosts > 1 and any(place.nvlink_domain for place in world.places) else hosts


def races(record: RunRecord) -> tuple[Tuned, ...]:
    """The winners of a run with arms, by operation and size."""
    groups: dict[tuple[str, str, str, int], list[tuple[Case, CaseResult]]] = defaultdict(list)
    for result in record.results:
        case = record.plan.cases[result.case]
        groups[case.collective, case.dtype, case.op, case.size_bytes].append((case, result))
    found: list[Tuned] = []
    for key, raced in groups.items():
        before = found[-1].arm if found and found[-1].operation == key[0] else ""
        tuned = _race(key, raced, before)
        if tuned is not None:
            found.append(tuned)
    return tuple(found)


def lost_arm(record: RunRecord, visited: int | None) -> str:
    """The arm of the case that ranks visited when they died or stood still, else that of the first one that
    was not run; empty where that is NCCL's own choice, or none.
    """
    not_run = (result.case for result in record.results if result.status is Status.NOT_RUN)
    index = visited if visited is not None else next(not_run, None)
    case = record.plan.cases[index] if index is not None else None
    return f"{case.collective} {case.arm}" if case is not None and case.arm else ""


def _race(
    key: tuple[str, str, str, int], raced: Sequence[tuple[Case, CaseResult]], before: str
) -> Tuned | None:
    default = next((result for case, result in raced if not case.arm), None)
    if default is None or not default.time_ns:
        return None
    good = {
        Arm.of(case.arm): result
        for case, result in raced
        if case.arm and result.status is Status.GOOD and result.time_ns
    }
    wrong = tuple(case.arm for case, result in raced if case.arm and result.status is Status.WRONG)
    tuned = Tuned(*key, default_ns=default.time_ns, tried=len(good), wrong=wrong)
    # Those without an interval were dropped after one pass, or their samples show none: nothing is claimed.
    arms = {arm: result for arm, result in good.items() if result.low_ns and result.high_ns}
    if not arms:
        return tuned
    best = _best(arms, before)
    result = arms[best]
    low = 1 - (result.high_ns or 0.0) / (default.low_ns or default.time_ns)
    high = 1 - (result.low_ns or 0.0) / (default.high_ns or default.time_ns)
    if low < LEAST_GAIN or default.low_ns is None:
        return replace(tuned, hidden=max(high, 0.0))
    gain = 1 - (result.time_ns or 0.0) / default.time_ns
    return replace(tuned, arm=str(best), time_ns=result.time_ns, gain=gain, gain_low=low, gain_high=high)


def _best(arms: Mapping[Arm, CaseResult], before: str) -> Arm:
    """The fastest, or one that is as fast: the neighbouring size's, so that tables have few rows, or the one
    with the fewest channels, which leave most of the GPU to others. NCCL's own number of channels is not what
    every reader of a table makes of -1.
    """
    times = {arm: result.time_ns or 0.0 for arm, result in arms.items()}
    fastest = min(times, key=lambda arm: times[arm])
    high_ns = arms[fastest].high_ns or 0.0
    alike = [
        arm
        for arm, result in arms.items()
        if times[arm] <= times[fastest] * (1 + LEAST_GAIN) and (result.low_ns or 0.0) <= high_ns
    ]
    return min(alike, key=lambda arm: (str(arm) != before, arm.channels == 0, arm.channels, times[arm]))


def confirmed(tuning: Tuning, comparison: Comparison) -> Tuning:
    """With what fresh launches with the table showed against NCCL's own choice."""
    rows = {
        (row.key.collective, row.key.dtype, row.key.op, row.key.size_bytes): row
        for row in comparison.rows
        if row.key.placement == Placement.OUT_OF_PLACE
    }
    found = list(tuning.tuned)
    for at, each in enumerate(found):
        row = rows.get((each.operation, each.dtype, each.op, each.size_bytes))
        if each.arm and row is not None:
            gain = 1 - 1 / row.speedup if row.verdict is Verdict.FASTER and row.speedup else None
            found[at] = replace(each, verdict=row.verdict.value, confirmed=gain)
    return replace(tuning, tuned=tuple(found), was_confirmed=True)


# ---- tables -----------------------------------------------------------------------------------------------


def table_text(tuning: Tuning, *, only_confirmed: bool) -> str:
    """NVIDIA's ten columns, which the plugin of busbw, NVIDIA's example and RCCL read, and an eleventh, which
    only busbw's reads, for a row with a size of chunks. Ranges reach half way, by factors, to sizes that have
    another winner or none; neighbours with one winner are one row. Empty where there is no row.
    """
    lines = []
    by_kind: dict[str, list[Tuned]] = defaultdict(list)
    for each in tuning.tuned:
        by_kind[each.operation].append(each)
    for operation, sizes in by_kind.items():
        for first, last, arm in _ranges(sorted(sizes, key=lambda each: each.size_bytes), only_confirmed):
            fields = (FUNCTIONS[operation], first, last, arm.algorithm.lower(), arm.protocol.lower())
            filters = (arm.channels or -1, tuning.nodes, tuning.ranks, -1, -1)
            chunk = (arm.chunk_bytes,) if arm.chunk_bytes else ()
            lines.append(",".join(map(str, (*fields, *filters, *chunk))))
    return "\n".join((CSV_HEAD, *lines, "")) if lines else ""


def _ranges(sizes: Sequence[Tuned], only_confirmed: bool) -> list[tuple[int, int, Arm]]:
    found: list[tuple[int, int, Arm]] = []
    for place, each in enumerate(sizes):
        if not each.arm or (only_confirmed and each.confirmed is None):
            continue
        arm = Arm.of(each.arm)
        first = isqrt(sizes[place - 1].size_bytes * each.size_bytes) + 1 if place else each.size_bytes
        is_last = place + 1 == len(sizes)
        last = each.size_bytes if is_last else isqrt(each.size_bytes * sizes[place + 1].size_bytes)
        if found and found[-1][2] == arm and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last, arm)
        else:
            found.append((first, last, arm))
    return found
