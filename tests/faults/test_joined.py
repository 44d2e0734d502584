"""Ranks that somebody else's launcher started: they join, and what is wrong is said once and ends all."""

from __future__ import annotations

import os
from typing import Any

QUICK = ["all_reduce", "-b", "8", "-e", "64", "-n", "8"]
NULL = (*QUICK, "--backend", "null")


def test_two_plain_processes_with_torchrun_style_variables(launcher: Any) -> None:
    first, second = (rank.finish() for rank in launcher.torchrun_style(2, *NULL))
    assert (first.code, second.code) == (0, 0), (first, second)
    assert "# ranks    2 on 1 host" in first.out
    assert (second.out, second.err) == ("", "")


def test_the_users_own_mpiexec(launcher: Any, mpiexec: str) -> None:
    done = launcher.start(mpiexec, "-n", "2", *launcher.busbw, "run", *QUICK).finish()
    assert done.code == 0
    assert "# ranks    2 on 1 host" in done.out
    assert done.out.count("# busbw ") == 1
    assert done.err == ""


def test_a_usage_error_is_said_once_and_ends_all_ranks(launcher: Any, mpiexec: str) -> None:
    operands, error = (*QUICK, "--ranks", "3"), "--ranks 3, but "
    done = launcher.start(mpiexec, "-n", "2", *launcher.busbw, "run", *operands).finish()
    assert done.error.startswith(error)
    assert done.code == 2
    ranks = [rank.finish() for rank in launcher.torchrun_style(2, *operands)]
    assert [rank.code for rank in ranks] == [2, 2]
    assert ranks[0].error.startswith(error)
    assert ranks[1].err == ""


def test_what_the_site_lacks_has_its_own_code_on_every_rank(launcher: Any) -> None:
    ranks = [
        rank.finish() for rank in launcher.torchrun_style(2, *QUICK, "--nccl", "/absent", "--backend", "nccl")
    ]
    assert [rank.code for rank in ranks] == [4, 4]
    assert ranks[0].error.startswith("backend nccl is not usable")
    assert ranks[1].err == ""


def test_a_dry_run_is_printed_once_and_knows_the_ranks(launcher: Any, mpiexec: str) -> None:
    done = launcher.start(mpiexec, "-n", "3", *launcher.busbw, "run", *QUICK, "--dry-run").finish()
    assert done.code == 0
    assert done.out.count("# 3 ranks, ") == 1
    assert done.err == ""


def test_separate_one_rank_worlds_are_refused(launcher: Any) -> None:
    """Variables of a launcher of two, and a library that knows nothing of it."""
    done = launcher.run(*QUICK, PMI_RANK="0", PMI_SIZE="2")
    assert done.error.startswith(
        "rank 0: 2 separate one-rank worlds: the launcher is mpich, the MPI library is MPICH"
    )
    assert "/bin/mpiexec, or set MPI4PY_LIBMPI" in done.hint
    assert done.code == 4


def test_an_open_mpi_launcher_with_mpich_is_refused_before_it_aborts(launcher: Any) -> None:
    from busbw.machine.mpi import find_mpi

    library = find_mpi(os.environ).library
    variables = {f"OMPI_COMM_WORLD_{name}": number for name, number in (("RANK", "0"), ("SIZE", "2"))}
    assert library is not None
    done = launcher.run(*QUICK, **variables, MPI4PY_LIBMPI=library.path)
    assert done.error.startswith("rank 0: the launcher is openmpi (Open MPI), the MPI library is MPICH")
    assert "MPI4PY_LIBMPI" in done.hint
    assert done.code == 4


def test_told_that_there_is_no_launcher_it_starts_its_own_ranks(launcher: Any) -> None:
    leftovers = {"BUSBW_LAUNCHER": "none", "PMI_RANK": "1", "PMI_SIZE": "7", "SLURM_PROCID": "3"}
    done = launcher.run(*NULL, "--ranks", "2", "--world", "mpi", **leftovers)
    assert done.code == 0, done
    assert "# ranks    2 on 1 host" in done.out
