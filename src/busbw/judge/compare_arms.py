"""Records to arms: what is compared. An arm is a setup, a version or a log, with its times of every case.

One launch is one observation. A series of ``busbw run --launches`` has several; so has an arm of several logs
of the same cases, since each log is a launch of its own.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from busbw.errors import UsageError
from busbw.judge.measured_with import MeasuredWith, measured_with, nodes_of
from busbw.judge.pattern import pattern_of, where
from busbw.judge.rotation import rotated_bytes
from busbw.model.case import ALONE, Case
from busbw.model.collective import known_collective
from busbw.model.record import INCOMPLETE, NOT_STATED, RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.units import first_of


@dataclass(frozen=True)
class Observed:
    """What an arm knows of a case.

    ``times_ns``: one a launch; ``blocks``: the block of each, where arms were launched in turn. ``interval``
    bounds a single launch's time over its samples. ``error`` is why there is no time, or how many launches
    have none beside those in ``times_ns``.
    """

    times_ns: tuple[float, ...]
    blocks: tuple[int, ...] = ()
    interval: tuple[float, float] | None = None
    busbw_gb_per_s: float | None = None
    status: Status = Status.GOOD
    error: str = ""

    @property
    def time_ns(self) -> float | None:
        """The headline: the one time, or the median over launches."""
        return median(self.times_ns) if self.times_ns else None

    @property
    def error_share(self) -> float | None:
        """The relative standard error of one launch by its samples; None where that is not known."""
        if self.interval is None:
            return None
        low, high = self.interval
        return (high - low) / (high + low) / 2


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


def _of_cycles(repeats: list[Observed]) -> Observed:
    """Repetitions of the sweep: their median is the launch's time, of each launch; wrong once is wrong."""
    wrong = next((found for found in repeats if found.status is Status.WRONG), None)
    good = [found for found in repeats if found.times_ns]
    if wrong is not None or len(repeats) == 1 or not good:
        return wrong or repeats[0]
    launches = zip(*(found.times_ns for found in good), strict=False)
    times = tuple(median(cycles) for cycles in launches)
    # What holds the intervals of the cycle in the middle, or of the two there, where all have one.
    ordered = sorted(good, key=lambda found: found.times_ns)
    middle = [found.interval for found in ordered[(len(good) - 1) // 2 : len(good) // 2 + 1]]
    known = [interval for interval in middle if interval is not None]
    holding = (min(low for low, _ in known), max(high for _, high in known)) if known else None
    return replace(
        good[0],
        times_ns=times,
        blocks=good[0].blocks[: len(times)],
        interval=holding if len(known) == len(middle) else None,
        busbw_gb_per_s=bandwidth_of(good, median(times)),
    )


def of_launches(found: Sequence[Observed], unheard: int = 0) -> Observed:
    """One case in several records: each is a launch. ``unheard`` more failed and left no record. Where data
    were wrong in one there is no time: the right launches say nothing of what makes others wrong.
    """
    launches = len(found) + unheard
    if launches == 1:
        return found[0]
    if wrong := [seen for seen in found if seen.status is Status.WRONG]:
        error = f"wrong data in {len(wrong)} of {len(found)} launches: {wrong[0].error}"
        return Observed((), status=Status.WRONG, error=error)
    good = [part for part in found if part.times_ns]
    if not good:
        return next((part for part in found if part.status is not Status.NOT_RUN), found[0])
    times = tuple(time for part in good for time in part.times_ns)
    lost = launches - len(good)
    return Observed(
        times,
        blocks=tuple(block for part in good for block in part.blocks),
        interval=good[0].interval if len(times) == 1 else None,
        busbw_gb_per_s=bandwidth_of(good, median(times)),
        error=f"{lost} of {launches} launches have no number" if lost else "",
    )


LAUNCH_TIMES: Final = "launch_times_ns"
# Of setups that were launched in turn: the number of each launch's block, and the name of the series.
LAUNCH_BLOCKS: Final = "launch_blocks"
SERIES: Final = "series"
_MOST_SHOWN: Final = 4  # days, or nodes
_DATE: Final = re.compile(r"(\d{4})[-_.]?(\d\d)[-_.]?(\d\d)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)+")
# Settings of a run that a setup may change, by what of a time they change: its definition, or its buffers.
# The operation is the same, so setups that were launched in turn are compared in spite of them.
DEFINING_FLAGS: Final = ("cudagraph",)
BUFFER_FLAGS: Final = ("buffers", "local_register", "unalign", "hot")
_GRAPH: Final = "graph"
# Backends, of busbw and of imported logs, whose operations run on a GPU or accelerator.
ON_DEVICE: Final = frozenset({"nccl", "rccl", "nccom"})
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class CaseKey:
    """What must be equal for two times to be of the same thing. Where operations ran at once, ``collective``
    says what ran beside it too; ``pattern`` is as ``judge.pattern`` has it.
    """

    collective: str
    dtype: str
    op: str
    root: int
    placement: str
    size_bytes: int
    pattern: str = ""

    @property
    def kind(self) -> str:
        """What is compared over its sizes, in words."""
        words = kind_words(self.collective, self.dtype, self.op, self.root, self.placement)
        return f"{words}, {self.pattern}" if self.pattern else words

    @property
    def plain(self) -> CaseKey:
        """The same case, whoever exchanges what with whom."""
        return replace(self, pattern="")


def kind_words(operation: str, dtype: str, op: str, root: int, placement: str) -> str:
    """An operation with all that is one curve over sizes; a ``root`` of -1 is none."""
    return " ".join(filter(None, (operation, dtype, op, placement, f"root {root}" if root >= 0 else "")))


@dataclass(frozen=True)
class Failure:
    """Why there is nothing of an operation. ``cases`` or ``sizes`` (from, to) are what was asked for, where
    that is known.
    """

    why: str
    cases: frozenset[CaseKey] | None = None
    sizes: tuple[int, int] = (0, sys.maxsize)


@dataclass(frozen=True)
class Arm:
    """One side of a comparison. ``ranks`` and ``nodes`` are 0 where not known; ``definition`` says what its
    times are; ``facts`` are shown beside its name. ``failures`` are operations of which there is nothing,
    with the reason. ``flags`` are DEFINING_FLAGS and BUFFER_FLAGS, by name, of a run of busbw.
    ``rotated_bytes`` is as ``judge.rotation`` has it. ``lacking`` says what of imported logs is not among
    the cases: rows that contradict themselves, and those of a log that was cut or whose test died.
    ``where`` is as ``judge.pattern`` has it. ``mixed`` says which versions or devices its records have,
    where those are several; ``merged`` that one number is of launches of several days, or on several nodes.
    ``measured_with`` is of its records.
    """

    name: str
    ranks: int
    nodes: int
    definition: str
    buffers: str
    facts: Mapping[str, str]
    cases: Mapping[CaseKey, Observed]
    series: str = ""
    failures: Mapping[str, Failure] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    rotated_bytes: int = 0
    lacking: tuple[str, ...] = ()
    where: str = ""
    mixed: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    measured_with: tuple[MeasuredWith, ...] = ()

    def failed(self, key: CaseKey) -> str:
        """Why a case that was asked for is not among ``cases``; empty where that is not known, or it was not
        asked for.
        """
        failure = self.failures.get(key.collective, self.failures.get("all"))
        if failure is None:
            return ""
        first, last = failure.sizes
        is_asked = first <= key.size_bytes <= last if failure.cases is None else key in failure.cases
        return failure.why if is_asked else ""

    @property
    def on_device(self) -> bool:
        """Whether its operations ran on a GPU or accelerator."""
        return self.facts.get("backend") in ON_DEVICE

    @property
    def wrong(self) -> str:
        """What is said of the first case whose data were wrong; empty where all were right."""
        return next((seen.error for seen in self.cases.values() if seen.status is Status.WRONG), "")


def make_arm(name: str, records: Sequence[RunRecord]) -> Arm:
    """One arm from its records: of different operations, or several launches of the same.

    Raises UsageError where they are not of one world or not measured alike.
    """
    if not records:
        raise UsageError(f"{name}: no record", hint="name a run, a log, or a folder of logs")
    parts: dict[CaseKey, list[Observed]] = defaultdict(list)
    launched: dict[CaseKey, list[RunRecord]] = defaultdict(list)
    for record in records:
        for key, found in cases_of(record).items():
            parts[key].append(found)
            launched[key].append(record)
    with_cases = [record for record in records if record.results] or list(records)
    flags, settings = (*DEFINING_FLAGS, *BUFFER_FLAGS), with_cases[0].settings
    devices = _said(device, records)
    facts = {
        "version": _said(version, records),
        "device": devices,
        "backend": _said(lambda record: record.plan.backend, records),
        "created": _said(day, records),
    }
    mixed = {"versions": _said(version_label, records), "devices": devices}
    return Arm(
        name=name,
        ranks=_one(name, "ranks", {ranks(record) for record in with_cases}),
        nodes=max(map(nodes, records)),
        definition=str(_one(name, "time", {definition(record) for record in with_cases})),
        buffers=", ".join(sorted({buffers(record) for record in with_cases})),
        facts={name: ", ".join(each) for name, each in facts.items() if each},
        cases={key: of_launches(found) for key, found in sorted(parts.items())},
        series=str(records[0].settings.get(SERIES, "")) if len(records) == 1 else "",
        failures=failures(records),
        flags={flag: settings[flag] for flag in flags if flag in settings},
        rotated_bytes=rotated_bytes(with_cases),
        lacking=tuple(findings_of(records, INCOMPLETE)),
        mixed=tuple(f"{name} {' and '.join(each)}" for name, each in mixed.items() if len(each) > 1),
        merged=tuple(_merged(launched.values())),
        where=_one(name, "groups", {where(record) for record in with_cases}),
        measured_with=tuple(map(measured_with, with_cases)),
    )


def without_cases(name: str, like: Arm) -> Arm:
    """An arm of which there is nothing, beside one that there is."""
    return Arm(name, 0, like.nodes, like.definition, like.buffers, {}, {})


def findings_of(records: Sequence[RunRecord], kinds: Collection[str]) -> Iterator[str]:
    """What was noticed in imported logs, with the file and the line."""
    for record in records:
        if record.source is None:
            continue
        for finding in record.source.findings:
            if finding.kind in kinds:
                where = f"{Path(record.source.path).name}, line {finding.line}" if finding.line else ""
                yield f"{where}: {finding.text}" if where else finding.text


def key_of(case: Case, record: RunRecord | None = None) -> CaseKey:
    """The key of a case; cycles are repetitions, and a root means nothing where all ranks are equal. Without
    its record it is that of all ranks together, evenly.
    """
    row, what = known_collective(case.collective), case.collective
    root = case.root if row is None or row.rooted else -1
    pattern = pattern_of(record, case) if record is not None else ""
    if case.arm:
        what += f" by {case.arm}"
    elif case.stream != ALONE:
        what += f" beside {'; '.join(case.beside) or 'nothing, as a stream'}"
    return CaseKey(what, case.dtype, case.op, root, case.placement.value, case.size_bytes, pattern)


def ranks(record: RunRecord) -> int:
    """Ranks of the world, or of each group where there are groups of one size; 0 where not known."""
    groups = {len(group) for group in record.plan.groups}
    if len(groups) == 1:
        return groups.pop()
    return record.world.size if record.world is not None else 0


def nodes(record: RunRecord) -> int:
    """Hosts that took part, or what the log's path says; 0 where not known (a log may name some ranks)."""
    if record.world is not None and (hosts := record.world.known_hosts):
        return len(hosts)
    said = _label(record, "nodes")
    return int(said) if said.isdecimal() else 0


def version(record: RunRecord) -> str:
    """Library and version, by the record or the label of a log; empty where neither says it."""
    rank = record.world.ranks[0] if record.world is not None and record.world.ranks else None
    if rank is None or not rank.library_version:
        return _label(record, "version")
    return f"{rank.library} {rank.library_version}".strip()


def setup(record: RunRecord) -> str:
    """The setup that the path of a log names; empty for none."""
    return _label(record, "setup")


def _label(record: RunRecord, name: str) -> str:
    return record.source.labels.get(name, "") if record.source is not None else ""


def version_label(record: RunRecord) -> str:
    """The version of a tree of logs: the label of its path, unless the record says another one. A label can
    be that version as 2.18, v2.18.5 and nccl-2.18.5 are 2.18.5+cuda12.2; one without a version number ("new")
    can be any.
    """
    said, known = _label(record, "version"), version(record)
    numbers = [found[0].split(".") for text in (said, known) if (found := _NUMBER.search(text))]
    pairs = zip(*numbers, strict=False) if len(numbers) > 1 else ()
    return said if said and all(int(mine) == int(theirs) for mine, theirs in pairs) else known


def device(record: RunRecord) -> str:
    """The device that all ranks have; empty where they differ or it is not known of every rank."""
    names = set(record.world.known_devices) if record.world is not None else set()
    return names.pop() if len(names) == 1 else ""


def definition(record: RunRecord) -> str:
    """What a time of this record is, in words that differ where it differs."""
    if record.source is not None:
        return record.method.time if record.method is not None else "imported"
    timing = record.plan.timing
    words = [timing.mode, timing.time]
    options = record.plan.options
    words.append("" if timing.arrival == "none" else f"arrival {timing.arrival}")
    # The calls alone are started as those beside: on MPI the nonblocking ones.
    is_beside = bool(record.plan.beside) and record.plan.runs_at_once
    words.append("as beside an operation" if is_beside else "")
    words.append(_GRAPH if options.graph else "")
    words.append(f"{options.aggregate} in a group" if options.aggregate > 1 else "")
    return f"busbw {', '.join(filter(None, words))}"


def without_flags(text: str) -> str:
    """A definition without the words that DEFINING_FLAGS put into it."""
    return text.replace(f", {_GRAPH}", "")


def buffers(record: RunRecord) -> str:
    """Where the buffers of its calls lay, in words."""
    return (record.method.buffers if record.method is not None else "") or NOT_STATED


def _said(of: Callable[[RunRecord], str], records: Sequence[RunRecord]) -> list[str]:
    """What records say of themselves, each once."""
    return sorted({of(record) for record in records} - {""})


def _merged(launched: Collection[Sequence[RunRecord]]) -> Iterator[str]:
    """Of launches that became one number: that they are of several days, or were on several nodes."""
    for what, of in (("of", day), ("on", lambda record: first_of(nodes_of(record), _MOST_SHOWN, ","))):
        several = (values for records in launched if len(values := _said(of, records)) > 1)
        if values := next(several, []):
            told = first_of(values, _MOST_SHOWN, " and ")
            yield f"its launches {what} {told} are merged into one number a size"


def day(record: RunRecord) -> str:
    """When it was measured; of a log that does not say it, what its path says, for its file may be any copy.
    Empty where neither does.
    """
    if not record.created_by_file:
        return record.created[:10]
    stamp = _DATE.match(_label(record, "stamp"))
    return "-".join(stamp.groups()) if stamp is not None else ""


def _one(name: str, what: str, values: set[T]) -> T:
    if len(values) != 1:
        told = " and ".join(sorted(map(str, values)))
        raise UsageError(
            f"{name} is not one thing: its {what} are {told}", hint="name the runs or logs one by one"
        )
    return values.pop()


def cases_of(record: RunRecord) -> dict[CaseKey, Observed]:
    """What one record knows of each case."""
    found: dict[CaseKey, list[Observed]] = defaultdict(list)
    for result in record.results:
        case = record.plan.cases[result.case]
        if result.status is not Status.NOT_APPLICABLE:
            found[key_of(case, record)].append(_observed(record, result))
    return {key: _of_cycles(repeats) for key, repeats in found.items()}


def _observed(record: RunRecord, result: CaseResult) -> Observed:
    times: Sequence[float] = result.evidence.get(LAUNCH_TIMES, ())
    within = None
    if not times and result.time_ns is not None:
        times = (result.time_ns,)
        if record.source is None:
            # The levels that short cases of a launch share are in the scatter between launches.
            within = result.own_interval_ns
    if result.status is not Status.GOOD:
        times = ()
    error = result.error or (result.wrong_words if result.status is Status.WRONG else "")
    if result.status is Status.NOT_RUN and not error:
        error = record.error or "the run ended before"
    return Observed(
        times_ns=tuple(times),
        blocks=tuple(result.evidence.get(LAUNCH_BLOCKS, ())),
        interval=within,
        busbw_gb_per_s=bandwidth_of([result], median(times)) if times else result.busbw_gb_per_s,
        status=result.status,
        error=error,
    )


def failures(records: Sequence[RunRecord]) -> dict[str, Failure]:
    """Operations of which a record has nothing, since it failed before, with the reason; "all" where it does
    not say which.
    """
    found: dict[str, Failure] = {}
    for record in records:
        if record.results or record.status is RunStatus.COMPLETE:
            continue
        why = record.error or record.status.value
        asked = frozenset(key_of(case, record) for case in record.plan.cases)
        found |= {each.collective: Failure(why, asked) for each in record.plan.cases}
        if record.source is not None:
            # A log without rows is of the operation that the user or its path names.
            named: str = record.settings.get("import", {}).get("op", "") or _label(record, "test")
            first, last = (record.source.header.get(name) for name in ("min_bytes", "max_bytes"))
            if not isinstance(first, int) or not isinstance(last, int):
                first, last = Failure.sizes
            found[named.removesuffix("_perf") or "all"] = Failure(why, sizes=(first, last))
        elif not record.plan.cases:
            found["all"] = Failure(why)
    return found
