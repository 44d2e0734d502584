"""CoreWeave's presets against what its manifests and scripts have, read and written down here by hand.

Read at cb86553 (2026-05-27, "now") and 7c12c62 (2025-07-15, "then") of coreweave/nccl-tests. An environment
is compared whole, on every engine and at every date, so that extending brings in or loses nothing unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from busbw.errors import UsageError
from busbw.settings.preset import names, read_preset

Environ = Mapping[str, str]

NOW, THEN = "2026-05", "2025-07"


def nics(count: int) -> Environ:
    return {"UCX_NET_DEVICES": ",".join(f"ibp{number}:1" for number in range(count))}


def collnet(value: int) -> Environ:
    return {"NCCL_COLLNET_ENABLE": str(value)}


COMMON = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_HCA": "ibp"}
NO_PLUGIN = {"NCCL_NET_PLUGIN": "none"}
TOLD = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}
RELAXED = {"SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING": "1"}
CHAIN = {"NCCL_ALGO": "COLLNETCHAIN"}
TCP = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0", "OMPI_MCA_coll_hcoll_enable": "0"}
PMIX = {"PMIX_MCA_gds": "^ds12"}
IMEX = {"NVIDIA_IMEX_CHANNELS": "0", "NCCL_NET_GDR_C2C": "1"}
RACK = {**IMEX, "NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "1", "NCCL_SHM_DISABLE": "0"}
RACK_THEN = {**nics(4), **RELAXED, **collnet(0), "NCCL_NVLS_ENABLE": "0", **IMEX}
SPECTRUM_X = {
    "NCCL_IB_NET_LATENCY": "50",
    "NCCL_IB_ADAPTIVE_ROUTING": "1",
    "NCCL_NVLS_NCHANNELS": "24",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": "262144",
    "NCCL_NVLS_CHUNKSIZE": "262144",
    "NCCL_IB_ADDR_FAMILY": "AF_INET6",
    "NCCL_IB_ADDR_RANGE": "fd02::/16",
    "NCCL_IB_TC": "96",
}

# Beside COMMON: preset -> date -> (Kubernetes, Slurm). No Slurm script: what the manifest has, and on racks
# what their Slurm scripts add.
Pair = tuple[Environ, Environ]


def both(environ: Environ) -> Pair:
    return environ, environ


H100_NOW: Pair = (
    {**NO_PLUGIN, **nics(8), **RELAXED, **collnet(0)},
    {**TCP, **PMIX, **NO_PLUGIN},
)
SHARP_NOW: Pair = (
    {**nics(8), **RELAXED, **collnet(1), **CHAIN},
    {**TCP, **PMIX, **collnet(1), **RELAXED},
)
RACK_NOW: Pair = ({**NO_PLUGIN, **RACK, **TCP}, {**NO_PLUGIN, **RACK, **TCP, **PMIX})
ROCE_NOW: Pair = ({**NO_PLUGIN, **SPECTRUM_X, **TCP}, {**NO_PLUGIN, **SPECTRUM_X, **TCP, **PMIX})

FACTS: Mapping[str, Mapping[str, Pair]] = {
    "a40": {NOW: both({**NO_PLUGIN, **TOLD}), THEN: both(TOLD)},
    "a100": {NOW: both({**NO_PLUGIN, **nics(4)}), THEN: both(nics(4))},
    "a100-gdrcopy": {
        NOW: both({**NO_PLUGIN, "NCCL_GDRCOPY_ENABLE": "1", **TOLD}),
        THEN: both({"NCCL_GDRCOPY_ENABLE": "1", **TOLD}),
    },
    "a100-no-ib": {NOW: both({**NO_PLUGIN, "NCCL_IB_HCA": "eth0"}), THEN: both({"NCCL_IB_HCA": "eth0"})},
    "a100-sharp": {NOW: both({**collnet(1), **nics(4)}), THEN: both({**collnet(1), **nics(4)})},
    "h100": {NOW: H100_NOW, THEN: both({**nics(8), **RELAXED, **collnet(0)})},
    "h100-sharp": {
        NOW: SHARP_NOW,
        THEN: (
            {**nics(8), **RELAXED, **collnet(1), **CHAIN},
            {**nics(8), **RELAXED, **collnet(1), "UCX_TLS": "dc,self"},
        ),
    },
    "b200": {NOW: H100_NOW},
    "b200-sharp": {NOW: SHARP_NOW},
    "b300": {NOW: H100_NOW},
    "b300-sharp": {NOW: SHARP_NOW},
    "gb200-nvl72": {NOW: RACK_NOW, THEN: (RACK_THEN, {**RACK_THEN, **PMIX})},
    "gb200-2-racks": {NOW: RACK_NOW},
    "gb300-nvl72": {NOW: RACK_NOW},
    "gb300-roce": {NOW: ROCE_NOW},
    "gb300-roce-dra": {NOW: ROCE_NOW},
    "gb300-roce-2-racks": {NOW: ROCE_NOW},
    "gb300-roce-2-racks-dra": {NOW: ROCE_NOW},
}


def cases() -> Iterator[tuple[str, str, str, Environ]]:
    for name, dates in FACTS.items():
        for date, pair in dates.items():
            for engine, environ in zip(("kubernetes", "slurm"), pair, strict=True):
                yield name, date, engine, {**COMMON, **environ}


@pytest.mark.parametrize(("name", "date", "engine", "environ"), list(cases()))
def test_the_whole_environment(name: str, date: str, engine: str, environ: Environ) -> None:
    assert read_preset(f"coreweave/{name}@{date}").environ(engine) == environ
    if date == NOW:
        assert read_preset(f"coreweave/{name}").environ(engine) == environ


def test_every_preset_is_in_the_table_and_has_no_date_at_which_it_was_not() -> None:
    presets = {name for name in names() if name.startswith("coreweave/")}
    assert presets == {f"coreweave/{name}" for name in FACTS}
    for name, dates in FACTS.items():
        assert read_preset(f"coreweave/{name}").versions == tuple(dates)


@pytest.mark.parametrize("name", ["coreweave/b300@2025-07", "aws/p6-b300.48xlarge@2024-04"])
def test_a_version_that_never_was_is_refused_with_those_that_were(name: str) -> None:
    with pytest.raises(UsageError, match="has no version") as refused:
        read_preset(name)
    assert "2026-05" in refused.value.hint


# ---- nodes, sweep and what is asked of the engines ---------------------------------------------------------

RACKS = ("gb200-nvl72", "gb300-nvl72", "gb300-roce", "gb300-roce-dra")
TWO_RACKS = ("gb200-2-racks", "gb300-roce-2-racks", "gb300-roce-2-racks-dra")
DISTRIBUTION = "--distribution=block:block"
SIZES = f"{DISTRIBUTION} --cpus-per-task=8 --mem=128GB"


@pytest.mark.parametrize("name", FACTS)
def test_nodes_and_ranks(name: str) -> None:
    preset = read_preset(f"coreweave/{name}")
    nodes = {"kubernetes": "8", "slurm": "8"}
    if name in RACKS:
        nodes = {"kubernetes": "18", "slurm": "16"}
    elif name in TWO_RACKS:
        nodes = {"kubernetes": "32", "slurm": "32"}
    for engine, count in nodes.items():
        values = preset.launch_values(engine)
        assert (values["nodes"], values["ranks_per_node"]) == (count, "4" if "gb" in name else "8")
    assert preset.launch_values("slurm").get("segment") == ("16" if "gb" in name else None)


@pytest.mark.parametrize("name", FACTS)
def test_sweep_and_slurm_words_have_dates(name: str) -> None:
    now = read_preset(f"coreweave/{name}")
    assert {engine: now.run_values(engine)["minbytes"] for engine in ("slurm", "kubernetes")} == {
        "slurm": "16M",
        "kubernetes": "512M",
    }
    assert now.run_values("slurm")["maxbytes"] == "8G"
    assert now.launch_values("slurm")["sbatch_args"] == (DISTRIBUTION if "a100" in name else SIZES)
    if THEN in FACTS[name]:
        then = read_preset(f"coreweave/{name}@{THEN}")
        assert then.run_values("slurm")["minbytes"] == "512M"
        assert "sbatch_args" not in then.launch_values("slurm")


def test_a_rack_of_2025_was_eighteen_nodes_without_a_segment_on_slurm() -> None:
    values = read_preset(f"coreweave/gb200-nvl72@{THEN}").launch_values("slurm")
    assert values["nodes"] == "18"
    assert "segment" not in values


TYPES = {
    "a40": "gpu.nvidia.com/model=A40",
    "a100": "gd-8xa100-i128",
    "h100": "gd-8xh100ib-i128",
    "b200": "b200-8x",
    "b300": "b300-8x",
    "gb200": "gb200-4x",
    "gb300": "gb300-4x",
}
ASKED = {"a40": "cpu=90 memory=400Gi", "a100": "cpu=112 memory=1000Gi", "gb": "cpu=140 memory=900Gi"}


@pytest.mark.parametrize("name", FACTS)
def test_what_kubernetes_is_asked_for(name: str) -> None:
    words = list(read_preset(f"coreweave/{name}").launch_values("kubernetes")["set"])
    label = TYPES[name.partition("-")[0]]
    label = label if "=" in label else f"node.coreweave.cloud/type={label}"
    assert f"select={label}{'|gb300-4x-e' if name.endswith('-dra') else ''}" in words
    family = "gb" if name.startswith("gb") else name.partition("-")[0]
    asked = ASKED["a40"] if name == "a100-gdrcopy" else ASKED.get(family, "cpu=110 memory=960Gi")
    assert {*asked.split(), "launcher-cpu=2", "launcher-memory=128Mi"} <= set(words)
    assert ("nic=rdma/ib=1" in words) == (name not in ("a40", "a100-no-ib"))
    near = [word for word in words if word.startswith("affinity=")]
    zone = "topology.kubernetes.io/zone:preferred"
    clique = "nvidia.com/gpu.clique, " if name == "gb300-roce-dra" else ""
    assert near == ([f"affinity={clique}{zone}"] if family == "gb" else [])
    spread = [word for word in words if word.startswith("spread=")]
    assert spread == (["spread=topology.kubernetes.io/zone=2"] if name in TWO_RACKS else [])


def test_a_rack_of_2025_said_nothing_of_zones() -> None:
    words = read_preset(f"coreweave/gb200-nvl72@{THEN}").launch_values("kubernetes")["set"]
    assert not [word for word in words if word.startswith("affinity=")]
    assert {"cpu=64", "memory=900Gi"} <= set(words)


IMAGES = {
    NOW: "12.9.1-devel-ubuntu22.04-nccl2.28.3-1-8b67957",
    THEN: "12.8.1-devel-ubuntu22.04-nccl2.26.2-1-0708d2e",
}


@pytest.mark.parametrize(("name", "date"), [(name, date) for name, dates in FACTS.items() for date in dates])
def test_the_image_is_one_reference_of_the_source(name: str, date: str) -> None:
    tag = IMAGES[date]
    if name == "a40":
        tag = "12.4.1-cudnn-devel-ubuntu20.04-nccl2.21.5-1-85f9143"
    elif "roce" in name:
        tag = "13.1.0-devel-ubuntu22.04-nccl2.29.2-1-0bf62c2"
    image = read_preset(f"coreweave/{name}@{date}").body["image"]
    assert image.endswith(f"coreweave/nccl-tests:{tag}")


def test_what_is_expected_fits_the_network() -> None:
    expects = {name: read_preset(f"coreweave/{name}").expects for name in FACTS}
    assert {name for name in FACTS if "net=socket" in expects[name]} == {"a40", "a100-no-ib"}
    assert {name for name in FACTS if "net=ib" in expects[name]} == FACTS.keys() - {"a40", "a100-no-ib"}
    assert {name for name in FACTS if "mnnvl=1" in expects[name]} == {
        "gb200-nvl72",
        "gb200-2-racks",
        "gb300-nvl72",
    }
    assert "mnnvl=1" not in read_preset(f"coreweave/gb200-nvl72@{THEN}").expects
