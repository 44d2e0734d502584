"""NCCL between hosts that share one GPU: right data, the algorithms of its own log, slow hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.shaping import NOMINAL_MBIT, require_named, send_at, why_no_shaping

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

FEW: Final = ("-n", "5", "-w", "1")
ALL: Final = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter",
    "sendrecv", "hypercube", "barrier",
)  # fmt: skip


def shape(hosts: Any, slow: str = "", share: float = 1.0) -> None:
    if why := why_no_shaping(hosts.cluster.hosts):
        pytest.skip(why)
    for name in hosts.names:
        send_at(hosts.cluster.hosts, name, NOMINAL_MBIT * (share if name == slow else 1.0))


def results(hosts: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Case and result of the newest run, what does not apply left out."""
    record = hosts.cluster.record()
    assert record["status"] == "complete"
    pairs = zip(record["plan"]["cases"], record["results"], strict=True)
    return [(case, result) for case, result in pairs if result["status"] != "not-applicable"]


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_all_operations_are_right_and_the_rows_say_what_they_are(gpu_hosts: Any, ranks: int) -> None:
    sweep = (*ALL, "-b", "8", "-e", "1M", "-f", "32", "-C", "1", *FEW)
    front = gpu_hosts.cluster.run("run", *sweep, *gpu_hosts.words(ranks))
    assert f"1 x NVIDIA {'H' if 'H200' in front.out else ''}" in front.out
    assert f", for {ranks} ranks" in front.out
    told = results(gpu_hosts)
    operations = {case["collective"] for case, result in told if result["status"] == "good"}
    assert operations == set(ALL) - (set() if ranks & (ranks - 1) == 0 else {"hypercube"})
    assert all("shared-gpu" in result["conditions"] for _, result in told if result["time_ns"] is not None)


def test_preflight_names_the_shared_gpu(gpu_hosts: Any) -> None:
    front = gpu_hosts.cluster.run("preflight", *gpu_hosts.words(preflight=True), code=4)
    said = r"ranks 0, 1, 2, 3 and 4 more share one GPU \(GPU-\S+ on h1, h2, h3, h4 and 4 more\)"
    assert re.search(said, front.err), front.err


def test_streams_at_once(gpu_hosts: Any) -> None:
    streams = gpu_hosts.cluster.folder / "streams.json"
    own = (("all_reduce", "1M"), ("alltoall", "256K"))
    each = [{"operation": name, "minbytes": "64K", "maxbytes": last} for name, last in own]
    streams.write_text(json.dumps({"streams": each}))
    gpu_hosts.cluster.run("run", "--streams", streams, *FEW, *gpu_hosts.words(4))
    assert {result["status"] for _, result in results(gpu_hosts)} == {"good"}


# ---- links --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nics", ["=eth0", "=eth1", "=eth0,eth1"])
def test_the_links_that_nccl_used(two_nics_gpu_hosts: Any, nics: str) -> None:
    hosts = two_nics_gpu_hosts
    words = ("all_reduce", "-b", "4M", "-e", "4M", *FEW, "--evidence", "counters", "algorithm")
    hosts.cluster.run("run", *words, "--env", f"NCCL_SOCKET_IFNAME={nics}", *hosts.words(4))
    front = hosts.cluster.start("diagnose", "last", "--format", "json")
    front.finish()
    found = {each["check"]: each for each in json.loads(front.out)["conclusions"]}
    used = found["links.used"]
    if "," in nics:
        assert used["answer"] == "yes", used
    else:
        assert used["claim"].startswith("1 of 2 ethernet links carried traffic on 4 of 4 hosts"), used
        assert f"all on {nics[1:]}" in used["claim"]
    assert found["links.bytes"]["answer"] == "yes", found["links.bytes"]


# ---- slow hosts ---------------------------------------------------------------------------------------
# Lost ones cannot be had: a client that is killed takes the kernels of all others of the service with it.


def hunt(hosts: Any, *words: str, slow: str) -> dict[str, Any]:
    front = hosts.cluster.start("isolate", *hosts.words(), "-b", "2M", *words)
    code = front.finish().code
    (field,) = hosts.cluster.record()["hunt"]["fields"]
    assert code == (1 if field["suspects"] else 3), front.out + front.err
    require_named(field, slow)
    return dict(field)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
def test_a_slow_host_is_named(gpu_hosts: Any, share: float) -> None:
    shape(gpu_hosts, "h4", share)
    field = hunt(gpu_hosts, slow="h4")
    assert field["exclude"]["slurm"] == "--exclude=h4"
    assert abs(field["suspects"][0]["loss"] - (1 - share)) < 0.1


def test_alike_hosts_are_not_accused(gpu_hosts: Any) -> None:
    shape(gpu_hosts)
    assert gpu_hosts.cluster.start("isolate", *gpu_hosts.words(), "-b", "2M").finish().code in (0, 3)
    (field,) = gpu_hosts.cluster.record()["hunt"]["fields"]
    assert field["suspects"] == []


# ---- setups -------------------------------------------------------------------------------------------


def setups(folder: Path) -> Path:
    """Loopback joins no two hosts, so that setup fails or hangs; the narrow one is slower by its links."""
    spec = folder / "setups.yaml"
    spec.write_text(
        "setups:\n  plain: {}\n  same: {env: {NCCL_SOCKET_NTHREADS: '1', NCCL_NSOCKS_PERTHREAD: '1'}}\n"
        "  tree: {env: {NCCL_ALGO: Tree}}\n  few: {env: {NCCL_BUFFSIZE: '65536', NCCL_MAX_NCHANNELS: '1'}}\n"
        "  nowhere: {env: {NCCL_SOCKET_IFNAME: lo}}\n"
    )
    return spec


def test_setups_one_of_which_never_starts(gpu_hosts: Any) -> None:
    spec = setups(gpu_hosts.cluster.folder)
    sweep = ("--ops", "all_reduce", "-b", "4K", "-e", "4M", "-f", "32", "-n", "20", "--blocks", "3")
    words = (*sweep, "--launch-timeout", "30s", "--format", "json", *gpu_hosts.words(4))
    front = gpu_hosts.cluster.start("compare", spec, *words)
    assert front.finish().code in (0, 1), front.err
    told = json.loads(front.out)
    failed = {each["setup"]: each["failed"] for each in told["reached"]}
    assert failed["nowhere"] > 0
    assert not any(count for name, count in failed.items() if name != "nowhere"), told["reached"]
