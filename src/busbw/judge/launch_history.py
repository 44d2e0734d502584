"""By how much launches of one machine differ, from those that it made before. Pure.

Successive launches of the same cases on the same kind of machine, with equal versions and settings, are
compared: what changes slowly, as a driver does, is in few of these differences. Where the links of GPUs set
the pace, a launch that was out of line as a whole, as on a faulty link, says nothing of the scatter and is
left out. Elsewhere healthy launches fall on levels (one in ten was 39 % slower below 4 KiB on 4 x H200), and
all count. Few launches have not met all levels: the default counts as ten launches beside them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from busbw.judge import compare_arms
from busbw.judge.compare_arms import LAUNCH_TIMES, CaseKey
from busbw.judge.matching import machine_of, measurement_of
from busbw.judge.own_reference import launches_of, reference_of
from busbw.judge.references.reference import Reference
from busbw.judge.scatter import LARGE, SMALL, Prior, Scatter, SizeClass, size_class
from busbw.model.record import RunRecord, RunStatus
from busbw.record.launch_times import LaunchTimes
from busbw.stats.moderated import moderated
from busbw.units import counted

EARLIER_RUNS: Final = "earlier-runs"  # how references of them are named
LEAST_LAUNCHES: Final = 4
_NEWEST: Final = 50  # of each kind of run: a machine that was mended forgets
_DEFAULT_DEGREES: Final = 10
_NORMAL: Final = 1.4826  # median of |x| to standard deviation, of normal x
# A launch is out of line where all of its cases together are this far off, and four deviations of launches.
_OUT_OF_LINE: Final = 0.05
_DEVIATIONS: Final = 4

_A_SIZE: Final = {SizeClass.SMALL: 1, SizeClass.MEDIUM: SMALL, SizeClass.LARGE: LARGE}

_Launch = Mapping[tuple[str, int], float]  # the logarithm of its time, by kind and size


def launch_times(record: RunRecord, run: str) -> LaunchTimes | None:
    """What is kept of a run; None where it did not come to its end, was imported, profiled or a hunt, or is
    the summary of launches that are kept one by one.
    """
    is_summary = any(LAUNCH_TIMES in result.evidence for result in record.results)
    is_other = record.source is not None or record.hunt or record.profiled or is_summary
    if is_other or record.status is not RunStatus.COMPLETE:
        return None
    times: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for key, (time_ns, *_) in launches_of((record,)).items():
        if time_ns > 0:
            times[key.collective][key.kind][key.size_bytes] = time_ns
    if not times:
        return None
    return LaunchTimes(run, record.ended or record.created, machine_of(record), _alike(record), times)


def _alike(record: RunRecord) -> str:
    """A digest of what changes a measurement."""
    what = tuple(measurement_of(record).values())
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def prior_of(launches: Iterable[LaunchTimes], record: RunRecord, others: Sequence[RunRecord] = ()) -> Prior:
    """What earlier launches on this run's kind of machine say, without those of the run itself, or of others
    that it is held against.
    """
    machine, own = machine_of(record), (record, *others)
    groups: dict[str, list[LaunchTimes]] = defaultdict(list)
    for launch in sorted(launches, key=lambda launch: launch.ended):
        if launch.machine == machine and not any(_is_of(each, launch) for each in own):
            groups[launch.alike].append(launch)
    newest = [group[-_NEWEST:] for group in groups.values()]
    operations = {"", *(operation for group in newest for launch in group for operation in launch.times_ns)}
    default = Prior(on_device(record))
    found = {
        (operation, sizes): scatter
        for operation in operations
        for sizes in SizeClass
        if (scatter := _scatter(newest, operation, sizes, default)) is not None
    }
    return replace(default, known=found)


def earlier_runs(launches: Iterable[LaunchTimes], record: RunRecord) -> tuple[Reference, ...]:
    """References of what earlier launches of the same cases reached, equal in machine, versions and settings.
    On GPUs those that were out of line as a whole are left out, as for the scatter.
    """
    machine, alike, ended = machine_of(record), _alike(record), record.ended or record.created
    same = [
        launch
        for launch in sorted(launches, key=lambda launch: launch.ended)
        if launch.machine == machine and launch.alike == alike and launch.ended <= ended
        if not _is_of(record, launch)
    ][-_NEWEST:]
    if on_device(record):
        large = [_logs(launch, "", SizeClass.LARGE) for launch in same]
        same = [launch for launch, ok in zip(same, _are_in_line(large), strict=True) if ok]
    times: dict[CaseKey, tuple[float, ...]] = {}
    for case, _ in record.timed:
        key = compare_arms.key_of(case, record)
        of_kind = (launch.times_ns.get(key.collective, {}).get(key.kind, {}) for launch in same)
        if found := tuple(sizes[key.size_bytes] for sizes in of_kind if key.size_bytes in sizes):
            times[key] = found
    return tuple(
        replace(each, source=f"{counted(len(same), 'earlier run')} of this machine", date=same[-1].ended[:10])
        for each in reference_of(EARLIER_RUNS, record, times)
    )


def _is_of(record: RunRecord, launch: LaunchTimes) -> bool:
    return record.run_id in launch.run.split("/")


def on_device(record: RunRecord) -> bool:
    """Whether its collectives run on GPUs or accelerators."""
    return record.plan.backend in compare_arms.ON_DEVICE


def _logs(launch: LaunchTimes, operation: str, sizes: SizeClass) -> _Launch:
    """Of one operation, or of all."""
    return {
        (kind, size): math.log(time_ns)
        for name, kinds in launch.times_ns.items()
        if operation in ("", name)
        for kind, times in kinds.items()
        for size, time_ns in times.items()
        if size_class(size) is sizes
    }


def _scatter(
    groups: Sequence[Sequence[LaunchTimes]], operation: str, sizes: SizeClass, default: Prior
) -> Scatter | None:
    """Of the differences of successive launches of each group; None of too few launches."""
    usual = default.of(operation, _A_SIZE[sizes]).deviation
    squares: list[float] = []
    launches = 0
    for group in groups:
        kept = [logs for launch in group if (logs := _logs(launch, operation, sizes))]
        if default.on_device and sizes is SizeClass.LARGE:
            kept = [logs for logs, ok in zip(kept, _are_in_line(kept), strict=True) if ok]
        launches += len(kept) if len(kept) > 1 else 0
        last: dict[tuple[str, int], float] = {}
        for logs in kept:
            squares += [(log - last[case]) ** 2 / 2 for case, log in logs.items() if case in last]
            last.update(logs)
    if launches < LEAST_LAUNCHES or not squares:
        return None
    own = math.sqrt(math.fsum(squares) / len(squares))
    return Scatter(moderated(usual, own, launches - 1, _DEFAULT_DEGREES).deviation, launches)


def _are_in_line(launches: Sequence[_Launch]) -> list[bool]:
    """Which are, all of their cases taken together; those without a case are."""
    by_case: dict[tuple[str, int], list[float]] = defaultdict(list)
    for launch in launches:
        for case, log in launch.items():
            by_case[case].append(log)
    centres = {case: median(logs) for case, logs in by_case.items()}
    levels = [
        abs(median([log - centres[case] for case, log in launch.items()] or [0.0])) for launch in launches
    ]
    most = max(_OUT_OF_LINE, _DEVIATIONS * _NORMAL * median(levels or [0.0]))
    return [level <= most for level in levels]
