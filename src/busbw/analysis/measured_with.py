"""What runs were measured with, so far as their records tell: variables, modules, library, nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.analysis.compare_places import named, nodes_of
from busbw.analysis.tuning import tuning_of
from busbw.model.record import RunRecord
from busbw.probes.environment import is_recorded


@dataclass(frozen=True)
class MeasuredWith:
    """``variables`` by name, and versions of modules by ``module NAME``; ``tells_all`` where one that is not
    there was not set or loaded. ``facts`` by what they are of; one that is not there is not known.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    tells_all: bool = False


def measured_with(records: Sequence[RunRecord]) -> MeasuredWith:
    """What all of the records have alike."""
    each = [_of_record(record) for record in records]
    return MeasuredWith(
        _alike([one.variables for one in each]),
        _alike([one.facts for one in each]),
        all(one.tells_all for one in each),
    )


def otherwise(ours: MeasuredWith, theirs: MeasuredWith) -> Iterator[str]:
    """What is not alike, as ``NCCL_ALGO Ring against not set``: ours first."""
    names = ours.variables.keys() & theirs.variables.keys()
    if ours.tells_all and theirs.tells_all:
        names = ours.variables.keys() | theirs.variables.keys()
    for name in sorted(names):
        values = [one.variables.get(name, "not set") for one in (ours, theirs)]
        if values[0] != values[1]:
            yield f"{name} {values[0]} against {values[1]}"
    for name, value in ours.facts.items():
        if value != (other := theirs.facts.get(name, value)):
            yield f"{name} {value} against {other}"


def variables_of(record: RunRecord) -> dict[str, str]:
    """Those that change what is timed, and those that were given for this run though no list has them."""
    variables = record.environment.get("variables", {})
    given = {name: value for name, value in variables.items() if not is_recorded(name)}
    return {**given, **(tuning_of(record) or {})}


def library_of(record: RunRecord) -> str:
    """The paths of the measured library, each once."""
    paths = {rank.library_path for rank in record.world.ranks} if record.world is not None else set()
    return ", ".join(sorted(filter(None, paths)))


def _of_record(record: RunRecord) -> MeasuredWith:
    machine = record.machine
    facts = {
        "busbw": record.busbw_version if record.source is None else "",
        "library": library_of(record),
        "driver": machine.get("gpus", {}).get("driver_version", ""),
        "kernel": machine.get("host", {}).get("kernel", ""),
        "nodes": named(nodes_of(record)),
    }
    known = {name: value for name, value in facts.items() if value}
    variables = {**_modules_of(record), **variables_of(record)}
    return MeasuredWith(variables, known, tells_all="variables" in record.environment)


def _modules_of(record: RunRecord) -> dict[str, str]:
    loaded = (module.partition("/") for module in record.environment.get("modules", ()))
    return {f"module {name}": version or "loaded" for name, _, version in loaded}


def _alike(each: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = each
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}
