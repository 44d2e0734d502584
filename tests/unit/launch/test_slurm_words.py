"""Words for sbatch and srun, and what Slurm tells of GPUs."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.launch.slurm.commands import chosen, own_words, read_allocated, value_of
from busbw.plan.flags.launch import LaunchSettings

HEAD = "JobId=7 JobName=x\n   NumNodes=2 NumCPUs=8\n"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--sbatch-args", "-o/tmp/x"),
        ("--sbatch-args", "--qos=a --error=x"),
        ("--sbatch-args", "-W"),
        ("--srun-args", "-e x"),
        ("--srun-args", "--export A,B"),
    ],
)
def test_words_that_would_lose_something_are_refused(flag: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} -") as refused:
        own_words(flag, words)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--sbatch-args", "--export=NONE --exclude=h1 --open-mode=append --wait-all-nodes=1 --overcommit"),
        ("--srun-args", "--export=ALL,A=b --wait=30 -W 30"),
    ],
)
def test_others_are_not(flag: str, words: str) -> None:
    assert own_words(flag, words) == words.split()


@pytest.mark.parametrize(
    ("words", "value"),
    [([], ""), (["-p", "a"], "a"), (["-pa"], "a"), (["--partition=a", "-p", "b"], "b"), (["--part"], "")],
)
def test_the_last_of_several_holds(words: list[str], value: str) -> None:
    assert value_of(words, "--partition", "-p") == value


def test_where_a_job_goes() -> None:
    shell = {"SBATCH_PARTITION": "c", "SBATCH_ACCOUNT": "team"}
    assert chosen(LaunchSettings(), shell) == {"partition": "c", "account": "team"}
    assert chosen(LaunchSettings(partition="b"), shell)["partition"] == "b"
    assert chosen(LaunchSettings(partition="b", sbatch_args="-p a"), shell)["partition"] == "a"


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("     Nodes=h[1-2] CPU_IDs=0-3 Mem=0 GRES=\n", 0),
        ("     Nodes=h1 CPU_IDs=0 Mem=0 GRES=gpu:4(IDX:0,2-4),nvme:1\n     Nodes=h2 Mem=0 GRES=gpu:2\n", 2),
        ("   TRES=cpu=8,node=2,billing=8,gres/gpu=16,gres/gpu:h100=16\n", 8),
        ("   AllocTRES=cpu=8,node=2,gres/gpu=4\n", 2),
    ],
)
def test_gpus_of_an_allocation(text: str, gpus: int) -> None:
    assert read_allocated(HEAD + text, 2) == gpus
