"""Runs on hosts that do not go well, or are told to end: one clear error that names the place, a record of
what was measured, and no process left on any host.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts", "h2,h3,h4", "--format", "jsonl")
LONG_MPI = (
    "all_reduce",
    "-b",
    "1K",
    "-e",
    "64K",
    "-f",
    "1.1",
    "--case-time",
    "300ms",
    "--precision",
    "0.0001%",
)
# Without an end: no look takes time in the null backend, but there are very many of them.
LONG_NULL = (
    "all_reduce",
    "-b",
    "8",
    "-e",
    "64M",
    "--backend",
    "null",
    "--world",
    "nccl",
    "-n",
    "10000000000000",
)
# ssh notices silence after 15 s.
SILENCE_S = 15.0


def start(cluster: Any, world: str, *words: str, **options: str) -> Any:
    """A run that would go on for long, and is under way."""
    measured = (*LONG_MPI, "--backend", "mpi") if world != "nccl" else LONG_NULL
    front = cluster.start("run", *measured, *ON, *words, **options)
    front.until(lambda: '"event":"header"' in front.out)
    if world != "nccl":
        front.wait_for_rows()
    return front


def python_of(world: str, request: Any) -> str:
    return request.getfixturevalue("open_mpi_python") if world == "openmpi" else ""


@pytest.mark.parametrize("world", ["mpich", "openmpi", "nccl"])
def test_a_rank_is_killed(cluster: Any, world: str, request: Any) -> None:
    front = start(cluster, world, python=python_of(world, request))
    (victim,) = cluster.ranks("h3")
    os.kill(victim, signal.SIGKILL)
    assert front.finish() == 5, front.err
    assert "rank 1 on h3" in front.error, front.error
    assert "h1" not in front.error, front.error  # where the front and MPI's launcher are, and no rank
    assert cluster.record()["status"] == "failed"
    assert not cluster.left()


@pytest.mark.parametrize("world", ["mpich", "openmpi"])
def test_one_of_several_ranks_on_a_host_is_killed(cluster: Any, world: str, request: Any) -> None:
    """Launchers end the other ranks of the host at once, and MPICH's may name one of those."""
    words = ("-N", "2", "--ranks-per-node", "2")
    front = start(cluster, world, *words, python=python_of(world, request))
    by_rank = {cluster.rank_of(pid): pid for pid in cluster.ranks("h3")}
    assert sorted(by_rank) == [2, 3]
    os.kill(by_rank[3], signal.SIGKILL)
    assert front.finish() == 5, front.err
    assert "rank 3 on h3" in front.error, front.error
    assert "h1" not in front.error, front.error
    assert not cluster.left()


@pytest.mark.parametrize("world", ["mpich", "openmpi", "nccl"])
def test_a_host_is_lost(fresh_cluster: Any, world: str, request: Any) -> None:
    cluster = fresh_cluster
    front = start(cluster, world, python=python_of(world, request))
    start_s = time.monotonic()
    cluster.hosts.kill("h3")
    assert front.finish() == 5, front.err
    assert time.monotonic() - start_s < SILENCE_S + 45
    assert "h3" in front.error, front.error
    assert cluster.record()["status"] == "failed"
    assert not cluster.left()


def test_a_host_cannot_be_reached(cluster: Any) -> None:
    start_s = time.monotonic()
    words = ("--hosts", "h2,10.77.0.99,h3", "--set", "connect-timeout=2")
    front = cluster.run("run", *LONG_MPI, "--backend", "mpi", "--on", "hosts", *words, code=4)
    assert time.monotonic() - start_s < 60
    assert front.error.startswith("10.77.0.99 cannot be reached: ssh: connect to host 10.77.0.99 port 22")
    assert "hint: try: ssh -o BatchMode=yes 10.77.0.99 true" in front.error
    assert not cluster.left()


@pytest.mark.parametrize(
    ("line", "how"), [("exit 3", "ended with exit code 3"), ("exit 0", "ended with exit code 0")]
)
def test_a_shell_that_ends_before_it_begins_is_named(fresh_cluster: Any, line: str, how: str) -> None:
    with_bashrc(fresh_cluster, "h3", line)
    words = (*LONG_NULL, "--on", "hosts", "--hosts", "h2,h3")
    front = fresh_cluster.run("run", *words, code=4)
    assert front.error.startswith(f"the shell on h3 {how} before it did what it was told over ssh"), (
        front.error
    )
    assert "hint: look in ~/.bashrc there" in front.error


def test_a_shell_that_talks_is_heard_past(fresh_cluster: Any) -> None:
    """Also where it does not end its line."""
    with_bashrc(fresh_cluster, "h2", "echo Welcome; printf 'and {now'")
    words = ("exec", "--on", "hosts", "--hosts", "h2,h3", "--mpi", "none", "--", "echo", "well")
    assert fresh_cluster.run(*words).out.splitlines() == ["well", "well"]


def with_bashrc(cluster: Any, host: str, line: str) -> None:
    """The host's users have this start-up file; the machine's own stays as it is."""
    file = cluster.folder / "bashrc"
    file.write_text(f"{line}\n")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    cluster.hosts.run(host, "mount", "--bind", file, home / ".bashrc")


def test_a_host_that_knows_no_such_python(cluster: Any) -> None:
    front = cluster.run("run", *LONG_NULL, *ON, "--python", "/no/such/python", code=4)
    assert front.error.startswith("no such Python on h2 (and 2 more: h3, h4): ")
    assert "/no/such/python" in front.error


@pytest.mark.parametrize("world", ["mpich", "openmpi", "nccl"])
def test_ctrl_c_leaves_nothing(cluster: Any, world: str, request: Any) -> None:
    front = start(cluster, world, python=python_of(world, request))
    front.signal(signal.SIGINT)
    assert front.finish() == 130, front.err
    assert not cluster.left()
    assert cluster.record()["status"] == "interrupted"


def test_ctrl_c_twice_does_not_wait(cluster: Any) -> None:
    words = ("exec", "--on", "hosts", "--hosts", "h2,h3", "--mpi", "none", "--", "sh", "-c")
    front = cluster.start(*words, "trap 'echo no' TERM; echo up; while :; do sleep 0.1; done")
    front.until(lambda: front.out.count("up") == 2)
    front.signal(signal.SIGINT)
    front.until(lambda: "no" in front.out)  # it was asked, and goes on
    front.signal(signal.SIGINT)
    assert front.finish() == 130
    assert not cluster.left()


@pytest.mark.parametrize("world", ["mpich", "nccl"])
def test_the_front_is_killed_and_attached_again(cluster: Any, world: str) -> None:
    front = start(cluster, world)
    for pid, line in cluster.hosts.processes("h1").items():
        if " busbw run " in line and "nsenter" not in line and "--deliver" not in line:
            os.kill(pid, signal.SIGKILL)
    front.process.wait(30)
    heard = front.out.count('"event":"case"')
    assert all(cluster.ranks(name) for name in ("h2", "h3", "h4"))
    (job,) = json.loads(cluster.run("jobs", "--format", "json").out)
    assert (job["run"], job["state"]) == (cluster.run_folder.name, "running")
    attached = cluster.start("attach", cluster.run_folder.name, "--format", "jsonl")
    attached.until(lambda: '"event":"header"' in attached.out)
    if world == "mpich":
        attached.wait_for_rows(heard + 1)
    attached.signal(signal.SIGINT)  # only leaves
    assert attached.finish() == 130
    assert all(cluster.ranks(name) for name in ("h2", "h3", "h4"))
    cluster.run("cancel", cluster.run_folder.name)
    again = cluster.start("attach", cluster.run_folder.name)
    assert again.finish() in (0, 130)  # 0: rank 0 had closed the record in the shared folder, and it is shown
    assert cluster.record()["status"] == "interrupted"
    assert not cluster.left()


def test_a_detached_run_is_brought_home_later(cluster: Any) -> None:
    few = ("all_reduce", "-b", "8", "-e", "1K", "-n", "20", "--backend", "mpi")
    front = cluster.run("run", *few, "--on", "hosts", "--hosts", "h2,h3", "--detach")
    assert f"hint: busbw attach {cluster.run_folder.name}" in front.err
    cluster.run("attach", cluster.run_folder.name)
    record = cluster.record()
    assert record["status"] == "complete"
    assert len(record["results"]) == 16
    (job,) = json.loads(cluster.run("jobs", "--format", "json").out)
    assert (job["state"], job["record"]) == ("ended", "complete")
    cluster.run("clean", cluster.run_folder.name)
    assert not cluster.left()


def test_the_keeper_is_killed(cluster: Any) -> None:
    """Nobody owns the job any more: the agents end it, and the front says so."""
    front = start(cluster, "nccl")
    (keeper,) = (pid for pid, line in cluster.hosts.processes("h1").items() if "launchers.keeper" in line)
    os.kill(keeper, signal.SIGKILL)
    assert front.finish() == 5
    assert not cluster.left()


def test_a_command_that_fails(cluster: Any) -> None:
    words = ("exec", "--on", "hosts", "--hosts", "h2,h3", "--mpi", "none", "--", "sh", "-c")
    front = cluster.run(*words, 'if [ "$(hostname)" = h3 ]; then exit 7; fi; sleep 1000', code=7)
    assert "rank 1 on h3 ended with exit code 7" in front.error
    assert not cluster.left()
