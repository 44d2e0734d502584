"""Faults planted on one of four hosts: each is named, with its place, before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busbw_testing.shared_libraries import stand_in

import busbw

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

ON = ("--on", "hosts", "--hosts", "h1,h2,h3,h4")
NULL = ("--backend", "null", "--world", "nccl")
RUN = ("run", "all_reduce", "-b", "8", "-e", "1K", "-f", "128", *NULL, *ON)


def findings(cluster: Any, check: str = "") -> list[dict[str, Any]]:
    return [found for found in cluster.record()["findings"] if check in ("", found["check"])]


def test_a_host_with_another_busbw(fresh_cluster: Any, tmp_path: Path) -> None:
    cluster = fresh_cluster
    (tmp_path / "_version.py").write_text('__version__ = "9.9.9"\n')
    own = Path(busbw.__path__[0]) / "_version.py"
    cluster.hosts.run("h3", "mount", "--bind", tmp_path / "_version.py", own)
    front = cluster.run(*RUN, code=4)
    assert front.error.startswith("busbw 9.9.9 on h3, ")
    # Started by something that does not look first, the ranks themselves see it.
    front = cluster.run("exec", *ON, "--mpi", "mpich", "--", cluster.python, "-m", "busbw", *RUN[:6], code=4)
    text = front.out + front.err
    assert f"busbw: 9.9.9 on rank 2 (h3), {busbw.__version__} on the other 3" in text


@pytest.fixture
def cuda(fresh_cluster: Any) -> Path:
    """A folder that all hosts see with a driver and an NCCL that are only there to be asked."""
    folder = fresh_cluster.folder / "cuda"
    folder.mkdir()
    stand_in("cuda", folder / "libcuda.so.1")
    stand_in("nccl", folder / "libnccl.so.2", "VERSION=22809")
    stand_in("nccl", folder / "another-libnccl.so.2", "VERSION=22707")
    return folder


def test_a_host_with_another_nccl(fresh_cluster: Any, cuda: Path) -> None:
    fresh_cluster.hosts.run("h3", "mount", "--bind", cuda / "another-libnccl.so.2", cuda / "libnccl.so.2")
    words = ("--backend", "nccl", "--mpi", "none", "--ranks-per-node", "1", "-e", "64")
    place = ("--env", f"LD_LIBRARY_PATH={cuda}", "--env", f"BUSBW_NCCL={cuda}")
    front = fresh_cluster.run("preflight", *words, *ON, *place, code=4)
    assert "NCCL: 2.27.7 on rank 2 (h3), 2.28.9 on the other 3" in front.err
    assert [found["host"] for found in findings(fresh_cluster, "versions")] == ["h3"]


def test_a_variable_that_one_host_lacks(cluster: Any) -> None:
    script = cluster.folder / "set up.sh"
    script.write_text('if [ "$(hostname)" != h3 ]; then export UCX_TLS=tcp,self; fi\n')
    words = ("run", "all_reduce", "-b", "8", "-e", "8", "--backend", "mpi", *ON)
    front = cluster.run(*words, "--setup-script", script, code=4)
    assert "UCX_TLS: unset on rank 2 (h3), 'tcp,self' on the other 3" in front.error
    assert "hint: export it to all ranks" in front.error
    record = cluster.record()
    assert record["status"] == "failed"
    assert {result["status"] for result in record["results"]} == {"not-run"}


def with_second_nic(cluster: Any, *, down: str) -> None:
    for name in cluster.hosts.names:
        words = ("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "veth-of-eth1")
        cluster.hosts.run(name, *words)
        for nic in ("veth-of-eth1", "eth1"):
            if name != down or nic != "eth1":
                cluster.hosts.run(name, "ip", "link", "set", nic, "up")


def test_a_nic_that_is_down(fresh_cluster: Any) -> None:
    cluster = fresh_cluster
    with_second_nic(cluster, down="h3")
    front = cluster.run(*RUN, "--strict", code=4)
    assert front.error.startswith("eth1 is down on h3, and up on 3 other hosts")
    front = cluster.run(*RUN, "--env", "UCX_NET_DEVICES=eth1", code=4)
    assert front.error.startswith("UCX_NET_DEVICES names eth1 on h3, and eth1 is down there")
    (finding,) = findings(cluster, "nics-asked-for")
    assert finding["host"] == "h3"


def test_a_plugin_that_one_host_lacks(cluster: Any, tmp_path: Path) -> None:
    """/tmp is each host's own, and so is the record's home here: what it says comes to the front."""
    home = f"/tmp/{tmp_path.name}"
    plugin = f"/tmp/{tmp_path.name}.so"
    for name in ("h1", "h2", "h4"):
        cluster.hosts.run(name, "touch", plugin)
    front = cluster.run(*RUN, "--env", f"NCCL_NET_PLUGIN={plugin}", code=4, BUSBW_HOME=home)
    expected = f"NCCL_NET_PLUGIN={plugin} names a plugin that the loader does not find on rank 2 (h3)"
    assert expected in front.error
    assert "# error    NCCL_NET_PLUGIN=" in cluster.run("show", "last", BUSBW_HOME=home).out


def test_deep_runs_on_all_hosts(cluster: Any) -> None:
    front = cluster.run("preflight", "--backend", "mpi", "-e", "64K", "--deep", *ON)
    assert "# note     copies to the next rank between hosts: median" in front.out
    assert "ib_write_bw did not run on h1, h2, h3, h4: it is not installed" in front.out
