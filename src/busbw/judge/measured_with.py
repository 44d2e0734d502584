"""What runs were measured with, so far as their records say: variables, modules, library, nodes; and which
settings tune a run. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.judge.traffic import settings_of
from busbw.machine.environment import is_recorded
from busbw.machine.preflight.environment import is_compared
from busbw.model.record import HostInfo, RunRecord
from busbw.units import first_of

# What a run was tuned with: settings that change what is timed.

_TUNING: Final = (
    *("NCCL_", "RCCL_", "OFI_NCCL_", "FI_", "UCX_", "UCC_", "MPIR_CVAR_", "OMPI_MCA_", "SHARP_", "HCOLL_"),
    "NVSHMEM_",
)
# A job's own, though many jobs are tuned alike; and files whose content counts instead.
_OF_A_JOB: Final = frozenset(("NCCL_COMM_ID", "FI_CXI_DEFAULT_VNI", "NCCL_CONF_FILE", "NCCL_PROFILER_PLUGIN"))
_MOST_NAMED: Final = 4


def tuning_of(record: RunRecord) -> dict[str, str] | None:
    """Variables, and settings of NCCL's own files, of rank 0; None where the record, as that of most logs,
    does not say what was set.
    """
    found = {
        name: value
        for name, value in sorted(settings_of(record).items())
        if value and name.startswith(_TUNING) and is_compared(name) and name not in _OF_A_JOB
    }
    return found if found or "variables" in record.environment else None


def otherwise_tuned(theirs: Mapping[str, str] | None, ours: Mapping[str, str] | None) -> str:
    """How a reference was tuned otherwise than a run; empty where it was not, or does not say how it was. A
    run that does not say it is not known to be tuned as one that was.
    """
    if theirs is None:
        return ""
    own = {} if ours is None else ours
    absent = "does not say" if ours is None else "does not"
    words = (
        f"it {f'has {name}={theirs[name]}' if name in theirs else f'does not set {name}'},"
        f" the run {f'has {own[name]}' if name in own else absent}"
        for name in sorted({*theirs, *own})
        if theirs.get(name) != own.get(name)
    )
    return first_of(words, _MOST_NAMED, "; ")


# A copy of busbw that was brought to the nodes is in a folder of its run.
_BROUGHT: Final = re.compile(r"/busbw-\d{8}-\d{6}-[^/]+/")
_MODULE: Final = "module "
_LIBRARY: Final = "library"
_FACTS: Final = ("busbw", _LIBRARY, "driver", "kernel", "nodes")


@dataclass(frozen=True)
class MeasuredWith:
    """Of one record. ``variables`` are all that are known, by name, and ``module NAME`` for each loaded
    module; ``told`` names those that matter: they change what is timed, or were given for this run.
    ``tells_listed`` and ``tells_given``: what is not there was not set, or not given. ``facts`` by what they
    are of; one that is not there is not known.
    """

    variables: Mapping[str, str]
    told: frozenset[str]
    tells_listed: bool
    tells_given: bool
    facts: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> tuple[str, ...]:
        """What is known of a fact, or a variable's value in words; empty where it is not known."""
        if name in _FACTS:
            return self.facts.get(name, ())
        if (value := self.variables.get(name)) is not None:
            return (value or "(empty)",)
        if name.startswith(_MODULE):
            return ("not loaded",) if self.tells_listed else ()
        if is_recorded(name):
            return ("not set",) if self.tells_listed else ()
        return ("not given",) if self.tells_given else ()


def otherwise(ours: Sequence[MeasuredWith], theirs: Sequence[MeasuredWith]) -> Iterator[str]:
    """What differs between two sides, as ``NCCL_ALGO Ring against not set``: ours first. What the records of
    one side do not say, or do not have alike, is left out.
    """
    for name in (*_told((*ours, *theirs)), *_FACTS):
        alike = ({each.of(name) for each in side} for side in (ours, theirs))
        own, others = (values.pop() if len(values) == 1 else () for values in alike)
        if own and others and own != others:
            only = [each for each in own if each not in others]
            lacking = [each for each in others if each not in own]
            is_apart = bool(only and lacking)
            shown = (only, lacking) if is_apart else (own, others)  # one may have all of the other's
            words = (first_of(each, _MOST_NAMED, ",") for each in shown)
            yield f"{name} {' against '.join(words)}"


def differing(records: Sequence[RunRecord]) -> list[str]:
    """Names of what the records are known not to have alike: variables, and the library."""
    each = [measured_with(record) for record in records]
    return [name for name in (*_told(each), _LIBRARY) if len({one.of(name) for one in each} - {()}) > 1]


def _told(each: Sequence[MeasuredWith]) -> list[str]:
    return sorted(frozenset[str]().union(*(one.told for one in each)))


def variables_of(record: RunRecord) -> dict[str, str]:
    """Those that change what is timed, and those that were given for this run."""
    variables = record.environment.get("variables", {})
    given = {name: variables[name] for name in record.environment.get("given", ()) if name in variables}
    return {**given, **(tuning_of(record) or {})}


def measured_with(record: RunRecord) -> MeasuredWith:
    """What its record says."""
    environment, machine = record.environment, record.machine
    modules = {f"{_MODULE}{module}": "loaded" for module in environment.get("modules", ())}
    matters = variables_of(record)
    paths = {rank.library_path for rank in record.world.ranks} if record.world is not None else set()
    facts = {
        "busbw": (record.busbw_version,) if record.source is None else (),
        _LIBRARY: (", ".join(sorted({_BROUGHT.sub("/busbw-.../", path) for path in paths if path})),),
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


def products_of(record: RunRecord) -> str:
    """What the firmware calls the hosts; empty where it is not known of every one."""
    if record.world is None:
        return ""
    known = {place.host: place.product for place in record.world.places}
    products = {known.get(host, "") for host in record.world.known_hosts}
    return "" if "" in products else " and ".join(sorted(products))


def nodes_of(record: RunRecord) -> tuple[str, ...]:
    """The machines of a launch, by name in order; empty where any is not known."""
    if record.world is None:
        return ()
    places = {place.host: place for place in record.world.places}
    names = set()
    for host in record.world.known_hosts:
        place = places.get(host, HostInfo(host))
        own = "" if place.pod else host  # a pod's host name is another one in each job
        names.add(place.kubernetes_node or place.instance or own)
    return () if "" in names else tuple(sorted(names))
