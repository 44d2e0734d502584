"""Settings of ``busbw hang``: where the job is, and what is asked."""

from pathlib import Path

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Seconds

of_job = Flags("The job", 4)


@settings
class HangSettings:
    """Where the job is. Without any: on this host."""

    host: str = of_job("", "Hosts of the job, asked over SSH: h1,h2.")
    pid: int | None = of_job(None, "Only the job of this process on this host.")
    job_id: str = of_job("", "A job of Slurm, asked with srun.")
    pods: str = of_job("", "Pods of the job, asked with kubectl: p1,p2.")
    namespace: str = of_job("", "Where the pods are.")
    flight_recorder: Path | None = of_job(None, "Read PyTorch's flight recorder: the dumps in this folder.")
    ras: str = of_job(
        "", "Where NCCL listens on each host. [default: NCCL_RAS_ADDR of --pid, or localhost:28028]"
    )
    wait: Seconds = of_job(Seconds("5s"), "Time between two looks. A job whose counts change does not hang.")
