"""Runs on hosts over SSH that go well: every way of starting ranks, in the order that was asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.record.folder import PRINTED_FILE

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts")
FEW = ("all_reduce", "-b", "8", "-e", "1K", "-f", "128", "-n", "20", "--backend", "mpi")
NULL = ("all_reduce", "-b", "8", "-e", "1K", "-f", "128", "--backend", "null", "--world", "nccl")


def hosts_of(record: dict[str, Any]) -> list[str]:
    assert record["status"] == "complete", record
    assert [result["status"] for result in record["results"]] == ["good"] * 4
    return [rank["host"] for rank in sorted(record["world"]["ranks"], key=lambda rank: rank["rank"])]


def test_mpich_starts_ranks_in_the_order_of_the_hosts(cluster: Any) -> None:
    front = cluster.run("run", *FEW, *ON, "h3,h1,h4,h2")
    assert hosts_of(cluster.record()) == ["h3", "h1", "h4", "h2"]
    assert front.out.count("float") == 2
    assert "started by mpich" in front.out
    # Nothing of the job is left but its record and what was said.
    assert sorted(path.name for path in (cluster.run_folder / "log").iterdir()) == [
        "ranks.log",
        "stream.jsonl",
    ]


@pytest.mark.parametrize("said", [True, False])
def test_hosts_that_only_ssh_knows_meet(cluster: Any, said: bool) -> None:
    config, known = cluster.hosts.ssh_config, cluster.hosts.ssh_config.read_text()
    address = cluster.hosts.address
    aliases = (f"Host gpu{n}\n  HostName {address(f'h{n}')}\n" for n in (1, 2))
    config.write_text("".join((*aliases, known)))
    try:
        root = ("--env", f"BUSBW_ROOT={address('h1')}") if said else ()
        cluster.run("run", *NULL, *ON, "gpu1,gpu2", *root, on="h3")
    finally:
        config.write_text(known)
    assert hosts_of(cluster.record()) == ["h1", "h2"]


@pytest.mark.parametrize("family", ["mpich", "openmpi"])
def test_a_host_file_orders_the_ranks_one_by_one(cluster: Any, family: str, request: Any) -> None:
    python = request.getfixturevalue("open_mpi_python") if family == "openmpi" else ""
    hostfile = cluster.folder / "hosts of 'mine'"
    hostfile.write_text("# by topology\nh2 slots=1\nh4:2\n\nh2  # again\nh3 slots=1 max_slots=4\n")
    front = cluster.run("run", *FEW, "--on", "hosts", "--hostfile", hostfile, python=python)
    assert hosts_of(cluster.record()) == ["h2", "h4", "h4", "h2", "h3"]
    assert f"MPI {'Open MPI' if family == 'openmpi' else 'MPICH'} " in front.out


def test_open_mpi_starts_ranks_on_each_host(cluster: Any, open_mpi_python: str) -> None:
    front = cluster.run(
        "run", *FEW, *ON, "h4,h3,h2", "-N", "2", "--ranks-per-node", "2", python=open_mpi_python
    )
    assert hosts_of(cluster.record()) == ["h4", "h4", "h3", "h3"]
    assert "started by openmpi" in front.out


def test_ranks_without_mpi(cluster: Any) -> None:
    cluster.run("run", *NULL, *ON, "h2,h3,h4", "--ranks", "4")
    assert hosts_of(cluster.record()) == ["h2", "h2", "h3", "h4"]
    assert cluster.record()["world"]["kind"] == "nccl"


def test_mpich_can_start_ranks_of_a_world_without_mpi(cluster: Any) -> None:
    cluster.run("run", *NULL, *ON, "h2,h3", "--mpi", "mpich")
    assert hosts_of(cluster.record()) == ["h2", "h3"]
    assert cluster.record()["world"]["kind"] == "nccl"


def test_the_record_comes_home_where_no_folder_is_shared(cluster: Any, tmp_path: Path) -> None:
    home = f"/tmp/{tmp_path.name}"  # each host has a /tmp of its own
    front = cluster.run("run", *FEW, *ON, "h2,h3", BUSBW_HOME=home)
    assert "no wrong data" in front.out
    shown = cluster.run("list", "--format", "json", BUSBW_HOME=home).out
    assert '"complete"' in shown
    assert not cluster.hosts.run("h2", "sh", "-c", "ls -d /tmp/busbw-* || true").stdout


@pytest.mark.parametrize("family", ["mpich", "openmpi"])
def test_a_large_plan_and_its_record_come_home_whole(
    cluster: Any, family: str, tmp_path: Path, request: Any
) -> None:
    """The header is longer than what launchers take of a line at once, and so is the record."""
    python = request.getfixturevalue("open_mpi_python") if family == "openmpi" else ""
    words = ("all_reduce,broadcast,all_gather", "-b", "8", "-e", "4K", "-n", "2", "-w", "1", "--cycles", "8")
    home = f"/tmp/{tmp_path.name}"
    front = cluster.run(
        "run", *words, "--backend", "mpi", *ON, "h2,h3", "--format", "jsonl", BUSBW_HOME=home, python=python
    )
    heard = [json.loads(line) for line in front.out.splitlines()]
    (header,) = (item for item in heard if item["event"] == "header")
    cases = header["plan"]["cases"]
    assert len(json.dumps(header)) > 100_000
    assert [item["result"]["case"] for item in heard if item["event"] == "case"] == list(range(len(cases)))
    shown = cluster.run("show", "last", "--format", "json", BUSBW_HOME=home, python=python)
    record = json.loads(shown.out)
    assert record["status"] == "complete"
    assert len(record["results"]) == len(cases)


def test_bring_needs_nothing_on_the_hosts(fresh_cluster: Any, tmp_path: Path) -> None:
    cluster = fresh_cluster
    for name in ("h2", "h3"):
        for hidden in (str(Path(__file__).parents[2]), sys.prefix):
            if cluster.hosts.run(name, "test", "-d", hidden, check=False).returncode == 0:
                cluster.hosts.run(name, "mount", "-t", "tmpfs", "tmpfs", hidden)
    refused = cluster.run("run", *FEW, *ON, "h2,h3", code=4)
    assert "no such Python on h2 (and 1 more: h3)" in refused.error
    assert "--bring" in refused.error
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    cluster.run("run", *FEW, *ON, "h2,h3", "--bring", "--set", "tmp=/dev/shm", **cache)
    assert hosts_of(cluster.record()) == ["h2", "h3"]
    for name in ("h2", "h3"):
        assert not cluster.hosts.run(name, "ls", "/dev/shm", "/tmp").stdout.count("busbw-")


def test_another_python_is_named(cluster: Any) -> None:
    link = cluster.folder / "it's $(another)\n"
    link.mkdir()
    (link / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (link / "python").chmod(0o755)
    cluster.run("run", *NULL, *ON, "h2,h3", "--python", link / "python")
    assert hosts_of(cluster.record()) == ["h2", "h3"]


def test_a_setup_script_is_sourced_on_every_host(cluster: Any) -> None:
    script = cluster.folder / "set up.sh"
    script.write_text('export NCCL_TEST="it\'s $(hostname)"\nreturn 0\nexit 3\n')
    front = cluster.run("exec", *ON, "h2,h3", "--setup-script", script, "--", "printenv", "NCCL_TEST")
    assert sorted(front.out.splitlines()) == ["it's h2", "it's h3"]


def test_no_token_shows_in_a_list_of_processes(cluster: Any) -> None:
    cluster.run("exec", *ON, "h2", "--mpi", "none", "--", "sh", "-c", "ps axww; echo token=$BUSBW_TOKEN")
    text = (cluster.run_folder / "log/ranks.log").read_text()
    token = text.rpartition("token=")[2].strip()
    assert len(token) == 32
    # What the command printed is kept twice: as a log, and for whoever attaches later.
    printed = {cluster.run_folder / name for name in ("log/ranks.log", PRINTED_FILE)}
    others = [path for path in cluster.run_folder.rglob("*") if path.is_file() and path not in printed]
    assert [path.read_text().count(token) for path in printed] == [1, 1]
    assert others
    assert not [path for path in others if token in path.read_text(errors="replace")]


def test_a_dry_run_prints_the_command_line(cluster: Any) -> None:
    out = cluster.run("run", *FEW, *ON, "h2,h3", "--dry-run", "--env", "NCCL_A=b c").out
    assert "NCCL_A='b c'" in out
    assert (
        f"{Path(sys.executable).parent}/mpiexec -prepend-rank -launcher ssh -hosts h2,h3 -ppn 1 -n 2" in out
    )
    assert not cluster.home.exists()


def test_variables_of_the_shell_reach_all_hosts_alike(cluster: Any) -> None:
    command = ("sh", "-c", "echo $(hostname) ${NCCL_TEST-none} ${TEST_OTHER-none} ${NCCL_B-none}")
    environ = {"NCCL_TEST": "shell", "NCCL_B": "shell", "TEST_OTHER": "shell"}
    front = cluster.run("exec", *ON, "h2,h3", "--env", "NCCL_B=flag", "--", *command, **environ)
    assert sorted(front.out.splitlines()) == ["h2 shell none flag", "h3 shell none flag"]


def test_mpi_from_a_machine_that_is_none_of_the_hosts(cluster: Any) -> None:
    """The launcher runs here, where the MPI is the hosts' own."""
    cluster.run("run", *FEW, *ON, "h2,h4", on="h3")
    assert hosts_of(cluster.record()) == ["h2", "h4"]


def test_a_second_job_waits_for_the_hosts(cluster: Any) -> None:
    first = cluster.start("exec", *ON, "h2,h3", "--mpi", "none", "--", "sleep", "1000")
    first.until(lambda: "running" in first.err)
    second = cluster.start("exec", *ON, "h3,h4", "--mpi", "none", "--", "hostname")
    second.until(lambda: "another job of busbw uses h3" in second.err)
    assert second.out == ""
    first.signal(2)
    assert first.finish() == 130
    assert second.finish() == 0
    assert sorted(second.out.split()) == ["h3", "h4"]
