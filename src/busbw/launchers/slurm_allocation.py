"""One allocation on Slurm for many launches, each of which is a step of it (``--job-id``).

It is a batch job that does nothing itself. salloc would do as well where a site lets it, but would be another
job than was asked for: it does not take all words of sbatch nor the shell's SBATCH_* variables, sites have
rules of their own for jobs without a script, and Slurm must reach the submitting host to tell it the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from busbw.launchers import slurm_commands as commands
from busbw.launchers.base import Command
from busbw.launchers.engine import Job, JobRequest, Phase
from busbw.launchers.rank_counts import refuse_other_count
from busbw.launchers.slurm_script import Shape, asked, shape, smaller_segment
from busbw.launchers.slurm_state import OUT_OF_TIME, job_state
from busbw.launchers.slurm_words import own_words, value_of
from busbw.settings.launch import OF_NEW_JOB, LaunchSettings

if TYPE_CHECKING:
    from busbw.launchers.slurm_state import Reading

_HOLDS: Final = "exec sleep infinity"
_OUTPUT: Final = {"--output": "/dev/null", "--error": "/dev/null"}
# Of the job around, if there is one.
_AROUND: Final = "SLURM_JOB_ID"


def is_wanted(launch: LaunchSettings) -> bool:
    """Whether launches would be jobs of their own, on nodes that may differ."""
    return launch.on == "slurm" and not launch.job_id


def job_around(launch: LaunchSettings, environ: Mapping[str, str]) -> str:
    """The job that this process is in, where launches are to be its steps; empty where there is none, or a
    new job is asked for.
    """
    asks = any(name in OF_NEW_JOB for name in launch.given())
    return "" if asks or not is_wanted(launch) else environ.get(_AROUND, "")


def as_steps(launch: LaunchSettings, job_id: str) -> LaunchSettings:
    """The launch as a step of an allocation, without what that was asked for."""
    plain = LaunchSettings()
    of_job: dict[str, Any] = {name: getattr(plain, name) for name in OF_NEW_JOB}
    return replace(launch, **of_job, job_id=job_id, wait="")


def request(job: Job, counts: Sequence[int], facts: Mapping[str, str]) -> JobRequest:
    """The job that holds nodes for launches on each of ``counts`` nodes (empty: as the launch says): the
    largest of them, with room for the most ranks that a node has in any. Pure. Raises UsageError.
    """
    sizes = []
    for count in counts or ("",):
        launch = replace(job.launch, nodes=str(count or job.launch.nodes))
        sizes.append(shape(replace(job, launch=launch), facts))
        refuse_other_count(job.ranks, launch.ranks_per_node, sizes[-1].nodes)
    nodes = max(size.nodes for size in sizes)
    per_node = max(-(-size.ranks // size.nodes) for size in sizes)
    size = Shape(nodes, nodes * per_node, per_node)
    words = own_words("--sbatch-args", job.launch.sbatch_args)
    options = (*asked(job, size, facts, _OUTPUT), *words, f"--wrap={_HOLDS}")
    details = {"step_of": "", "bring": "", "called": value_of(words, "--job-name", "-J")}
    details |= {name: facts[name] for name in ("unasked", "unasked_hint") if name in facts}
    command = Command(("sbatch", "--parsable", *options))
    notes = tuple(filter(None, (smaller_segment(job.launch, nodes),)))
    return JobRequest("slurm", job.name, size.ranks, nodes, commands=(command,), details=details, notes=notes)


def why_over(job_id: str) -> str:
    """Why nothing can be started in an allocation any more; empty where it can. Raises SiteError where Slurm
    does not answer.
    """
    return reason_of(commands.look(job_id))


def reason_of(reading: Reading) -> str:
    """As why_over. Pure. A job whose nodes are being cleaned up has ended, though it is still shown."""
    found = job_state(reading)
    if reading.is_late:
        return OUT_OF_TIME
    if found.phase is Phase.RUNNING and reading.state != "COMPLETING":
        return ""
    why = f", {reading.reason}" if reading.reason else ""
    return found.why or f"its state is {reading.state}{why}"
