"""Pin a rank to its share of the CPUs that the ranks of its host may use (--pin)."""

from __future__ import annotations

import os

from busbw.world.base import World


def share(cpus: list[int], ranks: int, number: int) -> list[int]:
    """The CPUs of rank ``number`` of ``ranks`` on one host: neighbouring ones, as many for each as there are
    for all; one that is shared where ranks outnumber them.
    """
    if ranks >= len(cpus):
        return [cpus[number % len(cpus)]]
    each = len(cpus) // ranks
    return cpus[number * each : (number + 1) * each]


def pin(world: World) -> str:
    """Pin this process; the CPUs in words. A rank that its launcher has bound to no more than its share keeps
    what it has. Local to the rank.
    """
    member = world.members[world.rank]
    here = sum(other.host == member.host for other in world.members)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < (os.cpu_count() or 1) and len(cpus) <= (os.cpu_count() or 1) // here:
        return _words(cpus)
    own = share(cpus, here, member.local_rank)
    os.sched_setaffinity(0, own)
    return _words(own)


def _words(cpus: list[int]) -> str:
    """As taskset writes them: 0-3,8."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
