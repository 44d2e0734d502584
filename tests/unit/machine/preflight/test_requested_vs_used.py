"""Asked against used: what variables or presets ask for, and NCCL's words that it goes without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.machine.preflight.facts import Gathered, NodeFacts, RankFacts
from busbw.machine.preflight.nccl_log import NcclUse, read_use
from busbw.machine.preflight.requested_vs_used import Used, judge_use
from busbw.model.finding import Finding, Severity
from busbw.model.plan import Preflight

Ranks = Callable[..., tuple[RankFacts, ...]]
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
GOOD = NcclUse(heard=True, network="IB", inside={"P2P": 16}, between={"NET/IB/GDRDMA": 8}, nvls=True)
HEAD = "h1:4242:4243 [0] NCCL INFO "


def logged(*lines: str, hosts: tuple[str, ...] = ()) -> NcclUse:
    """What a log with INIT's lines and these says."""
    return read_use([HEAD + line for line in (*lines, "comm 0x55 rank 0 nranks 4 - Init COMPLETE")], hosts)


@pytest.fixture
def judged(ranks: Ranks) -> Callable[..., list[Finding]]:
    """Findings of ranks whose NCCL says ``uses`` (one for all, or one each), with variables set on all."""

    def judge(
        uses: NcclUse | list[NcclUse],
        environ: dict[str, str] | None = None,
        expects: tuple[str, ...] = (),
        hosts: int = 2,
        strict: bool = False,
        **changed: Any,
    ) -> list[Finding]:
        everybody = tuple(range(hosts * 2))
        all_ranks = ranks(hosts, 2, at=everybody, environ=environ or {})
        if changed:
            all_ranks = tuple(replace(rank, **changed) for rank in all_ranks)
        said = uses if isinstance(uses, list) else [uses] * len(all_ranks)
        asked = Preflight("run", strict=strict, expects=expects)
        return list(judge_use(Used(Gathered(all_ranks, "nccl", asked), tuple(said))))

    return judge


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_what_is_asked_for_and_used_is_no_finding(judged: Any) -> None:
    assert judged(GOOD) == []
    assert judged(GOOD, {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": "PHB", "NCCL_NVLS_ENABLE": "1"}) == []
    assert judged(GOOD, expects=("net=ib", "gdr=1", "nvls=1", "collnet=0")) == []
    for name in ("AWS Libfabric", "Libfabric"):  # its new name serves whoever asks for the old one
        ofi = replace(GOOD, network=name, plugins=(f"{name} (v9)",))
        assert judged(ofi, {"NCCL_NET": "AWS Libfabric"}) == []
        assert judged(ofi, {"NCCL_NET_PLUGIN": "ofi"}) == []
        assert judged(ofi, expects=("net=ofi",)) == []


@pytest.mark.parametrize("name", ["IB", "IBext", "IBext_v8", "NCCL RDMA Plugin", "NCCL RDMA Plugin v10"])
def test_infiniband_has_the_names_of_its_plugins(judged: Any, name: str) -> None:
    """HPC-X's SHARP plugin calls its network IBext, or IBext_v8 after the interface that it serves;
    NCCL names it by the plugin where it loads an older interface.
    """
    use = logged(f"Using network {name}", f"NET/Plugin: Loaded net plugin {name} (v8)")
    assert judged(use, expects=("net=ib",)) == []
    assert "but NCCL uses" in only(judged(use, expects=("net=ofi",))).claim


def test_collnet_is_what_the_heads_of_hosts_log(judged: Any) -> None:
    """One rank a host and NIC has the paths; the others say no more than that they are connected."""
    head = logged("Using network IB", "CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0/GDRDMA")
    other = logged("Using network IB", "rank 1 Connected CollNet")
    asked = {"NCCL_COLLNET_ENABLE": "1"}
    assert judged([head, other, head, other], asked, ("collnet=1",)) == []
    assert only(judged([other] * 4, asked, ("collnet=1",))).claim.endswith("CollNet (SHARP) on all ranks")
    off = only(judged([head, other, head, other], expects=("collnet=0",)))
    assert off.claim == "collnet=0 was expected, but CollNet (SHARP) is in use on all ranks"
    failed = replace(head, collnet=False, collnet_reason="Cannot initialize CollNet")
    finding = only(judged([failed, other, head, other], asked))
    assert (finding.rank, finding.evidence) == (0, "NCCL says: Cannot initialize CollNet")


OFI = replace(GOOD, network="AWS Libfabric", plugins=("AWS Libfabric (v9)",), provider="efa")


@pytest.mark.parametrize("name", ["tcp;ofi_rxm", "sockets", "udp;ofi_rxd", "shm"])
@pytest.mark.parametrize(
    ("environ", "expects"),
    [({}, ("net=ofi",)), ({"NCCL_NET": "AWS Libfabric"}, ()), ({"NCCL_NET_PLUGIN": "ofi"}, ())],
)
def test_sockets_below_libfabric(
    judged: Any, name: str, environ: dict[str, str], expects: tuple[str, ...]
) -> None:
    finding = only(judged(replace(OFI, provider=name), environ, expects))
    assert (finding.check, finding.severity) == ("provider-used", ERROR)
    assert finding.claim == (
        f"a fabric over libfabric was requested, but libfabric's provider is {name} on all ranks"
    )


@pytest.mark.parametrize(
    ("environ", "expects", "there", "asked"),
    [
        ({}, ("provider=efa",), "verbs;ofi_rxm", "provider=efa"),
        ({"FI_PROVIDER": "cxi"}, (), "tcp", "FI_PROVIDER=cxi"),
        ({"FI_PROVIDER": "^verbs,tcp"}, (), "tcp;ofi_rxm", "FI_PROVIDER=^verbs,tcp"),
        ({"FI_PROVIDER": "tcp"}, ("provider=efa",), "tcp", "provider=efa"),
    ],
)
def test_another_provider_than_was_named(
    judged: Any, environ: dict[str, str], expects: tuple[str, ...], there: str, asked: str
) -> None:
    finding = only(judged(replace(OFI, provider=there), environ, expects))
    assert (finding.check, finding.severity) == ("provider-used", ERROR)
    assert finding.claim == f"{asked} was requested, but libfabric's provider is {there} on all ranks"


def test_a_slow_provider_that_nobody_asked_about(judged: Any) -> None:
    """Hosts have a fabric: a warning, unless it is said that sockets are meant; nothing on one host."""
    use = replace(OFI, provider="tcp;ofi_rxm")
    finding = only(judged(use))
    assert (finding.check, finding.severity) == ("sockets", WARNING)
    assert finding.claim.startswith("NCCL uses libfabric's provider tcp;ofi_rxm, though hosts have")
    assert judged(use, {"FI_PROVIDER": "tcp"}, ("net=ofi",)) == []
    assert judged(use, {"NCCL_NET": "AWS Libfabric"}, hosts=1) == []
    assert judged(replace(use, network="IB")) == []  # the plugin chose it, and NCCL left the plugin


@pytest.mark.parametrize(
    ("environ", "expects", "asked"),
    [
        ({"NCCL_NET": "AWS Libfabric"}, (), "NCCL_NET=AWS Libfabric"),
        ({"NCCL_NET_PLUGIN": "ofi"}, (), "NCCL_NET_PLUGIN=ofi"),
        ({}, ("net=ofi",), "net=ofi"),
        ({}, ("net=ib",), "net=ib"),
    ],
)
def test_no_silent_fallback_to_sockets(
    judged: Any, environ: dict[str, str], expects: tuple[str, ...], asked: str
) -> None:
    lines = ["NET/Plugin: Could not find: libnccl-net.so", "NET/IB : No device found."]
    lines += ["NET/Plugin: No plugin found", "Using network Socket"]
    use = logged(*lines)
    findings = judged(use, environ, expects)
    first = findings[0]
    assert (first.check, first.severity) == ("network-used", ERROR)
    assert first.claim == f"{asked} was requested, but NCCL uses Socket on all ranks"
    reason = "NET/IB : No device found" if asked == "net=ib" else "Could not find: libnccl-net.so"
    assert first.evidence == f"NCCL says: {reason}"
    assert ("devices" in first.hint) is (asked == "net=ib")


def test_a_network_that_is_not_the_one_asked_for_says_nothing_of_plugins_that_loaded(judged: Any) -> None:
    """Of a plugin that serves the newest interface only, NCCL tells all others that it has not."""
    lines = ["NET/Plugin: Failed to find ncclNet_v9 symbol.", "NET/Plugin: Loaded net plugin IBext (v8)"]
    use = logged(*lines, "Using network IBext")
    finding = only(judged(use, {"NCCL_NET": "AWS Libfabric"}))
    assert finding.claim == "NCCL_NET=AWS Libfabric was requested, but NCCL uses IBext on all ranks"
    assert finding.evidence == ""


@pytest.mark.parametrize(
    ("environ", "expects", "changed"),
    [
        *(({"NCCL_NET": "Socket"}, (), {}), ({"NCCL_IB_DISABLE": "1"}, (), {}), ({}, ("net=socket",), {})),
        # A provider of sockets asks for no fabric, on hosts that show none.
        *(
            ({"FI_PROVIDER": name}, (), {"node": NodeFacts()})
            for name in ("tcp", "tcp;ofi_rxm", "efa,tcp", "^efa")
        ),
    ],
)
def test_sockets_that_somebody_asked_for_are_none(
    judged: Any, environ: dict[str, str], expects: tuple[str, ...], changed: dict[str, Any]
) -> None:
    assert judged(NcclUse(heard=True, network="Socket"), environ, expects, **changed) == []


def test_one_rank_that_fell_back_is_named(judged: Any) -> None:
    uses = [GOOD, GOOD, GOOD, replace(GOOD, network="Socket", between={"NET/Socket": 2})]
    findings = judged(uses)
    by_check = {finding.check: finding for finding in findings}
    assert by_check["one-network"].claim == "NCCL's network: Socket on rank 3 (h2), IB on the other 3"
    sockets = by_check["sockets"]
    assert (sockets.severity, sockets.rank, sockets.host) == (WARNING, 3, "h2")
    assert sockets.claim == (
        "NCCL uses sockets, though hosts have up to 2 active fabric ports, on rank 3 (h2)"
    )


def test_forced_sockets_inside_a_host(judged: Any) -> None:
    """NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 on one host: NCCL's own words for two ranks."""
    lines = [
        "NET/IB : No device found.",
        "NET/Socket : Using [0]eth0:10.0.0.1<0>",
        "Using network Socket",
        "Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0",
        "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
    ]
    use = logged(*lines, hosts=("h1", "h1"))
    finding = only(judged(use, {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, hosts=1))
    assert (finding.check, finding.severity) == ("inside-hosts", WARNING)
    assert finding.claim == "NCCL's ranks on one host communicate over a network on all ranks"
    assert finding.evidence == (
        "connections by kind: NET/Socket 2; set: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1"
    )
    assert finding.hint == "unset NCCL_P2P_DISABLE, NCCL_SHM_DISABLE"


def test_host_memory_between_gpus_with_nvlinks(judged: Any, parts: Any) -> None:
    use = replace(GOOD, inside={"SHM": 4}, between={})
    assert only(judged(use, hosts=1)).claim.startswith(
        "NCCL's ranks on one host communicate over host memory"
    )
    assert judged(use, hosts=1, gpu=parts.gpu(0, links=0, links_active=0)) == []


@pytest.mark.parametrize(
    ("asked", "use", "word", "name"),
    [
        ("NCCL_NET_GDR_LEVEL=PHB", {"between": {"NET/IB": 8}}, "gdr", "GPUDirect RDMA"),
        ("NCCL_NET_GDR_READ=1", {"between": {"NET/IB": 8}}, "gdr", "GPUDirect RDMA"),
        ("NCCL_COLLNET_ENABLE=1", {"collnet": False}, "collnet", "CollNet (SHARP)"),
        ("NCCL_COLLNET_ENABLE=1", {"collnet": None}, "collnet", "CollNet (SHARP)"),
        ("NCCL_NVLS_ENABLE=1", {"nvls": False}, "nvls", "NVLink SHARP (NVLS)"),
        ("NCCL_MNNVL_ENABLE=1", {"mnnvl": False}, "mnnvl", "multi-node NVLink (MNNVL)"),
        ("NCCL_GDRCOPY_ENABLE=1", {"gdrcopy": None}, "gdrcopy", "GDRCopy"),
    ],
)
def test_a_feature_that_is_asked_for_and_not_used(
    judged: Any, asked: str, use: dict[str, Any], word: str, name: str
) -> None:
    """What a preset expects is an error."""
    finding = only(judged(replace(GOOD, **use), dict([asked.split("=")])))
    assert (finding.check, finding.severity) == ("features-used", WARNING)
    assert finding.claim == f"{asked} was requested, but NCCL does not use {name} on all ranks"
    assert finding.hint
    expected = only(judged(replace(GOOD, **use), expects=(f"{word}=1",)))
    assert expected.severity is ERROR
    assert expected.claim == f"{word}=1 was requested, but NCCL does not use {name} on all ranks"


def test_the_reason_is_evidence(judged: Any) -> None:
    reason = "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 6 > 4)"
    lines = [reason, "Using network IB", "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0"]
    use = logged(*lines, hosts=("h1", "h1", "h2", "h2"))
    assert only(judged(use, {"NCCL_NET_GDR_LEVEL": "PHB"})).evidence == f"NCCL says: {reason}"


def test_what_needs_several_hosts_means_nothing_on_one(judged: Any) -> None:
    environ = {"NCCL_COLLNET_ENABLE": "1", "NCCL_MNNVL_ENABLE": "1", "NCCL_NET_GDR_LEVEL": "PHB"}
    use = replace(GOOD, between={}, collnet=False, mnnvl=False)
    assert judged(use, environ, ("collnet=1", "mnnvl=1", "gdr=1"), hosts=1) == []


@pytest.mark.parametrize(
    ("environ", "expects", "asked"),
    [({"FI_PROVIDER": "efa"}, (), "FI_PROVIDER=efa"), ({}, ("provider=efa",), "provider=efa")],
)
def test_no_silent_fallback_of_hosts_without_a_port(
    judged: Any, environ: dict[str, str], expects: tuple[str, ...], asked: str
) -> None:
    """What a job was not given its hosts do not show: what it asks for tells."""
    use = logged("NET/Plugin: Could not find: libnccl-net.so", "Using network Socket")
    first = only(judged(use, environ, expects, node=NodeFacts()))
    assert (first.check, first.severity) == ("network-used", ERROR)
    assert first.claim == f"{asked} was requested, but NCCL uses Socket on all ranks"
    assert first.evidence == "NCCL says: Could not find: libnccl-net.so"
    if not expects:
        assert judged(use, {**environ, "NCCL_NET": "Socket"}, node=NodeFacts()) == []
        # That turns NCCL's own verbs off, and no plugin.
        assert judged(use, {**environ, "NCCL_IB_DISABLE": "1"}, node=NodeFacts()) == [first]
        assert judged(use, environ, hosts=1, node=NodeFacts()) == []
        assert judged(GOOD, environ) == []  # they may be MPI's


@pytest.mark.parametrize("parts", ["COLL", "NET"])
def test_a_log_without_init_is_not_judged(judged: Any, parts: str) -> None:
    lines = [HEAD + "Using network IB" if parts == "NET" else HEAD + "AllReduce: opCount 0"]
    environ = {"NCCL_DEBUG_SUBSYS": parts, "NCCL_COLLNET_ENABLE": "1", "NCCL_TUNER_PLUGIN": "x"}
    expected, finding = judged(read_use(lines), environ, ("net=ib", "collnet=1", "tuner=1"))
    assert (expected.check, expected.severity) == ("expected", WARNING)
    assert ("net=ib" in expected.claim) is (parts == "COLL")
    assert (finding.check, finding.severity) == ("unheard", INFO)


def test_a_tuner_that_did_not_load(judged: Any) -> None:
    lost = replace(GOOD, no_tuner="Could not find: /opt/tuner.so")
    finding = only(judged(lost, {"NCCL_TUNER_PLUGIN": "/opt/tuner.so"}))
    assert (
        finding.claim == "NCCL_TUNER_PLUGIN=/opt/tuner.so was requested, but NCCL uses no tuner on all ranks"
    )
    assert judged(lost, {"NCCL_TUNER_PLUGIN": "none"}) == []
    assert judged(replace(GOOD, tuner="x"), {"NCCL_TUNER_PLUGIN": "x"}) == []
    assert only(judged(lost, expects=("tuner=ofi",))).severity is ERROR
    assert only(judged(GOOD, expects=("tuner=ofi",))).check == "expected"


def test_a_tuner_is_known_by_a_part_of_its_name(judged: Any) -> None:
    ofi = replace(GOOD, tuner="nccl_ofi_tuner")
    assert judged(ofi, expects=("tuner=ofi",)) == []
    assert judged(ofi, expects=("tuner=1",)) == []
    assert judged(GOOD, expects=("tuner=0",)) == []
    other = only(judged(ofi, expects=("tuner=mytuner",)))
    assert other.claim == "tuner=mytuner was requested, but NCCL uses nccl_ofi_tuner on all ranks"
    assert only(judged(ofi, expects=("tuner=0",))).claim.startswith(
        "tuner=0 was expected, but nccl_ofi_tuner "
    )
    instead = replace(ofi, no_tuner="Could not find: /opt/libmytuner.so")
    finding = only(judged(instead, {"NCCL_TUNER_PLUGIN": "/opt/libmytuner.so"}))
    assert (finding.severity, finding.evidence) == (WARNING, "NCCL says: Could not find: /opt/libmytuner.so")


def test_a_plugin_that_loads_and_does_not_initialize_is_no_network(judged: Any) -> None:
    """NCCL says "loaded" when it has found the symbols, and takes the next network without a device."""
    lines = [
        "NET/Plugin: Loaded net plugin SPCX (v12)",
        "NET/IB : No device found.",
        "Failed to initialize NET plugin SPCX",
        "Failed to initialize NET plugin IB",
        "Initialized NET plugin Socket",
        "Using network Socket",
        "Channel 00/0 : 0[0] -> 2[0] [send] via NET/Socket/0",
    ]
    use = logged(*lines, hosts=("h1", "h1", "h2", "h2"))
    finding, *more = judged(use, {"NCCL_NET_PLUGIN": "spcx"})
    assert {each.check for each in more} <= {"sockets"}
    assert finding.severity is ERROR
    assert finding.claim == "NCCL_NET_PLUGIN=spcx was requested, but NCCL uses Socket on all ranks"
    assert "failed to initialize SPCX" in finding.evidence
    in_a_file, *_ = judged(use, {"nccl.conf: NCCL_NET_PLUGIN": "spcx"})
    assert in_a_file.claim == finding.claim
    assert judged(use, {"NCCL_NET_PLUGIN": "spcx", "NCCL_NET": "Socket"}) == []
    assert judged(replace(GOOD, network="SPCX"), {"NCCL_NET_PLUGIN": "spcx"}, ("net=ib",)) == []


def test_what_was_not_heard_is_said_and_not_judged(judged: Any) -> None:
    finding = only(judged([GOOD, GOOD, GOOD, NcclUse()], {"NCCL_NET": "IB", "NCCL_NVLS_ENABLE": "1"}))
    assert (finding.check, finding.severity, finding.rank) == ("unheard", INFO, 3)


EXPECTS = ("net=ofi", "provider=efa", "nvls=1", "gdr=1", "mnnvl=1", "collnet=1", "gdrcopy=1", "tuner=1")


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_expected_and_was_not_heard(judged: Any, strict: bool) -> None:
    (finding, note) = judged(NcclUse(), expects=EXPECTS, strict=strict)
    assert (finding.check, finding.severity) == ("expected", ERROR if strict else WARNING)
    assert all(word in finding.claim for word in EXPECTS)
    assert finding.claim.endswith(" are expected, but NCCL's log does not show it on all ranks")
    assert (note.check, note.severity) == ("unheard", INFO)
    assert [each.check for each in judged(NcclUse())] == ["unheard"]


def test_what_is_expected_and_of_which_the_log_is_silent(judged: Any) -> None:
    finding = only(judged(NcclUse(heard=True), expects=("net=ofi", "provider=efa", "nvls=1", "gdr=1")))
    assert (finding.check, finding.severity) == ("expected", WARNING)
    assert finding.claim.startswith("net=ofi, provider=efa, gdr=1, nvls=1 are expected")
    silent = replace(OFI, provider="")
    assert only(judged(silent, expects=("net=ofi", "provider=efa"))).claim == (
        "provider=efa is expected, but NCCL's log does not show it on all ranks"
    )
    assert only(judged([OFI, OFI, OFI, silent], expects=("provider=efa",))).rank == 3


def test_what_has_no_path_to_tell_of(judged: Any) -> None:
    """A rank inside its host, a rack whose hosts are joined by NVLink, one host."""
    inner = replace(GOOD, between={})
    assert judged([GOOD, inner, inner, GOOD], expects=("gdr=1",)) == []
    assert judged(replace(GOOD, between={"P2P": 8}, mnnvl=True), expects=("gdr=1", "mnnvl=1")) == []
    assert judged(inner, expects=("gdr=1", "collnet=1"), hosts=1) == []
    assert only(judged(inner, expects=("gdr=1",))).check == "expected"


def test_nccls_own_warnings_are_kept(judged: Any) -> None:
    finding = only(judged(replace(GOOD, warnings=("a", "b"))))
    assert (finding.severity, finding.claim) == (INFO, "NCCL warns on all ranks")
    assert finding.evidence == "NCCL says: a, b"
