"""Records to arms: what is compared. An arm is a setup, a version or a log, with its times of every case.

One launch is one observation. A series of ``busbw run --launches`` has several; so has an arm of several logs
of the same cases, since each log is a launch of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from busbw.analysis.measured_with import MeasuredWith, measured_with
from busbw.analysis.observed import Observed, bandwidth_of, of_cycles, of_launches
from busbw.analysis.pattern import pattern_of, where
from busbw.analysis.rotation import rotated_bytes
from busbw.errors import BusbwError, UsageError
from busbw.model.case import ALONE, Case
from busbw.model.collective import collective
from busbw.model.record import INCOMPLETE, RunRecord, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.model.version_words import is_same_version
from busbw.stats.ratio import Basis

LAUNCH_TIMES: Final = "launch_times_ns"
# Of setups that were launched in turn: the number of each launch's block, and the name of the series.
LAUNCH_BLOCKS: Final = "launch_blocks"
SERIES: Final = "series"
NOT_STATED: Final = "not stated"
# Settings of a run that a setup may change, by what of a time they change: its definition, or its buffers.
# The operation is the same, so setups that were launched in turn are compared in spite of them.
DEFINING_FLAGS: Final = ("cudagraph",)
BUFFER_FLAGS: Final = ("buffers", "local_register", "unalign", "hot")
_GRAPH: Final = "graph"
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class CaseKey:
    """What must be equal for two times to be of the same thing. Where operations ran at once, ``collective``
    says what ran beside it too; ``pattern`` is as ``analysis.pattern`` has it.
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
    sizes: tuple[int, int] | None = None

    def is_of(self, key: CaseKey) -> bool:
        """Whether the case was asked for, as far as anybody knows."""
        if self.cases is not None:
            return key in self.cases
        return self.sizes is None or self.sizes[0] <= key.size_bytes <= self.sizes[1]


@dataclass(frozen=True)
class Arm:
    """One side of a comparison. ``ranks`` and ``nodes`` are 0 where not known; ``definition`` says what its
    times are; ``facts`` are shown beside its name. ``failures`` are operations of which there is nothing,
    with the reason. ``flags`` are DEFINING_FLAGS and BUFFER_FLAGS, by name, of a run of busbw.
    ``rotated_bytes`` is as ``analysis.rotation`` has it. ``lacking`` says what of imported logs is not among
    the cases: rows that contradict themselves, and those of a log that was cut or whose test died.
    ``where`` is as ``analysis.pattern`` has it. ``mixed`` says which versions or devices its records have,
    where those are several.
    ``inapplicable`` are cases that were asked for and do not exist, as a placement that an operation lacks.
    ``setup`` is what the setup of a series gives its launches, by variable and flag as it is typed;
    ``places`` has the nodes of each by its block, empty where they are not known, and ``own_jobs`` the engine
    that chose them for each launch alone, as ``analysis.compare_places`` has both. ``measured_with`` is what
    all its records have alike.
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
    inapplicable: frozenset[CaseKey] = frozenset()
    where: str = ""
    mixed: tuple[str, ...] = ()
    setup: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    own_jobs: str = ""
    measured_with: MeasuredWith = field(default_factory=MeasuredWith)

    def failed(self, key: CaseKey) -> str:
        """Why a case that was asked for is not among ``cases``; empty where that is not known, or it was not
        asked for.
        """
        failure = self.failures.get(key.collective, self.failures.get("all"))
        return failure.why if failure is not None and failure.is_of(key) else ""

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
    for record in records:
        for key, found in _of_record(record).items():
            parts[key].append(found)
    with_cases = [record for record in records if record.results] or list(records)
    return Arm(
        name=name,
        ranks=_one(name, "ranks", {ranks(record) for record in with_cases}),
        nodes=max(map(nodes, records)),
        definition=str(_one(name, "time", {definition(record) for record in with_cases})),
        buffers=", ".join(sorted({buffers(record) for record in with_cases})),
        facts=_facts(records),
        cases={key: of_launches(found) for key, found in sorted(parts.items())},
        series=str(records[0].settings.get(SERIES, "")) if len(records) == 1 else "",
        failures=failures(records),
        flags=_flags(with_cases[0]),
        rotated_bytes=rotated_bytes(with_cases),
        lacking=tuple(lacking(records)),
        inapplicable=frozenset(key for record in records for key in _inapplicable(record)),
        mixed=tuple(_mixed(records)),
        where=_one(name, "groups", {where(record) for record in with_cases}),
        measured_with=measured_with(with_cases),
    )


def without_cases(name: str, like: Arm) -> Arm:
    """An arm of which there is nothing, beside one that there is."""
    return Arm(name, 0, like.nodes, like.definition, like.buffers, {}, {})


def that_exist(arms: Sequence[Arm]) -> list[Arm]:
    """The arms without cases that do not exist: a run that died before it could know planned them too."""
    ran = {key for arm in arms for key, seen in arm.cases.items() if seen.status is not Status.NOT_RUN}
    none = frozenset().union(*(arm.inapplicable for arm in arms)) - ran
    return [
        replace(arm, cases={key: seen for key, seen in arm.cases.items() if key not in none}) for arm in arms
    ]


def _inapplicable(record: RunRecord) -> Iterator[CaseKey]:
    for result in record.results:
        if result.status is Status.NOT_APPLICABLE:
            yield key_of(record.plan.cases[result.case], record)


def lacking(records: Sequence[RunRecord]) -> Iterator[str]:
    """What of imported logs is not among their cases, with the file and the line."""
    for record in records:
        if record.source is None:
            continue
        for finding in record.source.findings:
            if finding.kind in INCOMPLETE:
                where = f"{Path(record.source.path).name}, line {finding.line}" if finding.line else ""
                yield f"{where}: {finding.text}" if where else finding.text


def key_of(case: Case, record: RunRecord | None = None) -> CaseKey:
    """The key of a case; cycles are repetitions, and a root means nothing where all ranks are equal. Without
    its record it is that of all ranks together, evenly.
    """
    try:
        rooted = collective(case.collective).rooted
    except BusbwError:  # a foreign operation that an importer kept
        rooted = True
    root = case.root if rooted else -1
    pattern = pattern_of(record, case) if record is not None else ""
    what = _what_ran(case)
    return CaseKey(what, case.dtype, case.op, root, case.placement.value, case.size_bytes, pattern)


def _what_ran(case: Case) -> str:
    if case.stream == ALONE:
        return case.collective
    return f"{case.collective} beside {'; '.join(case.beside) or 'nothing, as a stream'}"


def ranks(record: RunRecord) -> int:
    """Ranks of the world, or of each group where there are groups of one size; 0 where not known."""
    groups = {len(group) for group in record.plan.groups}
    if len(groups) == 1:
        return groups.pop()
    return record.world.size if record.world is not None else 0


def nodes(record: RunRecord) -> int:
    """Hosts that took part, or what the log's path says; 0 where not known (a log may name some ranks)."""
    if record.world is not None and len(record.world.ranks) == record.world.size:
        named = [host for host in record.world.hosts if host != NOT_STATED]
        if named:
            return len(named)
    labels = record.source.labels if record.source is not None else {}
    return int(labels["nodes"]) if labels.get("nodes", "").isdecimal() else 0


def version(record: RunRecord) -> str:
    """Library and version, by the record or the label of a log; empty where neither says it."""
    measured = _measured_version(record)
    if not measured or record.world is None:
        return _labelled_version(record)
    return f"{record.world.ranks[0].library} {measured}".strip()


def version_label(record: RunRecord) -> str:
    """What tells the version of a tree of logs: the label of its path, unless the record says another one."""
    label = _labelled_version(record)
    return label if label and is_same_version(label, _measured_version(record)) else version(record)


def _measured_version(record: RunRecord) -> str:
    world = record.world
    return world.ranks[0].library_version if world is not None and world.ranks else ""


def _labelled_version(record: RunRecord) -> str:
    return record.source.labels.get("version", "") if record.source is not None else ""


def device(record: RunRecord) -> str:
    """The device that all ranks have; empty where they differ or it is not known."""
    names = {rank.device for rank in record.world.ranks} if record.world is not None else set()
    names -= {NOT_STATED, ""}
    return names.pop() if len(names) == 1 else ""


def definition(record: RunRecord) -> str:
    """What a time of this record is, so that two of them can be told apart."""
    if record.source is not None:
        return record.method.time if record.method is not None else "imported"
    timing = record.plan.timing
    words = [timing.mode, timing.time]
    words += [f"arrival {timing.arrival}"] * (timing.arrival != "none")
    words += [_GRAPH] * bool(record.plan.options.graph)
    words += [f"{record.plan.options.aggregate} in a group"] * (record.plan.options.aggregate > 1)
    return f"busbw {', '.join(words)}"


def without_flags(text: str) -> str:
    """A definition without the words that DEFINING_FLAGS put into it."""
    return text.replace(f", {_GRAPH}", "")


def _flags(record: RunRecord) -> dict[str, Any]:
    names = (*DEFINING_FLAGS, *BUFFER_FLAGS)
    return {name: record.settings[name] for name in names if name in record.settings}


def buffers(record: RunRecord) -> str:
    """Where the buffers of its calls lay, in words."""
    return (record.method.buffers if record.method is not None else "") or NOT_STATED


def _facts(records: Sequence[RunRecord]) -> dict[str, str]:
    """What names an arm's software and machine, each once."""
    found = {
        "version": {version(record) for record in records},
        "device": {device(record) for record in records},
        "backend": {record.plan.backend for record in records},
        "created": {_day(record) for record in records},
    }
    return {name: ", ".join(sorted(values - {""})) for name, values in found.items() if values - {""}}


def _mixed(records: Sequence[RunRecord]) -> Iterator[str]:
    for what, of in (("versions", version_label), ("devices", device)):
        values = {of(record) for record in records} - {""}
        if len(values) > 1:
            yield f"{what} {' and '.join(sorted(values))}"


def _day(record: RunRecord) -> str:
    """When it was measured; a log's file may be any copy."""
    is_copy = record.source is not None and record.source.fields.get("created") == "file"
    return "" if is_copy else record.created[:10]


def _one(name: str, what: str, values: set[T]) -> T:
    if len(values) != 1:
        told = " and ".join(sorted(map(str, values)))
        raise UsageError(
            f"{name} is not one thing: its {what} are {told}", hint="name the runs or logs one by one"
        )
    return values.pop()


def _of_record(record: RunRecord) -> dict[CaseKey, Observed]:
    found: dict[CaseKey, list[Observed]] = defaultdict(list)
    for result in record.results:
        case = record.plan.cases[result.case]
        if result.status is not Status.NOT_APPLICABLE:
            found[key_of(case, record)].append(_observed(record, result))
    return {key: of_cycles(repeats) for key, repeats in found.items()}


def _observed(record: RunRecord, result: CaseResult) -> Observed:
    times: Sequence[float] = result.evidence.get(LAUNCH_TIMES, ())
    basis = Basis.LAUNCHES
    if not times:
        times = () if result.time_ns is None else (result.time_ns,)
        basis = Basis.SINGLE if record.source is not None or result.low_ns is None else Basis.SAMPLES
    if result.status is not Status.GOOD:
        times = ()
    within = None
    if basis is Basis.SAMPLES and result.low_ns is not None and result.high_ns is not None:
        within = (result.low_ns, result.high_ns)
    error = result.error or (f"{result.wrong} wrong elements" if result.status is Status.WRONG else "")
    if result.status is Status.NOT_RUN and not error:
        error = record.error or "the run ended before"
    return Observed(
        times_ns=tuple(times),
        basis=basis,
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
        found |= {each.collective: Failure(why, _asked(record)) for each in record.plan.cases}
        if record.source is not None or not record.plan.cases:
            found[_operation_of_log(record)] = Failure(why, sizes=_sizes_of_log(record))
    return found


def _asked(record: RunRecord) -> frozenset[CaseKey]:
    return frozenset(key_of(case, record) for case in record.plan.cases)


def _operation_of_log(record: RunRecord) -> str:
    """By the user or the path of a log without rows."""
    if record.source is None:
        return "all"
    asked: str = record.settings.get("import", {}).get("op", "")
    return (asked or record.source.labels.get("test", "")).removesuffix("_perf") or "all"


def _sizes_of_log(record: RunRecord) -> tuple[int, int] | None:
    """From which size to which a test was to go, by the log's own header."""
    header = record.source.header if record.source is not None else {}
    first, last = header.get("min_bytes"), header.get("max_bytes")
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None
