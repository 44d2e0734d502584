"""NCCL's log in the words of its sources at the release tags, 2.18.6 to 2.30.7, and of aws-ofi-nccl's."""

from __future__ import annotations

import pytest

from busbw.machine.preflight.nccl_log import NcclUse, read_use

HOSTS = ("h1", "h1", "h2", "h2")
HEAD = "h1:4242:4243 [0] NCCL INFO "

# 2.20.5 with aws-ofi-nccl 1.8.1 on EFA.
EFA = """\
NCCL version 2.20.5+cuda12.2
h1:4242:4243 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.8.1-aws
h1:4242:4243 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
h1:4242:4243 [0] NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v7)
h1:4242:4243 [0] NCCL INFO Using network AWS Libfabric
h1:4242:4243 [0] NCCL INFO NVLS multicast support is not available on dev 0
h1:4242:4243 [0] NCCL INFO NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap16s27'
h1:4242:4243 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 101c0 / HCA 0 (distance 4 <= 4), read 1
h1:4242:4243 [0] NCCL INFO Channel 00/0 : 3[3] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA
h1:4242:4243 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[2] [send] via NET/AWS Libfabric/1(2)/GDRDMA/Shared
h1:4242:4243 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
h1:4242:4243 [0] NCCL INFO 8 coll channels, 0 collnet channels, 0 nvls channels, 8 p2p channels
h1:4242:4243 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 101c0 - Init COMPLETE
"""


def test_a_plugin_that_is_used() -> None:
    use = read_use(EFA.splitlines(), HOSTS)
    assert use.heard
    assert (use.network, use.plugins, use.provider) == ("AWS Libfabric", ("AWS Libfabric (v7)",), "efa")
    assert use.inside == {"P2P": 1}
    assert use.between == {"NET/AWS Libfabric/GDRDMA": 2}
    assert (use.nvls, use.collnet, use.gdrcopy, use.mnnvl, use.tuner) == (False, None, None, None, "")


@pytest.mark.parametrize(
    "line",
    [
        "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open",  # 2.18
        "NET/Plugin : No plugin found, using internal implementation",
        "NET/Plugin: Could not find: libnccl-net-ofi.so. Using internal network plugin.",  # 2.22
        "NET/Plugin: Could not find: /soft/libnccl-net.so libnccl-net-/soft/libnccl-net.so.so",  # 2.28
        "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
        "NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file",
    ],
)
def test_why_there_is_no_plugin(line: str) -> None:
    use = read_use([HEAD + line, HEAD + "Using network Socket"])
    assert line.partition(": ")[2].strip() in use.no_plugin or use.no_plugin in line
    assert use.no_plugin
    assert (use.network, use.plugins) == ("Socket", ())


@pytest.mark.parametrize(
    ("line", "inside", "between"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", {"P2P": 1}, {}),
        ("Channel 00/01 : 0[0] -> 1[1] via P2P/IPC/read", {"P2P": 1}, {}),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", {"SHM": 1}, {}),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct", {"SHM": 1}, {}),  # 2.30
        ("Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0", {"NET/Socket": 1}, {}),
        ("Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0", {}, {"NET/Socket": 1}),
        ("Channel 00/0 : 1[b00] -> 2[1b0] [receive] via NET/IB/3", {}, {"NET/IB": 1}),
        ("Channel 15/1 : 1[1] -> 2[0] [send] via NET/IB/7(1)/GDRDMA(PCI)/Shared", {}, {"NET/IB/GDRDMA": 1}),
        ("Channel 00/0 : 1[1] -> 2[0] via P2P/CUMEM/read", {}, {"P2P": 1}),  # over a multi-node NVLink
    ],
)
def test_how_ranks_are_connected(line: str, inside: dict[str, int], between: dict[str, int]) -> None:
    use = read_use([HEAD + line], HOSTS)
    assert (use.inside, use.between) == (inside, between)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA"], {"collnet": True}),
        (
            ["Communicator has 1 nodes which is less than CollNet node threshold 2, disabling CollNet"],
            {
                "collnet": False,
                "collnet_reason": "Communicator has 1 nodes which is less than CollNet node threshold 2",
            },
        ),
        (
            [
                "NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)",
                "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels",
            ],
            {"nvls": True},
        ),
        (
            [
                "NVLS multicast support is available on dev 0",
                "24 coll channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",  # 2.18
            ],
            {"nvls": False},
        ),
        (["NVLS multicast support is not available on dev 0"], {"nvls": False}),
        (["MNNVL 1 cliqueId 0 cliqueSize 8 cliqueRank 3 nvlDomainSize 72"], {"mnnvl": True}),
        (["MNNVL 0 cliqueId 0 cliqueSize 4 cliqueRank 3 "], {"mnnvl": False}),
        (["GDRCOPY enabled library 2.4 driver 2.4"], {"gdrcopy": True}),
        (["TUNER/Plugin: Using tuner plugin nccl_ofi_tuner"], {"tuner": "nccl_ofi_tuner"}),  # 2.22
        (["TUNER/Plugin: Using nccl_ofi_tuner (v3)"], {"tuner": "nccl_ofi_tuner"}),  # 2.28
        (["TUNER/Plugin: Using internal tuner plugin."], {"tuner": ""}),
        (
            ["GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 6 > 4)"],
            {"gdr_reason": "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 6 > 4)"},
        ),
        (
            ["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"],
            {"gdr_reason": "GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"},
        ),
    ],
)
def test_features(lines: list[str], said: dict[str, object]) -> None:
    use = read_use([HEAD + line for line in lines])
    assert {name: getattr(use, name) for name in said} == said


def test_warnings_are_kept_and_few() -> None:
    lines = [
        "[2026-11-21 10:00:00] h1:1:2 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : x",
        "[2026-11-21 10:00:00] h1:1:2 [0] transport/net_ib.cc:95 NCCL WARN NET/IB : Got async event : x",
        *(f"h1:1:2 [0] a.cc:1 NCCL WARN number {number}" for number in range(40)),
    ]
    use = read_use(lines)
    assert use.warnings[0] == "NET/IB : Got async event : x"
    assert len(use.warnings) == 4


def test_a_text_that_is_no_log_is_not_heard() -> None:
    assert read_use(["Hello", "", "size count type"]) == NcclUse()
