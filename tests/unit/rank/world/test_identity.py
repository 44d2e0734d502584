from __future__ import annotations

from dataclasses import dataclass

import pytest

from busbw.errors import LauncherMismatch
from busbw.rank.world.identity import identify


@dataclass(frozen=True)
class Case:
    """``expected``: launcher, rank, size, local rank, local size, default world, MPI family."""

    sentence: str
    environ: dict[str, str]
    expected: tuple[str, int, int | None, int | None, int | None, str, str | None] | None


def openmpi(rank: int, size: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % 4),
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "PMIX_RANK": str(rank),
        "PMIX_NAMESPACE": "prterun-h1-1@1",
    }


def hydra(rank: int, size: int) -> dict[str, str]:
    local = {"MPI_LOCALRANKID": str(rank % 4), "MPI_LOCALNRANKS": "4"}
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "PMI_FD": "9", "HYDI_CONTROL_FD": "7", **local}


def step(rank: int, size: int, tasks_per_node: str = "4(x8)") -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % 4),
        "SLURM_NODEID": str(rank // 4),
        "SLURM_NTASKS": str(size),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_TASKS_PER_NODE": tasks_per_node,
        "SLURM_STEP_NODELIST": "h[01-08]",
    }


def batch(ntasks: int) -> dict[str, str]:
    """What an sbatch script itself sees, outside any step."""
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS": str(ntasks),
        "SLURM_JOB_NODELIST": "h[01-08]",
    }


def torchrun(rank: int, size: int) -> dict[str, str]:
    return {
        "TORCHELASTIC_RUN_ID": "none",
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank % 8),
        "LOCAL_WORLD_SIZE": "8",
        "MASTER_ADDR": "h01",
        "MASTER_PORT": "29500",
    }


def one_rank_torchrun(size: int) -> dict[str, str]:
    """Rank 0 of ``size``, one a node, without the names of groups."""
    return torchrun(0, size) | {"LOCAL_WORLD_SIZE": "1"}


def one_agent(rank: int, size: int) -> dict[str, str]:
    """A rank of a torchrun with a single agent."""
    local = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}
    return torchrun(rank, size) | local | {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1"}


def busbw(rank: int, size: int) -> dict[str, str]:
    local = {"BUSBW_LOCAL_RANK": str(rank), "BUSBW_LOCAL_SIZE": str(size)}
    return {"BUSBW_RANK": str(rank), "BUSBW_WORLD_SIZE": str(size), **local}


def plain(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size)}


CASES = (
    Case("an empty environment is no launcher", {}, None),
    Case("our own local start", busbw(2, 8), ("busbw", 2, 8, 2, 8, "nccl", None)),
    Case(
        "our own start wins over all it was started in",
        busbw(1, 2) | torchrun(0, 16) | openmpi(3, 4) | step(5, 8),
        ("busbw", 1, 2, 1, 2, "nccl", None),
    ),
    Case("torchrun", torchrun(9, 16), ("torchrun", 9, 16, 1, 8, "nccl", None)),
    Case(
        "torchrun inside srun, one agent a node",
        torchrun(9, 16) | step(1, 2, "1(x2)"),
        ("torchrun", 9, 16, 1, 8, "nccl", None),
    ),
    Case(
        "torchrun started by mpirun, and it says which agent this is",
        torchrun(9, 16) | openmpi(1, 2) | {"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2"},
        ("torchrun", 9, 16, 1, 8, "nccl", None),
    ),
    Case(
        "torchrun's ranks as hydra's, one process a rank",
        torchrun(9, 16) | hydra(9, 16),
        ("torchrun", 9, 16, 1, 8, "nccl", None),
    ),
    Case(
        "torchrun inside srun --mpi=pmix, one agent a node: the PMIx rank is the step's",
        torchrun(9, 16) | step(1, 2, "1(x2)") | {"PMIX_RANK": "1"},
        ("torchrun", 9, 16, 1, 8, "nccl", None),
    ),
    Case("Open MPI's mpirun", openmpi(5, 8), ("openmpi", 5, 8, 1, 4, "mpi", "openmpi")),
    Case(
        "mpirun's daemons were started by srun and left its numbers",
        openmpi(5, 8) | step(1, 2, "1(x2)"),
        ("openmpi", 5, 8, 1, 4, "mpi", "openmpi"),
    ),
    Case(
        "mpirun inside srun --mpi=pmi2 -n 1: the PMI variables are the step's",
        openmpi(2, 4) | step(0, 1) | {"PMI_RANK": "0", "PMI_SIZE": "1"},
        ("openmpi", 2, 4, 2, 4, "mpi", "openmpi"),
    ),
    Case(
        "mpirun whose user exports RANK from it",
        openmpi(5, 8) | plain(5, 8),
        ("openmpi", 5, 8, 1, 4, "mpi", "openmpi"),
    ),
    Case("hydra", hydra(5, 8), ("mpich", 5, 8, 1, 4, "mpi", "mpich")),
    Case(
        "hydra with one process a node: same numbers as srun's, but hydra's",
        hydra(1, 2) | step(1, 2, "1(x2)"),
        ("mpich", 1, 2, 1, 4, "mpi", "mpich"),
    ),
    Case(
        "MVAPICH's mpirun_rsh",
        {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"},
        ("mvapich", 1, 2, None, None, "mpi", "mpich"),
    ),
    Case(
        "PALS on a Cray",
        {
            "PALS_RANKID": "3",
            "PALS_LOCAL_RANKID": "3",
            "PALS_LOCAL_SIZE": "4",
            "PMI_RANK": "3",
            "PMI_SIZE": "8",
        },
        ("pals", 3, 8, 3, 4, "mpi", "mpich"),
    ),
    Case("ALPS' aprun", {"ALPS_APP_PE": "7", "PMI_SIZE": "8"}, ("alps", 7, 8, None, None, "mpi", "mpich")),
    Case("a PMIx server alone", {"PMIX_RANK": "1"}, ("pmix", 1, None, None, None, "mpi", "openmpi")),
    Case("a task of a plain Slurm step", step(5, 32), ("slurm", 5, 32, 1, 4, "nccl", None)),
    Case("a Slurm step with uneven nodes", step(8, 11, "4(x2),3"), ("slurm", 8, 11, 0, 3, "nccl", None)),
    Case("an sbatch script itself is no rank", batch(32), None),
    Case("salloc's interactive shell is no rank", step(0, 1) | {"SLURM_STEP_ID": "4294967290"}, None),
    Case(
        "srun --mpi=pmix",
        step(5, 8) | {"PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.77.0"},
        ("slurm", 5, 8, 1, 4, "mpi", "openmpi"),
    ),
    Case(
        "srun --mpi=pmi2",
        step(5, 8) | {"PMI_RANK": "5", "PMI_SIZE": "8", "PMI_JOBID": "77.0"},
        ("slurm", 5, 8, 1, 4, "mpi", "mpich"),
    ),
    Case(
        "srun --mpi=cray_shasta",
        step(5, 8) | {"PMI_CONTROL_PORT": "20023"},
        ("slurm", 5, 8, 1, 4, "mpi", "mpich"),
    ),
    Case(
        "a step whose wrapper exports RANK from it",
        step(5, 8) | plain(5, 8),
        ("slurm", 5, 8, 1, 4, "nccl", None),
    ),
    Case(
        "a step's task that starts one rank a GPU by hand",
        step(1, 2, "1(x2)") | plain(11, 16) | {"LOCAL_RANK": "3"},
        ("environment", 11, 16, 3, None, "nccl", None),
    ),
    Case(
        "RANK and WORLD_SIZE alone",
        plain(1, 2) | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"},
        ("environment", 1, 2, 1, 2, "nccl", None),
    ),
    Case(
        "an indexed Kubernetes job",
        {"JOB_COMPLETION_INDEX": "3", "BUSBW_WORLD_SIZE": "4"},
        ("kubernetes", 3, 4, None, None, "nccl", None),
    ),
    Case(
        "mpirun inside a pod of an indexed job",
        {"JOB_COMPLETION_INDEX": "0"} | hydra(1, 4),
        ("mpich", 1, 4, 1, 4, "mpi", "mpich"),
    ),
    Case(
        "a launcher named by the user decides a contradiction",
        openmpi(1, 2) | hydra(3, 4) | {"BUSBW_LAUNCHER": "mpich"},
        ("mpich", 3, 4, 3, 4, "mpi", "mpich"),
    ),
    Case("none: one process, whatever the variables say", openmpi(1, 2) | {"BUSBW_LAUNCHER": "none"}, None),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_identity(case: Case) -> None:
    found = identify(case.environ)
    if case.expected is None:
        assert found is None
        return
    assert found is not None
    numbers = (found.launcher, found.rank, found.size, found.local_rank, found.local_size)
    assert (*numbers, found.world, found.mpi_family) == case.expected


@pytest.mark.parametrize(
    ("sentence", "environ", "words"),
    [
        ("RANK without WORLD_SIZE", {"RANK": "0"}, "WORLD_SIZE is not"),
        ("rank beyond the size", busbw(8, 8), "rank 8 of 8"),
        (
            "a rank in words",
            {"OMPI_COMM_WORLD_RANK": "zero", "OMPI_COMM_WORLD_SIZE": "2"},
            "not a whole number",
        ),
        ("hand-set rank against mpirun", openmpi(1, 4) | plain(0, 4), "disagree"),
        (
            "hand-set numbers against srun --mpi=pmix",
            step(1, 4) | {"PMIX_RANK": "1"} | plain(0, 1),
            "disagree",
        ),
        ("Open MPI and PMI both set and different", openmpi(1, 4) | hydra(0, 2), "two MPI launchers"),
        (
            "mpirun -np 2 inside a one-rank torchrun, rank 0",
            one_rank_torchrun(1) | hydra(0, 2),
            "torchrun and",
        ),
        ("mpirun -np 2 inside rank 0 of 2 of torchrun", one_rank_torchrun(2) | hydra(1, 2), "torchrun and"),
        ("more MPI ranks than torchrun has", torchrun(0, 16) | openmpi(3, 4), "torchrun and"),
        ("one torchrun in each rank of mpirun", one_agent(0, 8) | openmpi(0, 2), "torchrun and"),
        ("local rank beyond the local size", busbw(0, 2) | {"BUSBW_LOCAL_RANK": "2"}, "local rank 2 of 2"),
        (
            "an indexed job that does not say how many",
            {"JOB_COMPLETION_INDEX": "0"},
            "BUSBW_WORLD_SIZE or WORLD_SIZE",
        ),
        ("an unknown launcher by name", {"BUSBW_LAUNCHER": "lsf"}, "no launcher is called 'lsf'"),
        ("a named launcher that is not there", {"BUSBW_LAUNCHER": "openmpi"}, "is not set"),
    ],
)
def test_contradiction_is_refused_with_a_way_out(sentence: str, environ: dict[str, str], words: str) -> None:
    with pytest.raises(LauncherMismatch, match=words) as caught:
        identify(environ)
    assert caught.value.hint.split()[0] in {"set", "unset", "use", "in"}


def test_root_and_token_come_along() -> None:
    found = identify(step(0, 8))
    assert found is not None
    assert (found.root_host, found.root_port) == ("h01", None)
    secret = identify(busbw(0, 2) | {"BUSBW_ROOT": "10.0.0.1:4000", "BUSBW_TOKEN": "s3cret"})
    assert secret is not None
    assert (secret.root_host, secret.root_port) == ("10.0.0.1", 4000)
    assert secret.token == "s3cret"
