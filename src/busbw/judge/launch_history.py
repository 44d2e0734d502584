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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Final

from busbw.judge import compare_arms
from busbw.judge.compare_arms import LAUNCH_TIMES, CaseKey, cases_of
from busbw.judge.matching import made_with
from busbw.judge.measured_with import measured_with, variables_of
from busbw.judge.own_reference import reference_of
from busbw.judge.references.reference import Reference
from busbw.judge.scatter import SMALL, Prior, Scatter, SizeClass, size_class
from busbw.model.case import LARGE
from busbw.model.history import KeptCase, Launch, Measured, Testbed
from busbw.model.record import RunRecord, RunStatus
from busbw.stats.launches import moderated
from busbw.units import counted

EARLIER_RUNS: Final = "earlier-runs"  # how references of them are named
LEAST_LAUNCHES: Final = 4
NEWEST: Final = 50  # of each kind of run: a machine that was mended forgets
_DEFAULT_DEGREES: Final = 10
_NORMAL: Final = 1.4826  # median of |x| to standard deviation, of normal x
# A launch is out of line where all of its cases together are this far off, and four deviations of launches.
_OUT_OF_LINE: Final = 0.05
_DEVIATIONS: Final = 4

_A_SIZE: Final = {SizeClass.SMALL: 1, SizeClass.MEDIUM: SMALL, SizeClass.LARGE: LARGE}

_Launch = Mapping[tuple[str, int], float]  # the logarithm of its time, by kind and size


def launch_of(record: RunRecord, run: str, *, excluded: str = "", accepted: str = "") -> Launch | None:
    """What is kept of a run; None where it did not come to its end, was profiled or a hunt, measured nothing,
    or is the summary of launches that are kept one by one.
    """
    is_summary = any(LAUNCH_TIMES in result.evidence for result in record.results)
    if is_summary or record.hunt or record.profiled or record.status is not RunStatus.COMPLETE:
        return None
    cases = {
        case_of(key): Measured(time_ns, None if (busbw := seen.busbw_gb_per_s) is None else busbw * time_ns)
        for key, seen in cases_of(record).items()
        if (time_ns := seen.time_ns)
    }
    if not cases:
        return None
    return Launch(
        run=run,
        ended=_in_utc(record.ended or record.created),
        testbed=testbed_of(record),
        alike=_alike(record),
        cases=cases,
        explains=dict(_explains(record)),
        name=str(record.settings.get("name") or ""),
        tags=tuple(record.settings.get("tag") or ()),
        hosts=record.world.known_hosts if record.world is not None else (),
        version=compare_arms.version(record),
        imported=record.source is not None,
        excluded=excluded,
        accepted=accepted,
    )


def testbed_of(record: RunRecord) -> Testbed:
    """What the launches of one series share: the machine, and the settings without the library's version,
    which is one of the things that may explain why a level changed.
    """
    kind = made_with(record)
    settings = {name: value for name, value in kind.settings.items() if name != "version"}
    settings["backend"] = record.plan.backend
    return Testbed(_digest([kind.machine, settings]), kind.machine, settings)


def case_of(key: CaseKey) -> KeptCase:
    """A case as the index names it."""
    return KeptCase(key.collective, key.kind, key.size_bytes)


def _explains(record: RunRecord) -> Iterator[tuple[str, str]]:
    """What may explain a change of level, by name; what the record does not say is left out."""
    if version := compare_arms.version(record):
        yield "version", version
    found = measured_with(record)
    yield from ((name, ", ".join(values)) for name, values in found.facts.items())
    nics = record.machine.get("nics", {}).get("rdma", ())
    if firmware := sorted({nic["firmware"] for nic in nics if nic.get("firmware")}):
        yield "NIC firmware", ", ".join(firmware)
    yield from ((name, ", ".join(found.of(name))) for name in sorted(found.told))


def _in_utc(text: str) -> str:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.fromtimestamp(0, UTC)
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _alike(record: RunRecord) -> str:
    """A digest of what changes a measurement: what was given for it counts, by whatever name."""
    return _digest([*made_with(record).settings.values(), variables_of(record), record.plan.tuner_table])


def _digest(what: object) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def prior_of(launches: Sequence[Launch], record: RunRecord, others: Sequence[RunRecord] = ()) -> Prior:
    """What earlier launches on this run's kind of machine say, without those of the run itself, or of others
    that it is held against.
    """
    default = Prior(on_device(record))
    groups: dict[str, list[Launch]] = defaultdict(list)
    for launch in _others(launches, record, *others):
        groups[launch.alike].append(launch)
    newest = [group[-NEWEST:] for group in groups.values()]
    operations = {"", *(case.operation for group in newest for launch in group for case in launch.cases)}
    found = {
        (operation, sizes): scatter
        for operation in operations
        for sizes in SizeClass
        if (scatter := _scatter(newest, operation, sizes, default)) is not None
    }
    return replace(default, known=found)


def earlier_runs(launches: Iterable[Launch], record: RunRecord) -> tuple[Reference, ...]:
    """References of what earlier launches of the same cases reached, equal in machine, versions and settings.
    On GPUs those that were out of line as a whole are left out, as for the scatter.
    """
    alike, ended = _alike(record), _in_utc(record.ended or record.created)
    same = [each for each in _others(launches, record) if each.alike == alike and each.ended <= ended]
    same = same[-NEWEST:]
    if on_device(record):
        large = [_logs(launch, "", SizeClass.LARGE) for launch in same]
        same = [launch for launch, ok in zip(same, _are_in_line(large), strict=True) if ok]
    times: dict[CaseKey, tuple[float, ...]] = {}
    for case, _ in record.timed:
        key = compare_arms.key_of(case, record)
        kept = case_of(key)
        if found := tuple(launch.cases[kept].time_ns for launch in same if kept in launch.cases):
            times[key] = found
    return tuple(
        replace(each, source=f"{counted(len(same), 'earlier run')} of this machine", date=same[-1].ended[:10])
        for each in reference_of(EARLIER_RUNS, record, times)
    )


def _others(launches: Iterable[Launch], *records: RunRecord) -> Iterator[Launch]:
    """Those on the machine of the first of these, and of none of them, by their end."""
    machine, own = made_with(records[0]).machine, {record.run_id for record in records}
    for launch in sorted(launches, key=lambda launch: launch.ended):
        if launch.testbed.machine == machine and own.isdisjoint(launch.run.split("/")):
            yield launch


def on_device(record: RunRecord) -> bool:
    """Whether its collectives run on GPUs or accelerators."""
    return record.plan.backend in compare_arms.ON_DEVICE


def _logs(launch: Launch, operation: str, sizes: SizeClass) -> _Launch:
    """Of one operation, or of all."""
    return {
        (case.kind, case.size_bytes): math.log(seen.time_ns)
        for case, seen in launch.cases.items()
        if operation in ("", case.operation) and size_class(case.size_bytes) is sizes
    }


def _scatter(
    groups: Sequence[Sequence[Launch]], operation: str, sizes: SizeClass, default: Prior
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
    offsets = ([log - centres[case] for case, log in launch.items()] for launch in launches)
    levels = [abs(median(each or [0.0])) for each in offsets]
    most = max(_OUT_OF_LINE, _DEVIATIONS * _NORMAL * median(levels or [0.0]))
    return [level <= most for level in levels]
