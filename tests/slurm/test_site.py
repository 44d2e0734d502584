"""What a site or a shell sets for Slurm's own commands does not change what the user of busbw said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

EXEC = ("exec", "--on", "slurm")
TOLD = ("--env", "DATA_A=b c", "--", "sh", "-c", 'echo "$DATA_A, $MASTER_ADDR"')


def test_variables_arrive_where_no_others_are_exported(front: Any, cluster: SlurmCluster) -> None:
    done = front.run(*EXEC, "-N", "2", *TOLD, SBATCH_EXPORT="NONE")
    assert (done.code, done.out.splitlines()) == (0, ["b c, h1"] * 2), done
    job = cluster.hold("-N2", "--nodelist=h1,h2")
    done = front.run(*EXEC, "--job-id", job, *TOLD, SLURM_EXPORT_ENV="NONE")
    cluster.run("scancel", job)
    assert (done.code, done.out.splitlines()) == (0, ["b c, h1"] * 2), done


def test_what_is_said_wins_over_sbatchs_variables(far_front: Any) -> None:
    shell = {
        "SBATCH_PARTITION": "closed",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_JOB_NAME": "other",
        "SBATCH_REQUEUE": "1",
        "SBATCH_OUTPUT": "/tmp/x-%j.out",
        "SBATCH_ERROR": "/tmp/x-%j.err",
    }
    words = ("--partition", "debug", "--time-limit", "17", "--shared", "--wait", "20s", "--")
    ask = "squeue --noheader --jobs=$SLURM_JOB_ID --format='%P %l %j %h'; scontrol show job $SLURM_JOB_ID"
    done = far_front.run(*EXEC, "-N", "1", *words, "sh", "-c", f"{ask} | grep -o Requeue=.", **shell)
    assert done.code == 0, done
    partition, limit, name, shares = done.out.splitlines()[0].split()
    assert (partition, limit, shares) == ("debug", "17:00", "OK"), done
    assert name.startswith("busbw-")
    assert done.out.splitlines()[1:] == ["Requeue=0"]
