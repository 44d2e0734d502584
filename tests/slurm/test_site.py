"""What a site or a shell sets for Slurm's own commands does not change what the user of busbw said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

EXEC = ("exec", "--on", "slurm")
TOLD = ("--env", "DATA_A=b c", "--", "sh", "-c", 'echo "$DATA_A, $MASTER_ADDR"')
NULL = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl", "--on", "slurm")


@pytest.mark.parametrize(
    ("words", "shell"),
    [((), {"SBATCH_EXPORT": "NONE"}), (("--sbatch-args=--export=NONE",), {})],
    ids=["shell", "words"],
)
def test_variables_arrive_where_no_others_are_exported(
    front: Any, words: tuple[str, ...], shell: dict[str, str]
) -> None:
    done = front.run(*EXEC, "-N", "2", *words, *TOLD, **shell)
    assert done.code == 0, done
    assert done.out.splitlines() == ["b c, h1"] * 2
    words = (*NULL, "-N", "2", "--ranks-per-node", "2", "--env", "NCCL_ALGO=Ring", *words)
    assert front.run(*words, **shell).code == 0
    assert "NCCL_ALGO" in str(front.record()["environment"])


def test_variables_arrive_in_an_allocation(front: Any, cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "-N2", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    try:
        cluster.wait_until(lambda: "RUNNING" in cluster.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
        done = front.run(*EXEC, "--job-id", job, *TOLD, SLURM_EXPORT_ENV="NONE")
    finally:
        cluster.run("scancel", job)
    assert done.code == 0, done
    assert done.out.splitlines() == ["b c, h1"] * 2


def test_what_is_said_wins_over_sbatchs_variables(front: Any) -> None:
    shell = {
        "SBATCH_PARTITION": "closed",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_JOB_NAME": "other",
        "SBATCH_REQUEUE": "1",
        "SBATCH_WAIT": "1",
        "SBATCH_ARRAY_INX": "0-1",
        "SBATCH_EXCLUSIVE": "1",
    }
    words = ("--partition", "debug", "--time-limit", "17", "--shared", "--wait", "20s", "--")
    ask = "squeue --noheader --jobs=$SLURM_JOB_ID --format='%P %l %j %h'; scontrol show job $SLURM_JOB_ID"
    done = front.run(*EXEC, "-N", "1", *words, "sh", "-c", f"{ask} | grep -o Requeue=.", **shell)
    assert done.code == 0, done
    partition, limit, name, shares = done.out.splitlines()[0].split()
    assert (partition, limit, shares) == ("debug", "17:00", "OK"), done
    assert name.startswith("busbw-")
    assert done.out.splitlines()[1:] == ["Requeue=0"]


def test_a_partition_that_only_the_shell_names_is_the_one_looked_at(front: Any) -> None:
    done = front.run(*NULL, "-N", "1", "--wait", "5s", SBATCH_PARTITION="closed")
    assert done.code == 4, done
    assert "partition closed is down" in done.out + done.err


def test_output_is_found_where_the_shell_names_a_file_for_it(far_front: Any) -> None:
    shell = {"SBATCH_OUTPUT": "/tmp/x-%j.out", "SBATCH_ERROR": "/tmp/x-%j.err"}
    done = far_front.run(*EXEC, "-N", "1", "--", "echo", "hello", **shell)
    assert (done.code, done.out) == (0, "hello\n"), done
    done = far_front.run(*NULL, "-N", "1", **shell)
    assert done.code == 0, done
    assert far_front.record()["status"] == "complete"


@pytest.mark.parametrize(
    "words", [(*EXEC, "-N", "1", "--detach", "--", "true"), (*NULL, "-N", "1", "--detach")]
)
def test_output_that_is_gone_is_no_success(
    far_front: Any, cluster: SlurmCluster, words: tuple[str, ...]
) -> None:
    assert far_front.run(*words).code == 0
    cluster.wait_until(lambda: not cluster.jobs(), 90)
    cluster.run("sh", "-c", "rm /tmp/busbw-*", host="h1")
    done = far_front.run("attach", "last")
    assert done.code == 5, done
    assert "nothing of its output was found at h1:/tmp/busbw-" in done.error
    assert far_front.record()["status"] == "failed"
