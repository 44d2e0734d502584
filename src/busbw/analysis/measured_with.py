"""What runs were measured with, so far as their records tell: variables, modules, library, nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from busbw.analysis.compare_places import named, nodes_of
from busbw.analysis.tuning import tuning_of
from busbw.model.record import RunRecord
from busbw.probes.environment import is_recorded

# A copy of busbw that was brought to the nodes is in a folder of its run.
_BROUGHT: Final = re.compile(r"/busbw-\d{8}-\d{6}-[^/]+/")
_MODULE: Final = "module "
_LIBRARY: Final = "library"


@dataclass(frozen=True)
class MeasuredWith:
    """``variables`` are all that are known, by name, and ``module NAME`` for each loaded module; ``told``
    names those that matter: they change what is timed, or were given for this run. Of ``unlike`` the runs of
    one arm have several values. ``tells_listed`` and ``tells_given``: what is not there was not set, or not
    given. ``facts`` by what they are of; one that is not there is not known.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    unlike: frozenset[str] = frozenset()
    tells_listed: bool = False
    tells_given: bool = False
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def value_of(self, name: str) -> str:
        """A variable's value in words; empty where it is not known, or not one."""
        if name in self.unlike:
            return ""
        if (value := self.variables.get(name)) is not None:
            return value or "(empty)"
        if name.startswith(_MODULE):
            return "not loaded" if self.tells_listed else ""
        if is_recorded(name):
            return "not set" if self.tells_listed else ""
        return "not given" if self.tells_given else ""


def measured_with(records: Sequence[RunRecord]) -> MeasuredWith:
    """Of the records of one arm; facts are those that all have alike."""
    each = [_of_record(record) for record in records]
    told = _told(each)
    variables = {name: value for one in each for name, value in one.variables.items()}
    return MeasuredWith(
        variables=variables,
        told=told,
        unlike=frozenset(
            name for name in told | variables.keys() if len({one.value_of(name) for one in each}) > 1
        ),
        tells_listed=all(one.tells_listed for one in each),
        tells_given=all(one.tells_given for one in each),
        facts={
            name: value
            for name, value in each[0].facts.items()
            if all(one.facts.get(name) == value for one in each)
        },
    )


def otherwise(ours: MeasuredWith, theirs: MeasuredWith) -> Iterator[str]:
    """What is not alike, as ``NCCL_ALGO Ring against not set``: ours first. What one does not tell is not."""
    for name in sorted(ours.told | theirs.told):
        value, other = ours.value_of(name), theirs.value_of(name)
        if value and other and value != other:
            yield f"{name} {value} against {other}"
    for name, own in ours.facts.items():
        if own != (others := theirs.facts.get(name, own)):
            only = [each for each in own if each not in others]
            lacking = [each for each in others if each not in own]
            is_apart = bool(only and lacking)
            shown = (only, lacking) if is_apart else (own, others)  # one may have all of the other's
            yield f"{name} {named(shown[0])} against {named(shown[1])}"


def differing(records: Sequence[RunRecord]) -> list[str]:
    """Names of what the records are known not to have alike: variables, and the library."""
    each = [_of_record(record) for record in records]
    names = [name for name in sorted(_told(each)) if len({one.value_of(name) for one in each} - {""}) > 1]
    libraries = {one.facts[_LIBRARY] for one in each if _LIBRARY in one.facts}
    return [*names, *[_LIBRARY] * (len(libraries) > 1)]


def _told(each: Sequence[MeasuredWith]) -> frozenset[str]:
    return frozenset[str]().union(*(one.told for one in each))


def _variables_of(record: RunRecord) -> dict[str, str]:
    """Those that change what is timed, and those that were given for this run."""
    variables = record.environment.get("variables", {})
    given = {name: variables[name] for name in record.environment.get("given", ()) if name in variables}
    return {**given, **(tuning_of(record) or {})}


def _library_of(record: RunRecord) -> str:
    """The paths of the measured library, each once."""
    paths = {rank.library_path for rank in record.world.ranks} if record.world is not None else set()
    return ", ".join(sorted({_BROUGHT.sub("/busbw-.../", path) for path in paths if path}))


def _of_record(record: RunRecord) -> MeasuredWith:
    environment, machine = record.environment, record.machine
    modules = {f"{_MODULE}{module}": "loaded" for module in environment.get("modules", ())}
    matters = _variables_of(record)
    facts = {
        "busbw": (record.busbw_version,) if record.source is None else (),
        _LIBRARY: (_library_of(record),),
        "driver": (machine.get("gpus", {}).get("driver_version", ""),),
        "kernel": (machine.get("host", {}).get("kernel", ""),),
        "nodes": nodes_of(record),
    }
    return MeasuredWith(
        variables={**environment.get("variables", {}), **matters, **modules},
        told=frozenset((*matters, *modules, *environment.get("given", ()))),
        tells_listed="variables" in environment and record.source is None,
        tells_given="given" in environment,
        facts={name: values for name, values in facts.items() if any(values)},
    )
