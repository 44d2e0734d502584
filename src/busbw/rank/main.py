"""What every rank does with a plan: measure the cases in order and bring the samples to rank 0."""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.errors import ExitCode
from busbw.machine.host import read_processors
from busbw.model.plan import Plan
from busbw.model.progress import Phase, expected_s
from busbw.model.record import Method, RunStatus, WorldInfo
from busbw.model.result import Status
from busbw.rank import progress
from busbw.rank.backends.base import Backend
from busbw.rank.backends.create import create, is_profiled, preflight
from busbw.rank.cases import Session, Task, grouping
from busbw.rank.describe import describe
from busbw.rank.measure import SINGLE_CALLS, Conditions
from busbw.rank.preflight import CheckFirst
from busbw.rank.process import Deadline
from busbw.rank.retain import rule
from busbw.rank.summarize import statistics_in
from busbw.rank.world.base import World, agreed, gathered, members_here, of_rank_0
from busbw.rank.world.clock import synchronise
from busbw.rank.world.mpi import MpiWorld
from busbw.stats.percentile import least_samples
from busbw.units import ranges

if TYPE_CHECKING:
    from busbw.rank.nccl_output import NcclDump
    from busbw.rank.rank0 import Lead


# Levels of small messages last for milliseconds to tenths of a second; passes that lie closer see one.
SPAN_S: Final = 0.3


def run(world: World, plan: Plan, observer: Lead | None, deadline: Deadline | None = None) -> ExitCode:
    """Do what the plan says; how it went. Collective over the world; ``observer`` is rank 0's and None
    elsewhere.

    Raises RefusedTogether on all ranks where the run cannot start, and BusbwError on the rank where it broke.
    """
    checks = CheckFirst(world, plan, observer)
    checks.compare()
    pinned = agreed(world, lambda: pin(world)) if plan.pin else ""
    agreed(world, lambda: preflight(plan, world))
    checks.listen()
    dump = _dump(plan, observer)
    progress.phase(Phase.COMMUNICATOR, expected_s(plan.buffer_bytes))
    backend = agreed(world, lambda: create(plan, world))
    own = ({"pinned_cpus": pinned} if pinned else {}) | _connect(backend, plan, world)
    if dump is not None and (missing := dump.finish()) and observer is not None:
        observer.found(missing)
    checks.compare_use()
    given = _conditions(plan, backend, world)
    info = describe(world, backend, own | checks.said)
    if observer is not None and info is not None:
        observer.started(info, _method(plan, given))
    if plan.preflight.stops or plan.hunt is not None:
        what = "a test of preflight" if plan.hunt is None else "a test of the hunt"
        progress.unlimited(what=what)  # the rounds of a hunt have their own limit
    if plan.preflight.stops:
        checks.go_deep(backend)
        _close(backend, plan, world)
        return ExitCode.OK
    task = Task(plan, backend, given, deadline or Deadline(), observer)
    if plan.hunt is not None:
        from busbw.rank.hunt.rounds import go_hunting

        code = go_hunting(task, plan.hunt, info.places if info is not None else ())
        _close(backend, plan, world)
        return code
    code = _measured(task, info)
    progress.phase(Phase.END)
    if "counters" in plan.evidence:
        for burst in Session(task).bursts():
            if observer is not None:  # the others only take part
                observer.carried(burst)
    memory_bytes = _most(backend.memory_report(), world)
    if observer is not None:
        observer.used(memory_bytes)
        # Before the libraries are taken down: readers of the record do not wait for them.
        observer.end(RunStatus.COMPLETE)
    _close(backend, plan, world)
    return code


def _close(backend: Backend, plan: Plan, world: World) -> None:
    """Take the libraries down. NCCL over one host is left to the end of its processes, which gives all back:
    ncclCommDestroy takes up to 0.5 s, until a thread of its own wakes (2.28.9), and nobody else waits for it,
    as a plugin or a switch may over several hosts.
    """
    if plan.backend != "nccl" or len(members_here(world)) < world.size:
        backend.close()


def _measured(task: Task, info: WorldInfo | None) -> ExitCode:
    """All cases, once or as a soak. Collective."""
    if task.plan.soak is not None:
        from busbw.rank.soak import go_soaking

        return go_soaking(task, task.plan.soak, info.ranks if info is not None else ())
    ended = Counter[Status]()
    for result, kept in Session(task).results():
        ended[result.status] += 1
        if task.observer is not None:
            task.observer.finished(result, kept)
    if ended[Status.WRONG]:
        return ExitCode.BAD_VERDICT
    # The budget ended before the first case.
    return ExitCode.UNDECIDED if ended[Status.NOT_RUN] and not ended[Status.GOOD] else ExitCode.OK


def _connect(backend: Backend, plan: Plan, world: World) -> dict[str, str]:
    """Make the communicators; what the record says of that. Collective."""
    if plan.backend != "nccl":
        backend.connect(world)
        return {}
    from busbw.rank.backends.nccl_variables import own_ras

    with own_ras(world, os.environ) as address:
        backend.connect(world)
    progress.note(ras=address)  # not before: NCCL's RAS has crashed where it was asked earlier
    return {"ras": address}


def _dump(plan: Plan, observer: Lead | None) -> NcclDump | None:
    """Ready on every rank before NCCL reads its variables."""
    if not plan.nccl_topology or plan.backend != "nccl":
        return None
    from busbw.rank.nccl_output import NcclDump

    return NcclDump(os.environ, observer.folder if observer is not None else None)


def _conditions(plan: Plan, backend: Backend, world: World) -> Conditions:
    """What all ranks agree on before the first case. Collective."""
    # Each rank measured its own cost of timing; k follows from it, and must be the same everywhere.
    # A pod with a limit of 2 on a host of 64 cores has 2.
    cores, quota = (
        world.local_cores if isinstance(world, MpiWorld) else os.cpu_count() or 1,
        read_processors().quota_cores,
    )
    shares_cores = len(members_here(world)) > (cores if quota is None else min(cores, quota))
    own = (backend.timing_cost_ns, float(shares_cores), float(bool(plan.profile) or is_profiled()))
    timing_cost_ns, contended, profiled = world.max(np.array(own)).tolist()
    # On one host NCCL refuses two ranks on a GPU; hosts that are pods or namespaces of one machine do not
    # know of each other, and there it starts.
    uuids = [uuid for uuid in gathered(world, backend.identity.device_uuid) or () if uuid]
    shares_gpu = bool(of_rank_0(world, len(set(uuids)) < len(uuids)))
    # Synchronised clocks, where something is read from them: single calls that the host times.
    reads_clocks = plan.timing.mode == "latency" and plan.backend == "mpi" and world.size > 1
    return Conditions(
        world=world,
        limits=plan.limits,
        timing=plan.timing,
        timing_cost_ns=timing_cost_ns,
        max_samples_per_look=backend.max_samples_per_look,
        contended=bool(contended) and plan.backend == "mpi",
        shares_gpu=shares_gpu,
        profiled=bool(profiled),
        clock=synchronise(world) if reads_clocks and isinstance(world, MpiWorld) else None,
        singles=_single_calls(plan),
        graph_launches=plan.options.graph,
        seed=plan.seed,
        grouping=grouping(plan, world),
        span_s=0.0 if plan.backend == "null" else SPAN_S,
    )


def _single_calls(plan: Plan) -> int:
    """How many calls (or groups of them) to time one by one: as many as -n says where the loop is
    nccl-tests' own, whose -I they are for, else what the highest percentile asked for needs, and as many more
    as p99 has to spare for samples that are left out. None where means over several calls show all that was
    asked for.
    """
    calls, group = plan.limits.calls, plan.options.aggregate
    rows = [row for row in statistics_in(plan.show) if not row.of_means]
    if not rows or plan.options.graph or plan.limits.outer_iters or plan.backend == "null" or plan.streams:
        return 0
    if plan.timing.time.startswith("loop-") and calls is not None:
        return calls // group
    if group > 1:
        return 0
    needed = max(row.least_samples for row in rows)
    return max(SINGLE_CALLS, math.ceil(needed * SINGLE_CALLS / least_samples(99)))


def _most(own: dict[str, int], world: World) -> dict[str, int]:
    """Each entry's maximum over ranks; the ranks of a run report the same entries."""
    if not own:
        return {}
    most = world.max(np.array(list(own.values()), np.int64))
    return dict(zip(own, most.tolist(), strict=True))


_TIMES: Final = {
    "max": "maximum over ranks",
    "avg": "mean over ranks",
    "min": "minimum over ranks",
    "rank0": "rank 0",
    "last": "minimum over ranks: from the last arrival",
    "span": "last exit minus first entry on a synchronised clock",
    "loop": "maximum over ranks of a host loop",
    "loop-max": "maximum over ranks (one host loop of all calls a sample)",
    "loop-avg": "mean over ranks (one host loop of all calls a sample)",
    "loop-min": "minimum over ranks (one host loop of all calls a sample)",
    "loop-rank0": "rank 0 (one host loop of all calls a sample)",
}


def _method(plan: Plan, given: Conditions) -> Method:
    single = "a single call behind a barrier" if plan.timing.barrier else "a single call"
    of = "elapsed / k" if plan.timing.mode == "throughput" else single
    if plan.timing.arrival != "none":
        of += f", ranks delayed on purpose ({plan.timing.arrival})"
    if plan.streams:
        of += " in rounds that all streams begin together"
    where = plan.places
    if plan.options.unalign:
        where += f", misaligned by {plan.options.unalign} elements"
    if plan.options.memory != "device":
        where += f", {plan.options.memory} memory"
    if plan.options.register:
        where += ", registered" if plan.options.register == 1 else ", symmetric windows"
    return Method(
        mode=plan.timing.mode,
        time=f"median over samples of the {_TIMES[plan.timing.time]} of {of}",
        buffers=where,
        retention=rule(plan.raw_ranks),
        timing_cost_ns=given.timing_cost_ns,
        clock_error_ns=given.clock.error_ns if given.clock is not None else None,
        arrival=plan.timing.arrival,
    )


def share(cpus: list[int], ranks: int, number: int) -> list[int]:
    """The CPUs of rank ``number`` of ``ranks`` on one host: neighbouring ones, as many for each as there are
    for all; one that is shared where ranks outnumber them.
    """
    each = max(1, len(cpus) // ranks)
    first = number * each % len(cpus)
    return cpus[first : first + each]


def pin(world: World) -> str:
    """Pin this process; the CPUs in words. A rank that its launcher has bound to no more than its share keeps
    what it has. Local to the rank.
    """
    here, every = len(members_here(world)), os.cpu_count() or 1
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) >= every or len(cpus) > every // here:
        cpus = share(cpus, here, world.members[world.rank].local_rank)
        os.sched_setaffinity(0, cpus)
    return ranges(cpus)
