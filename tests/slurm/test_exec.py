"""Commands of the user's own on Slurm: what they are told of their nodes, MPI programs, how they end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.exec_programs import FACTS, MEET, MPI, facts_of
from busbw_testing.slurm_cluster import OPEN_MPI

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

ON = ("exec", "--on", "slurm", "-N")


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_a_command_finds_its_nodes(where: str, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    words = ("2", "--ranks-per-node", "2", "--env", "MASTER_PORT=7", "--", sys.executable, "-c", FACTS)
    done = front.run(*ON, *words, MASTER_ADDR="elsewhere")
    assert done.code == 0, done
    lines = [
        (host, "h1 slots=2/h2 slots=2", "2", str(number), "h1", "7")
        for number, host in enumerate(("h1", "h2"))
    ]
    assert facts_of(done.out) == [lines[0], lines[0], lines[1], lines[1]]


def test_the_nodes_of_a_step(front: Any, cluster: SlurmCluster) -> None:
    job = cluster.run("sbatch", "--parsable", "-N3", "--output=/dev/null", "--wrap", "sleep 1000").strip()
    try:
        cluster.wait_until(lambda: "RUNNING" in cluster.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
        done = front.run(*ON, "2", "--job-id", job, "--", sys.executable, "-c", FACTS)
    finally:
        cluster.run("scancel", job)
    assert done.code == 0, done
    assert [line[:5] for line in facts_of(done.out)] == [
        ("h1", "h1 slots=1/h2 slots=1", "2", "0", "h1"),
        ("h2", "h1 slots=1/h2 slots=1", "2", "1", "h1"),
    ]


def test_an_mpi_program_gets_the_plugin_of_its_mpi(front: Any) -> None:
    yielding = ("--env", "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1")
    done = front.run(*ON, "2", *yielding, "--", sys.executable, "-c", MPI)
    assert done.code == 0, done
    assert sorted(done.out.splitlines()) == ["rank 0 of 2 on h1: sum 3", "rank 1 of 2 on h2: sum 3"]
    assert "--mpi=pmi2" in front.script()
    assert "note:" not in done.err


def test_an_open_mpi_program(front: Any, open_mpi_python: Path) -> None:
    done = front.run(*ON, "2", *OPEN_MPI, "--", open_mpi_python, "-c", MPI)
    assert done.code == 0, done
    assert sorted(done.out.splitlines()) == ["rank 0 of 2 on h1: sum 3", "rank 1 of 2 on h2: sum 3"]


def test_a_command_whose_mpi_is_not_known_is_told_of(front: Any) -> None:
    done = front.run(*ON, "2", "--", "sh", "-c", "hostname")
    assert done.code == 0, done
    assert "note: which MPI sh uses is not known" in done.err
    assert "--mpi mpich" in done.err


def test_variables_are_the_commands_alone(front: Any, tmp_path: Path) -> None:
    """The job script, srun and what makes the host file neither read nor change them."""
    kept = tmp_path / "kept"
    kept.write_text("")
    names = ("log", "job", "hosts", "out", "run_folder", "code", "file", "name")
    given = [word for name in names for word in ("--env", f"{name}={kept}")]
    show = 'echo "$PATH $log $job $hosts $out $run_folder $code $file $name $BUSBW_NODES"'
    done = front.run(*ON, "2", "--mpi", "none", "--env", "PATH=/nope", *given, "--", "/bin/sh", "-c", show)
    line = " ".join(("/nope", *[str(kept)] * len(names), "2"))
    assert (done.code, done.out.splitlines()) == (0, [line, line]), done
    assert kept.exists()


def test_ranks_meet_at_the_first_node(front: Any) -> None:
    done = front.run(*ON, "3", "--mpi", "none", "--", sys.executable, "-c", MEET)
    assert (done.code, done.out) == (0, "met 1 2\n"), done


def test_the_first_failing_task_gives_the_exit_code(front: Any) -> None:
    """srun itself ends with the highest: 143, of the tasks that it ends then."""
    words = ("sh", "-c", "[ $SLURM_PROCID != 2 ] || exit 9; sleep 100")
    done = front.run(*ON, "4", "--", *words)
    assert done.code == 9, done
    assert "rank 2 on h3" in done.error
    assert "exit code 9" in done.error


def test_a_command_that_the_nodes_do_not_have(front: Any) -> None:
    done = front.run(*ON, "2", "--", "/no/such/command")
    assert done.code == 127, done
    assert "/no/such/command" in done.err  # srun's own words
    assert "name a program that the nodes have" in done.hint


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_standard_error_comes_to_standard_error(where: str, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    done = front.run(*ON, "2", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.code, done.out.split()) == (0, ["out", "out"]), done
    assert done.err.splitlines().count("err") == 2
    again = front.run("attach", "last")
    assert (again.out, again.err.split()) == (done.out, ["err", "err"])


def test_a_command_that_is_out_of_time(front: Any) -> None:
    """Slurm's shortest limit is a minute. The code of its end is Slurm's doing, so it is busbw's own: 5."""
    done = front.run(*ON, "2", "--time-limit", "1", "--", "sh", "-c", "echo up; sleep 1000")
    assert done.code == 5, done
    assert done.out.split() == ["up", "up"]
    assert "its time limit came" in done.error
    assert "--time-limit" in done.hint


def test_busbw_itself_may_be_the_command(front: Any) -> None:
    """Its flags have variables, and the host file's is one of them."""
    words = ("-m", "busbw", "run", "all_reduce", "-e", "8", "--backend", "null", "--world", "nccl")
    done = front.run(*ON, "2", "--mpi", "none", "--", sys.executable, *words)
    assert done.code == 0, done
    assert "ranks    2 on 2 hosts (h1, h2), world nccl" in done.out


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_a_last_line_without_an_end_arrives(where: str, request: pytest.FixtureRequest) -> None:
    """Of a message's very length: srun's label says nothing of an end then."""
    front = request.getfixturevalue(where)
    done = front.run(*ON, "1", "--mpi", "none", "--", sys.executable, "-c", "print('a' * 1024, end='')")
    assert (done.code, done.out) == (0, "a" * 1024 + "\n"), done


def test_unbuffered_output_is_refused(front: Any) -> None:
    done = front.run(*ON, "1", "--srun-args=-u", "--", "hostname")
    assert done.code == 2, done
    assert "--srun-args -u would cut the lines of a command" in done.error


def test_a_command_that_is_cancelled_elsewhere_was_interrupted(front: Any, cluster: SlurmCluster) -> None:
    running = front.start(*ON, "2", "--mpi", "none", "--", "sh", "-c", "echo up; sleep 1000")
    running.until(lambda: running.out.split() == ["up", "up"])
    cluster.run("scancel", front.job_id())
    done = running.finish()
    assert done.code == 130, done
    assert f"job {front.job_id()} was cancelled" in done.err
    assert not any(line.startswith("error:") for line in done.err.splitlines())
    assert front.run("attach", "last").code == 130


@pytest.mark.parametrize(
    ("where", "heeds"),
    [
        ("front", 'trap "" TERM'),  # killed, where it does not end
        ("far_front", ":"),
    ],
)
def test_a_command_that_nobody_follows_is_cancelled(
    where: str, heeds: str, request: pytest.FixtureRequest, cluster: SlurmCluster
) -> None:
    front = request.getfixturevalue(where)
    words = ("sh", "-c", f"{heeds}; echo up; while :; do sleep 1; done")
    assert front.run(*ON, "2", "--mpi", "none", "--detach", "--", *words).code == 0
    cluster.wait_until(lambda: cluster.run("squeue", "--noheader", "--format=%T").split() == ["RUNNING"])
    done = front.run("cancel", "last")
    assert (done.code, f"cancelled slurm job {front.job_id()}" in done.err) == (0, True), done
    cluster.wait_until_idle()
    attached = front.run("attach", "last")
    assert (attached.code, attached.out.split()) == (130, ["up", "up"]), attached
