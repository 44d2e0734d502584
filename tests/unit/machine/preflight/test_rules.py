"""Each rule names the fault that is planted, and a healthy cluster gives no finding at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.machine.preflight.facts import MissingFile, RankFacts
from busbw.model.finding import Finding, Severity
from busbw.model.plan import Preflight

Ranks = Callable[..., tuple[RankFacts, ...]]
Found = Callable[..., list[Finding]]
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize("backend", ["nccl", "mpi", "null"])
@pytest.mark.parametrize(("hosts", "per_host"), [(1, 1), (1, 8), (2, 1), (4, 8), (64, 4)])
def test_a_healthy_cluster_gives_nothing(
    ranks: Ranks, found: Found, backend: str, hosts: int, per_host: int
) -> None:
    expects = ("net=ofi",) if backend != "mpi" else ()
    asked = Preflight("run", ranks=hosts * per_host, nodes=hosts, expects=expects)
    assert found(ranks(hosts, per_host), backend, asked=asked) == []


@pytest.mark.parametrize(
    ("expects", "claim"),
    [
        (("net=ofi", "gpus=1", "nics=2"), "net=ofi is expected of NCCL"),
        (("gpus=1", "nics=2"), "GPUs are expected (gpus=1)"),
        (("gpus=0",), ""),
        (("nics=2",), ""),
    ],
)
def test_cpu_memory_is_not_measured_in_place_of_gpus(
    ranks: Ranks, found: Found, expects: tuple[str, ...], claim: str
) -> None:
    """A GPU cluster's preset where no GPU is: auto would measure MPI, and nothing would say so."""
    asked = Preflight("run", expects=expects)
    why = f"{claim}, but this run would measure CPU memory over MPI"
    findings = found(ranks(2, 1), "mpi", asked=asked)
    assert [(each.severity, each.check, each.claim) for each in findings] == (
        [(ERROR, "backend", why)] if claim else []
    )
    assert found(ranks(2, 1), "nccl", asked=asked) == []


# ---- software ----------------------------------------------------------------------------------------


def test_one_rank_too_few(ranks: Ranks, found: Found) -> None:
    few = ranks(2, 4)[:7]
    finding = only(found(few, asked=Preflight("run", ranks=8, nodes=2)))
    assert (finding.check, finding.severity) == ("counts", ERROR)
    assert finding.claim == "7 ranks take part, but 8 were requested"
    assert finding.evidence == "ranks on each host: h1 4, h2 3"


def versions(**changed: str) -> dict[str, str]:
    usual = {"busbw": "0.1.0", "NCCL": "2.28.9", "NVIDIA driver": "580.82.07", "container image": "efa1"}
    return {**usual, **changed}


@pytest.mark.parametrize(
    ("changed", "severity", "claim"),
    [
        ({"NCCL": "2.27.7"}, ERROR, "NCCL: 2.27.7 on rank 5 (h3), 2.28.9 on the other 7"),
        ({"busbw": "0.2.0"}, ERROR, "busbw: 0.2.0 on rank 5 (h3), 0.1.0 on the other 7"),
        ({"NVIDIA driver": "5.1"}, WARNING, "NVIDIA driver: 5.1 on rank 5 (h3), 580.82.07 on the other 7"),
        ({"container image": "efa2"}, WARNING, "container image: efa2 on rank 5 (h3), efa1 on the other 7"),
    ],
)
def test_a_host_with_another_version(
    ranks: Ranks, found: Found, changed: dict[str, str], severity: Severity, claim: str
) -> None:
    finding = only(found(ranks(at=5, versions=versions(**changed))))
    assert (finding.check, finding.severity, finding.claim) == ("versions", severity, claim)
    assert (finding.rank, finding.host) == (5, "h3")


@pytest.mark.parametrize(("component", "severity"), [("NCCL", WARNING), ("NCCL net plugin", ERROR)])
def test_another_build_of_the_same_version(
    ranks: Ranks, found: Found, component: str, severity: Severity
) -> None:
    builds = {"NCCL": "ab12", "NCCL net plugin": "cd34", component: "ff00"}
    finding = only(found(ranks(at=(6, 7), builds=builds)))
    assert finding.severity is severity
    assert finding.claim.startswith(f"build of {component}: ff00 on all ranks of h4, ")


def test_a_variable_that_one_rank_lacks(ranks: Ranks, found: Found) -> None:
    with_it = {"NCCL_IB_HCA": "mlx5", "LD_LIBRARY_PATH": "/opt/lib", "NCCL_ALGO": "Ring"}
    all_but_one = ranks(at=(0, 1, 2, 4, 5, 6, 7), environ=with_it)
    finding = only(found(all_but_one))
    assert (finding.check, finding.severity) == ("environment", ERROR)
    assert finding.claim == "NCCL_ALGO: unset on rank 3 (h2), 'Ring' on the other 7"
    assert (finding.rank, finding.host) == (3, "h2")
    assert "--env" in finding.hint


EVERYWHERE = tuple(range(8))
PLUGIN = MissingFile("NCCL_NET_PLUGIN", "/soft/libnccl-net.so", "plugin")
FOLDER = MissingFile("LD_LIBRARY_PATH", "/soft/lib", "folder")
PRELOADED = MissingFile("LD_PRELOAD", "/x.so", "file")
NOT_FOUND = "names a plugin that the loader does not find on any rank"


@pytest.mark.parametrize(
    ("missing", "at", "backend", "severity", "said"),
    [
        (PLUGIN, EVERYWHERE, "nccl", ERROR, NOT_FOUND),
        (PLUGIN, EVERYWHERE, "mpi", INFO, NOT_FOUND),
        (FOLDER, (2, 3), "nccl", WARNING, "names a folder that does not exist on all ranks of h2"),
        (FOLDER, EVERYWHERE, "nccl", INFO, "names a folder that does not exist on any rank"),
        (PRELOADED, 4, "mpi", ERROR, "names a file that does not exist on rank 4 (h3)"),
    ],
)
def test_a_path_that_does_not_exist(
    ranks: Ranks, found: Found, missing: MissingFile, at: Any, backend: str, severity: Severity, said: str
) -> None:
    finding = only(found(ranks(at=at, missing=(missing,)), backend))
    assert (finding.check, finding.severity) == ("files", severity)
    assert finding.claim == f"{missing.variable}={missing.path} {said}"


def test_a_network_of_a_plugin_without_the_plugin(ranks: Ranks, found: Found) -> None:
    """ALCF's set-up with a folder that is gone: NCCL would go on over TCP."""
    environ = {"NCCL_NET": "AWS Libfabric", "LD_LIBRARY_PATH": "/soft/aws-ofi-nccl/lib"}
    gone = (MissingFile("LD_LIBRARY_PATH", "/soft/aws-ofi-nccl/lib", "folder"),)
    lacking = ranks(at=tuple(range(8)), environ=environ, net_plugin="", missing=gone)
    finding = found(lacking)[0]
    assert (finding.check, finding.severity) == ("net-plugin", ERROR)
    assert finding.claim == (
        "NCCL_NET=AWS Libfabric needs a network plugin, but the loader finds none on any rank"
    )
    assert "/soft/aws-ofi-nccl/lib" in finding.evidence


@pytest.mark.parametrize("net", ["IB", "Socket", "socket"])
def test_nccls_own_networks_need_no_plugin(ranks: Ranks, found: Found, net: str) -> None:
    assert found(ranks(at=tuple(range(8)), environ={"NCCL_NET": net}, net_plugin="")) == []


def test_what_a_preset_expects_needs_the_plugin_too(ranks: Ranks, found: Found) -> None:
    asked = Preflight("run", expects=("net=ofi",))
    finding = only(found(ranks(at=7, net_plugin=""), asked=asked))
    assert finding.claim == "net=ofi needs a network plugin, but the loader finds none on rank 7 (h4)"
    assert (finding.rank, finding.host) == (7, "h4")


@pytest.mark.parametrize(
    ("level", "blind", "severity", "claim"),
    [
        ("only", (0, 2, 4, 6), WARNING, "no node sees the run folder /home/runs/1"),
        ("run", (0, 2, 4, 6), INFO, "no node sees the run folder /home/runs/1"),
        ("run", (2,), WARNING, "h2 does not see the run folder /home/runs/1"),
        ("run", (2, 6), WARNING, "h2, h4 do not see the run folder /home/runs/1"),
    ],
)
def test_no_shared_folder(
    ranks: Ranks, found: Found, parts: Any, level: str, blind: Any, severity: Severity, claim: str
) -> None:
    everywhere = tuple(
        replace(rank, node=parts.node(sees_folder=rank.rank not in blind)) if rank.node is not None else rank
        for rank in ranks()
    )
    finding = only(found(everywhere, asked=Preflight(level, folder="/home/runs/1")))
    assert (finding.check, finding.severity, finding.claim) == ("shared-folder", severity, claim)


# ---- GPUs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "claim", "hint"),
    [
        (2, "ranks 2, 3 share one GPU (GPU-2 on h2)", "start one rank per GPU"),
        # Pods of one machine: NCCL starts there, for it takes them for two machines.
        (
            0,
            "ranks 0, 3 share one GPU (GPU-0 on h1, h2)",
            "with --no-preflight the rows are marked shared-gpu",
        ),
    ],
)
def test_two_ranks_on_one_gpu(
    ranks: Ranks, found: Found, parts: Any, gpu: int, claim: str, hint: str
) -> None:
    finding = only(found(ranks(at=3, gpu=parts.gpu(gpu))))
    assert (finding.check, finding.severity, finding.rank) == ("gpu-for-each-rank", ERROR, 3)
    assert finding.claim == claim
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({"name": "NVIDIA A100"}, "GPU: NVIDIA A100 on rank 5 (h3), NVIDIA H100 on the other 7"),
        ({"links_active": 17}, "active NVLinks: 17 of 18 on rank 5 (h3), 18 of 18 on the other 7"),
        ({"sm_max_mhz": 1200}, "highest SM clock: 1200 MHz on rank 5 (h3), 1980 MHz on the other 7"),
        ({"lanes": 8}, "PCIe lanes of the GPU: 8 of 16 on rank 5 (h3), 16 of 16 on the other 7"),
        (
            {"limits": ("idle", "hw_thermal", "sw_power_cap")},
            "the GPU of rank 5 (h3) is throttled before the run: hw_thermal",
        ),
    ],
)
def test_a_gpu_that_is_not_like_the_others(
    ranks: Ranks, found: Found, parts: Any, changed: dict[str, Any], claim: str
) -> None:
    finding = only(found(ranks(at=5, gpu=parts.gpu(5, **changed))))
    assert (finding.severity, finding.claim) == (WARNING, claim)
    assert (finding.rank, finding.host) == (5, "h3")


def test_a_clock_that_somebody_lowered(ranks: Ranks, found: Found, parts: Any) -> None:
    """One above its default, or of which NVML tells half, is no fault."""
    finding = only(found(ranks(at=5, gpu=parts.gpu(5, sm_set_mhz=1200, sm_default_mhz=1755))))
    assert (finding.check, finding.severity, finding.rank) == ("gpu-clocks", WARNING, 5)
    assert finding.claim == (
        "the SM clock of the GPU of rank 5 (h3) is set to 1200 MHz; its default is 1755 MHz"
    )
    for mhz in ((1980, 1755), (1755, 1755), (None, 1755), (1200, None), (0, 1755)):
        changed = parts.gpu(5, sm_set_mhz=mhz[0], sm_default_mhz=mhz[1])
        assert found(ranks(at=5, gpu=changed)) == []


@pytest.mark.parametrize(
    ("environ", "expects", "claim"),
    [
        ({"NCCL_GDRCOPY_ENABLE": "1"}, (), "NCCL_GDRCOPY_ENABLE=1 was requested, but h1 has no /dev/gdrdrv"),
        ({}, ("gdrcopy=1",), "gdrcopy=1 was requested, but h1 has no /dev/gdrdrv"),
        (
            {},
            ("mnnvl=1",),
            "mnnvl=1 was requested, but h1 has no IMEX channel (/dev/nvidia-caps-imex-channels)",
        ),
    ],
)
def test_a_feature_without_its_device(
    ranks: Ranks, found: Found, environ: dict[str, str], expects: tuple[str, ...], claim: str
) -> None:
    one_host = ranks(1, 2, at=(0, 1), environ=environ)
    finding = only(found(one_host, asked=Preflight("run", expects=expects)))
    assert (finding.check, finding.severity, finding.claim) == ("feature-devices", ERROR, claim)


# ---- memory and limits -------------------------------------------------------------------------------


def test_a_host_that_lost_memory(ranks: Ranks, found: Found, parts: Any) -> None:
    finding = only(found(ranks(at=4, node=parts.node(memory_bytes=1792 << 30))))
    assert (finding.check, finding.severity, finding.host) == ("memory", WARNING, "h3")
    assert finding.claim == "h3 has 1.8 TiB of memory, but most hosts have 2.0 TiB"


def test_the_shared_memory_that_docker_gives(ranks: Ranks, found: Found, parts: Any) -> None:
    small = ranks(at=(0, 2), node=parts.node(shm_bytes=64 << 20))
    assert [finding.host for finding in found(small, check="shared-memory")] == ["h1", "h2"]
    assert found(small, "mpi") == []


@pytest.mark.parametrize(
    ("limits", "claim"),
    [
        ({"memlock": 8 << 20}, "h1 limits locked memory to 8.0 MiB, and RDMA locks its buffers"),
        ({"nofile": 256}, "h1 allows 256 open files, but 8 ranks may need 272"),
    ],
)
def test_limits_that_are_too_low(ranks: Ranks, found: Found, limits: dict[str, int], claim: str) -> None:
    finding = only(found(ranks(at=0, limits=limits)))
    assert (finding.check, finding.severity, finding.claim) == ("ulimits", WARNING, claim)
