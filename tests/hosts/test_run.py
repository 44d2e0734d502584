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


def test_hosts_that_only_ssh_knows_meet(cluster: Any) -> None:
    config, known = cluster.hosts.ssh_config, cluster.hosts.ssh_config.read_text()
    address = cluster.hosts.address
    aliases = (f"Host gpu{n}\n  HostName {address(f'h{n}')}\n" for n in (1, 2))
    config.write_text("".join((*aliases, known)))
    try:
        cluster.run("run", *NULL, *ON, "gpu1,gpu2", on="h3")
    finally:
        config.write_text(known)
    assert hosts_of(cluster.record()) == ["h1", "h2"]
    assert cluster.record()["world"]["kind"] == "nccl"


def test_a_host_file_orders_the_ranks_one_by_one(cluster: Any) -> None:
    hostfile = cluster.folder / "hosts of 'mine'"
    hostfile.write_text("# by topology\nh2 slots=1\nh4:2\n\nh2  # again\nh3 slots=1 max_slots=4\n")
    front = cluster.run("run", *FEW, "--on", "hosts", "--hostfile", hostfile)
    assert hosts_of(cluster.record()) == ["h2", "h4", "h4", "h2", "h3"]
    assert "started by mpich" in front.out
    # Nothing of the job is left but its record and what was said.
    logs = sorted(path.name for path in (cluster.run_folder / "log").iterdir())
    assert logs == ["ranks.log", "stream.jsonl"]


def test_a_large_plan_and_its_record_come_home_whole(cluster: Any, tmp_path: Path) -> None:
    """The header is longer than what launchers take of a line at once, and so is the record; and no folder is
    shared.
    """
    sizes = ("-b", "8", "-e", "4K", "-f", "1", "-i", "50")
    words = ("all_reduce,broadcast,all_gather", *sizes, "-n", "2", "-w", "1", "-c", "0")
    home = f"/tmp/{tmp_path.name}"  # each host has a /tmp of its own
    on = ("--backend", "mpi", *ON, "h2,h3")
    front = cluster.run("run", *words, *on, "--format", "jsonl", BUSBW_HOME=home)
    heard = [json.loads(line) for line in front.out.splitlines()]
    (header,) = (item for item in heard if item["event"] == "header")
    cases = header["plan"]["cases"]
    assert len(json.dumps(header)) > 100_000
    assert [item["result"]["case"] for item in heard if item["event"] == "case"] == list(range(len(cases)))
    record = json.loads(cluster.run("show", "last", "--format", "json", BUSBW_HOME=home).out)
    assert record["status"] == "complete"
    assert len(record["results"]) == len(cases)
    assert not cluster.hosts.run("h2", "sh", "-c", "ls -d /tmp/busbw-* || true").stdout


def test_bring_needs_nothing_on_the_hosts(fresh_cluster: Any, tmp_path: Path) -> None:
    cluster = fresh_cluster
    for name in ("h2", "h3"):
        for hidden in (str(Path(__file__).parents[2]), sys.prefix):
            if cluster.hosts.run(name, "test", "-d", hidden, check=False).returncode == 0:
                cluster.hosts.run(name, "mount", "-t", "tmpfs", "tmpfs", hidden)
    refused = cluster.run("run", *FEW, *ON, "h2,h3", code=4)
    assert refused.error.startswith("no such Python on h2: ")
    assert "(and 1 more: h3)" in refused.error
    assert "--bring" in refused.error
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    cluster.run("run", *FEW, *ON, "h2,h3", "--bring", "--set", "tmp=/dev/shm", **cache)
    assert hosts_of(cluster.record()) == ["h2", "h3"]
    for name in ("h2", "h3"):
        assert not cluster.hosts.run(name, "ls", "/dev/shm", "/tmp").stdout.count("busbw-")


def test_no_token_shows_in_a_list_of_processes(cluster: Any) -> None:
    cluster.run("exec", *ON, "h2", "--mpi", "none", "--", "sh", "-c", "ps axww; echo printed $BUSBW_TOKEN")
    text = (cluster.run_folder / "log/ranks.log").read_text()
    token = text.rpartition("printed ")[2].strip()
    assert len(token) == 32
    # What the command printed is kept twice: as a log, and for whoever attaches later.
    printed = {cluster.run_folder / name for name in ("log/ranks.log", PRINTED_FILE)}
    others = [path for path in cluster.run_folder.rglob("*") if path.is_file() and path not in printed]
    assert [path.read_text().count(token) for path in printed] == [1, 1]
    assert others
    assert not [path for path in others if token in path.read_text(errors="replace")]


def test_variables_of_the_shell_reach_all_hosts_alike(cluster: Any) -> None:
    command = ("sh", "-c", "echo $(hostname) ${NCCL_TEST-none} ${TEST_OTHER-none} ${NCCL_B-none}")
    environ = {"NCCL_TEST": "shell", "NCCL_B": "shell", "TEST_OTHER": "shell"}
    front = cluster.run("exec", *ON, "h2,h3", "--env", "NCCL_B=flag", "--", *command, **environ)
    assert sorted(front.out.splitlines()) == ["h2 shell none flag", "h3 shell none flag"]
