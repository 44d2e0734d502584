"""A series of launches in one job on Slurm, or in an allocation of the user's (``--job-id``): each launch is
a step of it. See ``SeriesEngine``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.launch.engine import Handle, Job, JobRequest, Start
from busbw.launch.slurm import engine
from busbw.launch.slurm import order as slurm_order
from busbw.launch.slurm.follow import LaunchReader, kept_nodes, ranked
from busbw.launch.slurm.script import render_launch, shape
from busbw.plan.flags.launch import OF_NEW_JOB, LaunchSettings

if TYPE_CHECKING:
    from busbw.launch.engine import LaunchReader as Reader

# Of the job around, if there is one.
_AROUND: Final = "SLURM_JOB_ID"


def job_around(launch: LaunchSettings, environ: Mapping[str, str]) -> str:
    """The job that this process is in, where launches are to be its steps; empty where there is none, or a
    new job is asked for.
    """
    asks = any(name in OF_NEW_JOB for name in launch.given())
    return "" if asks or launch.on != "slurm" or launch.job_id else environ.get(_AROUND, "")


def as_steps(launch: LaunchSettings, job_id: str) -> LaunchSettings:
    """The launch as a step of an allocation, without what that was asked for."""
    plain = LaunchSettings()
    of_job: dict[str, Any] = {name: getattr(plain, name) for name in OF_NEW_JOB}
    return replace(launch, **of_job, job_id=job_id, wait=None)


def start(job: Job, series: Job, facts: Mapping[str, str]) -> Start:
    """See SeriesEngine."""
    del series
    return Start(("bash", "-c", render_launch(job, facts, slurm_order.rank_order(facts))))


def sweep(series: Job, words: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """See SeriesEngine."""
    nodes = int(facts.get("job_nodes", "") or shape(series, facts).nodes)
    held = (f"--jobid={series.launch.job_id}",) if series.launch.job_id else ()
    each = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--mpi=none", "--wait=0")
    return ("srun", "--quiet", *held, "--overlap", *each, f"--job-name={series.name}-sweep", *words)


def request(series: Job, loop: tuple[str, ...], facts: Mapping[str, str]) -> JobRequest:
    """See SeriesEngine."""
    return engine.series_request(series, loop, facts)


def reader(handle: Handle, folder: Path, nodes: int, ranks: int | None) -> Reader:
    """See SeriesEngine."""
    names = ranked(handle, kept_nodes(folder))[: nodes or None]
    if ranks is None:
        return LaunchReader(names, int(handle.details["per_node"]))
    is_even = bool(names) and ranks % len(names) == 0
    return LaunchReader(names, ranks // len(names) if is_even else 0)
