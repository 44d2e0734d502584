"""What is known of a case on one side: its times, over cycles of a launch and over launches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from busbw.model.result import CaseResult, Status
from busbw.stats.ratio import Basis


@dataclass(frozen=True)
class Observed:
    """What an arm knows of a case.

    ``times_ns``: one a launch; ``blocks``: the block of each, where arms were launched in turn. ``interval``
    bounds a single launch's time over its samples. ``error`` is why there is no time, or how many launches
    have none beside those in ``times_ns``.
    """

    times_ns: tuple[float, ...]
    basis: Basis
    blocks: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None
    busbw_gb_per_s: float | None = None
    status: Status = Status.GOOD
    error: str = ""

    @property
    def time_ns(self) -> float | None:
        """The headline: the one time, or the median over launches."""
        return median(self.times_ns) if self.times_ns else None


def bandwidth_of(parts: Iterable[Observed | CaseResult], time_ns: float) -> float | None:
    """The bus bandwidth in GB/s at ``time_ns``: of the bytes that the parts' own bandwidths and times give,
    of which bandwidth x time is the same whatever the time. A mean of bandwidths is none of the mean time.
    """
    moved = [
        part.busbw_gb_per_s * part.time_ns
        for part in parts
        if part.busbw_gb_per_s is not None and part.time_ns is not None
    ]
    return median(moved) / time_ns if moved else None


def of_cycles(repeats: list[Observed]) -> Observed:
    """Repetitions of the sweep: their median is the launch's time, of each launch; wrong once is wrong."""
    if (wrong := _first_wrong(repeats)) is not None:
        return wrong
    good = [found for found in repeats if found.times_ns]
    if len(repeats) == 1 or not good:
        return repeats[0]
    times = over_cycles([found.times_ns for found in good])
    return replace(
        good[0],
        times_ns=times,
        blocks=good[0].blocks[: len(times)],
        interval=_of_middle([found.interval for found in sorted(good, key=lambda found: found.times_ns)]),
        busbw_gb_per_s=bandwidth_of(good, median(times)),
    )


def over_cycles(repeats: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The times of the launches, from those of each cycle."""
    return tuple(median(times) for times in zip(*repeats, strict=False))


def _of_middle(intervals: Sequence[tuple[float, float] | None]) -> tuple[float, float] | None:
    """What holds the intervals of the cycle in the middle, or of the two there; None where one has none."""
    middle = intervals[(len(intervals) - 1) // 2 : len(intervals) // 2 + 1]
    known = [interval for interval in middle if interval is not None]
    if len(known) < len(middle):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _first_wrong(found: Iterable[Observed]) -> Observed | None:
    return next((seen for seen in found if seen.status is Status.WRONG), None)


def wrong_in_some(found: Sequence[Observed]) -> Observed | None:
    """A case over several launches, where its data were wrong in one or more: it has no time then, since the
    right launches say nothing of what makes the others wrong. None where they were wrong in none.
    """
    first = _first_wrong(found)
    if first is None:
        return None
    count = sum(seen.status is Status.WRONG for seen in found)
    error = f"wrong data in {count} of {len(found)} launches: {first.error}"
    return Observed((), Basis.LAUNCHES, status=Status.WRONG, error=error)


def incomplete(lost: int, launches: int) -> str:
    """What is said of a case that some launches have no number of; empty where none is lost."""
    return f"{lost} of {launches} launches have no number" if lost else ""


def of_launches(found: list[Observed]) -> Observed:
    """Several records of one case: each is a launch."""
    if len(found) == 1:
        return found[0]
    if (bad := wrong_in_some(found)) is not None:
        return bad
    good = [part for part in found if part.times_ns]
    if not good:
        return found[0]
    times = tuple(time for part in good for time in part.times_ns)
    basis = Basis.LAUNCHES if len(times) > 1 else good[0].basis
    return Observed(
        times, basis, interval=good[0].interval if len(times) == 1 else None,
        busbw_gb_per_s=bandwidth_of(good, median(times)),
        error=incomplete(len(found) - len(good), len(found)),
    )  # fmt: skip
