"""Before a job is submitted to Slurm: what does its own trial of the job say, and can it run an image?

Whether the nodes see the run folder is only known on them: the ranks say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from busbw.launch.engine import Job, JobRequest
from busbw.launch.scheduler import NoAnswer, ask, hint_of, own_words
from busbw.model.finding import Finding, Severity

_REFUSED: Final = "allocation failure: "


def look(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """Have sbatch try the job, and ask srun of containers. Raises SiteError where Slurm is not there."""
    launch = job.launch
    found: list[Finding] = []
    if not launch.job_id:
        found += tried(request)
    if launch.image:
        help_text = ask(("srun", "--help")).stdout
        found += image_findings(launch.image, help_text, exists=Path(launch.image).exists())
    return tuple(found)


def tried(request: JobRequest) -> Iterator[Finding]:
    """Why Slurm would not start the job as its nodes are now (`sbatch --test-only`). That may pass, as where
    nodes are down; what does not pass, sbatch refuses when the job is submitted.
    """
    (command,), (script,) = request.commands, request.files.values()
    sbatch, _, *options = command.argv[:-1]  # but for --parsable and the script's place
    try:
        done = ask((sbatch, "--test-only", *options), text=script)
    except NoAnswer:  # with a long queue a trial may take longer than a submission
        return
    if done.returncode:
        words = own_words(done.stderr.strip().splitlines()).removeprefix(_REFUSED)
        claim = f"Slurm would not start this job now: {words}"
        yield Finding(Severity.WARNING, claim, hint=hint_of(words, "sbatch"), check="nodes")


def image_findings(image: str, srun_help: str, *, exists: bool) -> Iterator[Finding]:
    """Whether this Slurm can start containers, and has the image's file where it is one. Pure."""
    if "--container-image" not in srun_help:
        yield Finding(
            Severity.ERROR,
            "this Slurm cannot start containers: srun has no --container-image (pyxis)",
            hint="install pyxis and enroot, or leave --image out",
            check="pyxis",
        )
    if image.startswith("/") and not exists:
        yield Finding(
            Severity.WARNING,
            f"the image {image} is not seen from here",
            hint="correct --image, or make sure that the nodes have it",
            check="image",
        )
