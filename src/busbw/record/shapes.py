"""What readers rely on in the parts of a run folder that are open: other keys there are as they are.

The machine, the environment, the settings, the evidence of a result, the verdict of a hunt and its rounds are
JSON that grows with every version. A field is listed here once somebody reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, PairTest, Stage
from busbw.model.network import FACT
from busbw.model.record import RankInfo, RunRecord
from busbw.model.result import CaseResult
from busbw.model.soak import LevelChange, SlowCall, Window, WrongElement
from busbw.record.checked import checked

DAMAGED_HINT: Final = "it was changed or cut after it was written; restore it from a copy"


@dataclass(frozen=True)
class _Link:
    active: bool = False


@dataclass(frozen=True)
class _Gpu:
    nvlinks: tuple[_Link, ...] = ()
    nvlink_gb_per_s: float | None = None
    pcie_gb_per_s: float | None = None


@dataclass(frozen=True)
class _Gpus:
    gpus: tuple[_Gpu, ...] = ()
    driver_version: str = ""


@dataclass(frozen=True)
class _Port:
    port: int = 0
    state: str = ""
    rate_gbit_per_s: float | None = None


@dataclass(frozen=True)
class _Nic:
    kind: str = ""
    name: str = ""
    speed: str = ""
    ports: tuple[_Port, ...] = ()


@dataclass(frozen=True)
class _Nics:
    rdma: tuple[_Nic, ...] = ()
    cxi: tuple[_Nic, ...] = ()


@dataclass(frozen=True)
class _Host:
    kernel: str = ""


@dataclass(frozen=True)
class Machine:
    """``RunRecord.machine``."""

    gpus: _Gpus = _Gpus()
    nics: _Nics = _Nics()
    host: _Host = _Host()
    libraries: tuple[dict[str, str], ...] = ()
    image: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _ConfigFile:
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Environment:
    """``RunRecord.environment``."""

    variables: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    module_files: tuple[str, ...] = ()
    nccl_config: tuple[_ConfigFile, ...] = ()


@dataclass(frozen=True)
class _OrderedHost:
    host: str
    switches: tuple[str, ...] = ()
    domain: str = ""


@dataclass(frozen=True)
class _RankOrder:
    by: str = ""
    hosts: tuple[_OrderedHost, ...] = ()


@dataclass(frozen=True)
class _Import:
    op: str | None = None


@dataclass(frozen=True)
class Settings:
    """``RunRecord.settings``."""

    rank_order: _RankOrder | None = None
    presets_used: tuple[str, ...] | None = None
    overridden: tuple[str, ...] | None = None
    tag: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Evidence:
    """``CaseResult.evidence``."""

    single_calls: int = 0
    timing_overhead_ns: float | None = None
    launch_times_ns: tuple[float, ...] = ()
    launch_blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class SourceEvidence:
    """``ImportSource.evidence``."""

    setting: tuple[str, ...] = ()
    algorithm: tuple[str, ...] = ()


@dataclass(frozen=True)
class _NcclSaid:
    network: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    network_plugin: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Exclude:
    slurm: str = ""
    kubernetes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Named:
    name: str
    loss: float
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class _Suspect:
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Field:
    kind: str
    names: tuple[str, ...]
    suspects: tuple[_Suspect, ...]
    decision: Literal["healthy", "slow", "undecided"]
    rounds: int
    seconds: float
    noise: dict[str, float]
    exclude: _Exclude
    reason: str = ""
    ranking: tuple[_Named, ...] = ()
    groups: tuple[_Named, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """``RunRecord.hunt``."""

    fields: tuple[_Field, ...] = ()


@dataclass(frozen=True)
class _Power:
    case: int
    loss: float | None
    seconds: float | None
    blind_s: float
    probability: float


@dataclass(frozen=True)
class SoakShape:
    """``RunRecord.soak``."""

    seconds: float = 0.0
    windows: int = 0
    calls: int = 0
    checks: int = 0
    wrong_windows: int = 0
    slow_calls: int = 0
    level_changes: int = 0
    kept: tuple[Window, ...] = ()
    slow: tuple[SlowCall, ...] = ()
    changes: tuple[LevelChange, ...] = ()
    wrong: tuple[WrongElement, ...] = ()
    power: tuple[_Power, ...] = ()


@dataclass(frozen=True)
class _Group:
    ranks: tuple[int, ...]
    times_ns: tuple[float, ...]


@dataclass(frozen=True)
class _Round:
    number: int
    stage: Stage


@dataclass(frozen=True)
class TestedRound:
    """A line of ``rounds.jsonl``."""

    kind: str
    names: tuple[str, ...]
    round: _Round
    tests: tuple[PairTest, ...]
    seconds: float
    groups: tuple[_Group, ...] = ()


# What the tables of a stage show.
_NUMBERS: Final = {
    Stage.MATRIX: {BANDWIDTH, BOTH_WAYS, LATENCY},
    Stage.HALVES: {BANDWIDTH, BOTH_WAYS},
}


def round_of(values: Mapping[str, Any], where: str) -> TestedRound:
    """A round of a hunt. Raises UsageError for fields of other types, and numbers that contradict another."""
    found = checked(TestedRound, values, where, DAMAGED_HINT, is_open=True)
    lanes = [lane for test in found.tests for ways in test.times_ns.values() for way in ways for lane in way]
    is_ring = found.round.stage in (Stage.RAILS, Stage.NODES)  # only the way there is timed
    timed = [ways[:1] if is_ring else ways for test in found.tests for ways in test.times_ns.values()]
    times = [*lanes, *(time for group in found.groups for time in group.times_ns)]
    parts = {part for test in found.tests for part in (test.one, test.other)}
    needed = _NUMBERS.get(found.round.stage, {BANDWIDTH})
    for is_wrong, words in (
        (not found.names, "names is empty"),
        (found.round.number < 0 or found.seconds < 0, "a number is below 0"),
        (not parts <= set(range(len(found.names))), "a test is of a part that has no name"),
        (any(test.one == test.other for test in found.tests), "a test is of one part with itself"),
        (any(needed - test.times_ns.keys() for test in found.tests), f"a test lacks {sorted(needed)}"),
        (not all(all(ways) for ways in timed), "a test has no times"),
        (any(not group.times_ns for group in found.groups), "a group has no times"),
        (any(time <= 0 for time in times), "a time is not above 0"),
        (found.groups and len(found.groups) != len(found.names), "groups and names differ in number"),
    ):
        if is_wrong:
            raise UsageError(f"{where}: {words}", hint=DAMAGED_HINT)
    return found


def check_open(record: RunRecord, path: Path) -> None:
    """Raises UsageError where an open part of the record is not as its readers take it."""
    parts: list[tuple[type[Any], str, Mapping[str, Any]]] = [
        (Machine, "machine", record.machine),
        (Environment, "environment", record.environment),
        (Settings, "settings", record.settings),
        (Verdict, "hunt", record.hunt),
        (SoakShape, "soak", record.soak),
    ]
    if record.source is not None:
        parts.append((SourceEvidence, "source.evidence", record.source.evidence))
        parts.append((_Import, "settings.import", record.settings.get("import", {})))
    ranks = record.world.ranks if record.world is not None else ()
    parts += [
        (_NcclSaid, f"world.ranks[{place}].facts.{FACT}", rank.facts[FACT])
        for place, rank in enumerate(ranks)
        if FACT in rank.facts
    ]
    parts += [
        (Evidence, f"results[{place}].evidence", result.evidence)
        for place, result in enumerate(record.results)
        if result.evidence
    ]
    for kind, key, values in parts:
        checked(kind, values, str(path), DAMAGED_HINT, key=key, is_open=True)


def check_sense(record: RunRecord, path: Path) -> None:
    """Raises UsageError where values of a record, each of the right type, cannot stand together."""
    found = next(_contradictions(record), "")
    if found:
        raise UsageError(f"{path}: {found}", hint=DAMAGED_HINT)


# Numbers of things and amounts, none of which can be below 0.
_OF_CASE: Final = ("requested_bytes", "size_bytes", "count", "cycle")
_OF_RESULT: Final = (
    *("time_ns", "low_ns", "high_ns", "mean_ns", "algbw_gb_per_s", "busbw_gb_per_s", "samples"),
    *("calls_per_sample", "warmup_calls", "wrong", "issue_ns", "first_call_ns", "tau", "excluded"),
)


# A wide interval may reach down to a time of 0; the time itself and the upper end cannot.
_ABOVE_0: Final = ("time_ns", "high_ns")
_MOST_PRECISION: Final = 1e6  # any share that is printed as a percentage


def _contradictions(record: RunRecord) -> Iterator[str]:
    cases = record.plan.cases
    for name in ("precision", "small_precision"):
        if not 0 <= (share := getattr(record.plan.limits, name)) <= _MOST_PRECISION:
            yield f"plan.limits.{name} is {share:g}"
    for place, case in enumerate(cases):
        yield from _negative(case, _OF_CASE, f"plan.cases[{place}]")
        if case.index != place:
            yield f"plan.cases[{place}].index is {case.index}"
    seen: set[int] = set()
    for place, result in enumerate(record.results):
        yield from _negative(result, _OF_RESULT, f"results[{place}]")
        yield from (f"results[{place}].{name} is 0" for name in _ABOVE_0 if getattr(result, name) == 0)
        if not 0 <= result.case < len(cases):
            yield f"results[{place}].case is {result.case}, and the plan has {len(cases)} cases"
        if result.case in seen:
            yield f"results[{place}].case is {result.case} once more"
        seen.add(result.case)
    world = record.world
    if world is not None and world.size < _largest_group(world.ranks):
        yield f"world.size is {world.size}, and world.ranks has {len(world.ranks)}"


def _largest_group(ranks: Sequence[RankInfo]) -> int:
    """How many ranks one communicator has: imported split ones are listed together, each with its group."""
    return max(Counter(str(rank.facts.get("group")) for rank in ranks).values(), default=1)


def _negative(value: Case | CaseResult, names: tuple[str, ...], key: str) -> Iterator[str]:
    for name in names:
        number = getattr(value, name)
        if number is not None and number < 0:
            yield f"{key}.{name} is {number}"
