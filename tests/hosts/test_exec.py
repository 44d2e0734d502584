"""Commands of the user's own on hosts: what they are told of their hosts, MPI programs, ranks that meet."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from busbw_testing.exec_programs import FACTS, MEET, MPI, facts_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("exec", "--on", "hosts", "--hosts")


def test_a_command_finds_its_hosts(cluster: Any) -> None:
    front = cluster.run(*ON, "h3:2,h2", "--mpi", "mpich", "--", sys.executable, "-c", FACTS)
    assert facts_of(front.out) == [
        ("h2", "h3 slots=2/h2 slots=1", "2", "1", "h3", "29500"),
        ("h3", "h3 slots=2/h2 slots=1", "2", "0", "h3", "29500"),
        ("h3", "h3 slots=2/h2 slots=1", "2", "0", "h3", "29500"),
    ]


def test_an_mpi_program_of_two_hosts(cluster: Any, open_mpi_python: str) -> None:
    python = open_mpi_python
    front = cluster.run(*ON, "h2,h4", "--", python, "-c", MPI, python=python)
    ranks = [line for line in front.out.splitlines() if line.startswith("rank")]  # mpirun may warn
    assert sorted(ranks) == ["rank 0 of 2 on h2: sum 3", "rank 1 of 2 on h4: sum 3"]


def test_ranks_meet_at_the_first_host(cluster: Any) -> None:
    front = cluster.run(*ON, "h4,h1,h2", "--mpi", "none", "--", sys.executable, "-c", MEET)
    assert front.out.splitlines() == ["met 1 2"]


def test_a_setup_script_that_fails_is_named(cluster: Any) -> None:
    script = cluster.folder / "setup.sh"
    script.write_text('[ "$(hostname)" != h2 ] || { echo no such module >&2; exit 3; }\n')
    front = cluster.run(*ON, "h1,h2", "--setup-script", script, "--", "true", code=4)
    assert "the setup script ended with exit code 3 on h2: no such module" in front.error
    assert "ssh h2 bash" in front.error


def test_hosts_of_a_pbs_job(cluster: Any) -> None:
    nodes = cluster.folder / "nodes"
    nodes.write_text("h2\nh2\nh3\n")
    words = ("exec", "--on", "hosts", "--mpi", "none", "--", sys.executable, "-c", FACTS)
    front = cluster.run(*words, PBS_NODEFILE=str(nodes))
    assert [line[:4] for line in facts_of(front.out)] == [
        ("h2", "h2 slots=2/h3 slots=1", "2", "0"),
        ("h2", "h2 slots=2/h3 slots=1", "2", "0"),
        ("h3", "h2 slots=2/h3 slots=1", "2", "1"),
    ]
    assert "note: 2 hosts with 3 slots, from PBS_NODEFILE" in front.err


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_command_that_a_signal_killed_ends_as_in_a_shell(
    cluster: Any, mpi: str, request: pytest.FixtureRequest
) -> None:
    python = request.getfixturevalue("open_mpi_python") if mpi == "openmpi" else sys.executable
    kills_itself = "[ $(hostname) = h1 ] || kill -9 $$; sleep 1"
    front = cluster.start(*ON, "h1,h2", "--mpi", mpi, "--", "sh", "-c", kills_itself, python=python)
    code = front.finish().code
    assert "rank 1 on h2" in front.error
    if mpi == "mpich" and code == 9:  # mpiexec failed itself before it told a signal from an exit code
        assert "ended with 9 (an exit code, or a signal's number: hydra prints both alike)" in front.error
    else:
        assert (code, "was killed by SIGKILL" in front.error) == (137, True), front.err
    assert cluster.run("attach", code=code).error == front.error
