"""The checks that compare ranks, in the order of their findings. A check is added by a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from busbw.model.finding import Finding, strictly, worst_first
from busbw.preflight import gpus, limits, network, software
from busbw.preflight.gathered import Gathered

# Name -> a pure function; its docstring says what holds where it finds nothing.
CHECKS: Final[Mapping[str, Callable[[Gathered], Iterator[Finding]]]] = {
    "backend": software.backend,
    "counts": software.counts,
    "versions": software.versions,
    "environment": software.environment,
    "files": software.files,
    "net-plugin": software.net_plugin,
    "gpu-for-each-rank": gpus.one_for_each_rank,
    "gpus-alike": gpus.alike,
    "gpu-clocks": gpus.clocks,
    "feature-devices": gpus.devices,
    "nics-up": network.up,
    "nics-asked-for": network.asked_for,
    "nic-rates": network.rates,
    "memory": limits.memory,
    "shared-memory": limits.shared_memory,
    "ulimits": limits.ulimits,
    "shared-folder": software.shared_folder,
}


def judge(gathered: Gathered) -> tuple[Finding, ...]:
    """All findings, the worst first."""
    found = [replace(each, check=name) for name, find in CHECKS.items() for each in find(gathered)]
    return worst_first(strictly(found) if gathered.asked.strict else found)
