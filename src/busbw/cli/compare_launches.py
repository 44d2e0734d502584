"""How the launches of ``busbw compare setups.yaml`` are started: here, or on an engine, in one allocation
where it has such.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from busbw import setup_series
from busbw.errors import UsageError
from busbw.job_allocation import SLURM, allocated
from busbw.job_session import wait_seconds
from busbw.launchers.engine import Job, JobRequest, Work, load
from busbw.launchers.slurm_allocation import as_steps, is_wanted, request
from busbw.planning.make import make_plan
from busbw.planning.setups import Setup
from busbw.record import folder as folders
from busbw.settings.compare import LAUNCH_SECONDS
from busbw.settings.flag import flag_of
from busbw.setup_jobs import Launching, Starter, engine_starter
from busbw.setup_pbs import PbsStarter
from busbw.units import parse_duration

if TYPE_CHECKING:
    from busbw.settings.compare import CompareSettings
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings
    from busbw.setup_pods import HeldStarter


@dataclass(frozen=True)
class Launches:
    """What is asked for, as ``compare`` read it."""

    operations: tuple[str, ...]
    options: CompareSettings
    settings: RunSettings
    launch: LaunchSettings
    environ: dict[str, str]
    argv: tuple[str, ...]

    def on_engine(self, launch: LaunchSettings, *, in_queue: bool) -> Launching:
        """What launches on an engine share; by default, those that wait in a queue have no limit of ours."""
        limit = _limit_seconds(self.options, in_queue=in_queue)
        return Launching(self.operations, self.settings, launch, self.environ, limit, self.argv, sys.stderr)


def starting(
    how: Launches, setups: Sequence[Setup], nodes: Sequence[int]
) -> tuple[JobRequest | None, AbstractContextManager[Starter]]:
    """The job that holds the nodes of all launches, where one does; and what starts launches, once it is
    entered. Raises UsageError for a launch that cannot be started.
    """
    launch = how.launch
    if launch.on is None:
        return None, contextlib.nullcontext(_here(how))
    if launch.on == "kubernetes" and (pods := _in_pods(how, setups, nodes)) is not None:
        return pods.request(), pods
    if launch.on == "pbs":
        in_job = PbsStarter(how.on_engine(launch, in_queue=False), setups, nodes or (0,))
        return in_job.request(), in_job
    counts = nodes or (0,)
    own_jobs = launch.on != "hosts" and not launch.job_id
    start = engine_starter(how.on_engine(launch, in_queue=own_jobs), setups, counts)
    if not is_wanted(launch):
        return None, contextlib.nullcontext(start)
    job = _allocation(how, nodes)
    return job, _in_steps(how, job, setups, counts)


def _allocation(how: Launches, nodes: Sequence[int]) -> JobRequest:
    """The job that holds the nodes of all launches on Slurm."""
    run_id = "compare" if how.settings.dry_run else folders.new_run_id("setups")
    job = Job(
        run_id=run_id,
        folder="",
        work=Work(()),
        launch=how.launch,
        backend=how.settings.backend,
        world=how.settings.world,
        ranks=how.settings.ranks,
    )
    made = request(job, nodes, load("slurm").inquire(how.launch))
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
    return made


@contextlib.contextmanager
def _in_steps(
    how: Launches, job: JobRequest, setups: Sequence[Setup], counts: Sequence[int]
) -> Iterator[Starter]:
    waits = wait_seconds(how.launch.wait, load("slurm"))
    with allocated(job, SLURM, waits, sys.stderr) as taken:
        yield engine_starter(how.on_engine(as_steps(how.launch, taken.id), in_queue=False), setups, counts)


def _in_pods(how: Launches, setups: Sequence[Setup], nodes: Sequence[int]) -> HeldStarter | None:
    """Launches in the pods of one job; None where the cluster does not let the user into pods."""
    from busbw.launchers.kubernetes_api import named_context
    from busbw.setup_pods import HeldStarter, missing_rights

    launch = replace(how.launch, context=named_context(how.launch.context))
    shared = how.on_engine(launch, in_queue=False)
    pods = HeldStarter(shared, setups, nodes or (0,))
    namespace = shared.facts["namespace"]
    missing = [] if how.settings.dry_run else missing_rights(launch, namespace)
    if not missing:
        return pods
    print(
        f"note: not allowed in namespace {namespace}: {', '.join(missing)}. So each launch is a job of its"
        " own, on the nodes of the first",
        file=sys.stderr,
    )
    return None


def _here(how: Launches) -> Starter:
    from busbw.launchers.choose import local_request, rank_count
    from busbw.probes.backends import choose_backend

    settings = how.settings
    if left := [name for name in how.launch.given() if name not in ("env", "env_file", "library_path")]:
        flag = flag_of(left[0])
        raise UsageError(f"{flag} needs an engine", hint="give --on hosts, slurm, kubernetes, pbs or batch")
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = rank_count(settings.ranks, backend)
    make_plan(how.operations, settings, backend, ranks)
    request_for = partial(local_request, backend, settings.world, ranks)
    limit = _limit_seconds(how.options, in_queue=False)
    return setup_series.local_starter(
        how.operations, settings, backend, ranks, request_for, how.environ, limit, how.argv, sys.stderr
    )


def _limit_seconds(options: CompareSettings, *, in_queue: bool) -> float | None:
    """How long a launch may run; 0 is for ever. By default, none where launches are jobs of a queue: it has
    limits of its own, and a node may fetch an image first.
    """
    if options.launch_timeout:
        return parse_duration(options.launch_timeout, "--launch-timeout") or None
    return None if in_queue else LAUNCH_SECONDS
