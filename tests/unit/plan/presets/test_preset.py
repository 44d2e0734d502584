from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.plan.presets.preset import names, parse, read_preset


@pytest.mark.parametrize("name", names())
def test_every_preset_says_where_it_is_from_and_reads_in_every_version(name: str) -> None:
    preset = read_preset(name)
    assert preset.source
    assert preset.date
    assert preset.summary
    for version in preset.versions:
        assert read_preset(f"{name}@{version}").date == version


@pytest.mark.parametrize(
    ("name", "engine", "has", "lacks"),
    [
        (
            "aws/p5.48xlarge@2024-04",
            "slurm",
            {"FI_EFA_USE_DEVICE_RDMA": "1", "NCCL_BUFFSIZE": "8388608", "NCCL_SOCKET_IFNAME": "^docker,lo"},
            ["NCCL_TUNER_PLUGIN"],
        ),
        (
            "aws/p5.48xlarge@2026-02",
            "slurm",
            {"NCCL_P2P_NET_CHUNKSIZE": "524288", "OMPI_MCA_pml": "^ucx"},
            ["FI_EFA_USE_DEVICE_RDMA"],
        ),
        (
            "coreweave/h100-sharp@2025-07",
            "slurm",
            {
                "UCX_TLS": "dc,self",
                "NCCL_COLLNET_ENABLE": "1",
                "UCX_NET_DEVICES": "ibp0:1,ibp1:1,ibp2:1,ibp3:1,ibp4:1,ibp5:1,ibp6:1,ibp7:1",
            },
            ["PMIX_MCA_gds", "OMPI_MCA_coll_hcoll_enable", "NCCL_ALGO"],
        ),
        (
            "coreweave/h100@2025-07",
            "kubernetes",
            {"SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING": "1", "NCCL_COLLNET_ENABLE": "0"},
            ["NCCL_NET_PLUGIN", "UCX_TLS"],
        ),
    ],
)
def test_environments_are_those_of_the_source(
    name: str, engine: str, has: dict[str, str], lacks: list[str]
) -> None:
    environ = read_preset(name).environ(engine)
    assert {key: environ.get(key) for key in has} == has
    assert [key for key in lacks if key in environ] == []


@pytest.mark.parametrize(
    "name", ["aws/p5", "p5.48xlarge", "nowhere/x", "", "aws/p5.48xlarge@1999", "coreweave/b300@2025-07"]
)
def test_what_is_not_there_is_refused_with_what_is(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_preset(name)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("family: x", "ours.yaml: presets: field required"),
        ("family: x\npresets: {a: {env: {A: true}}}", "env: A: input should be a valid string"),
        ("family: x\npresets: {a: 1}", "a: it is not a list of KEY: VALUE"),
        ("family: x\npresets: {a: {versions: {2026: {envv: {}}}}}", "versions: 2026: 'envv'"),
    ],
)
def test_what_is_not_well_formed_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text, "ours.yaml")


def test_null_drops_what_is_inherited_and_the_nearer_word_wins(tmp_path: Path) -> None:
    """``launch`` of a preset holds over what the one below says of an engine: two racks are not one."""
    file = tmp_path / "x.yaml"
    file.write_text(
        "family: x\npresets:\n"
        "  rack: {launch: {nodes: '18'}, slurm: {nodes: '16', segment: '16'}, run: {minbytes: 1M},"
        " slurm_run: {minbytes: 2M}, kubernetes: {nic: '4'}}\n"
        "  racks: {extends: rack, launch: {nodes: '32'}, kubernetes: {nic: null}}\n"
    )
    rack, racks = read_preset("x/rack", (file,)), read_preset("x/racks", (file,))
    assert rack.launch_values("slurm") == {"nodes": "16", "segment": "16"}
    assert racks.launch_values("slurm") == {"nodes": "32", "segment": "16"}
    assert racks.launch_values("kubernetes") == {"nodes": "32", "set": []}
    assert racks.run_values("slurm")["minbytes"] == "2M"
    assert racks.run_values("kubernetes")["minbytes"] == "1M"


BELOW = "env: {A: base, B: base}, slurm_env: {A: slurm}, slurm_unset: [B], kubernetes_env: {A: pod}"


@pytest.mark.parametrize(
    ("child", "here", "slurm", "kubernetes"),
    [
        ("", {"A": "base", "B": "base"}, {"A": "slurm"}, {"A": "pod", "B": "base"}),
        ("env: {A: mine}", {"A": "mine", "B": "base"}, {"A": "mine"}, {"A": "mine", "B": "base"}),
        (
            "env: {B: mine}",
            {"A": "base", "B": "mine"},
            {"A": "slurm", "B": "mine"},
            {"A": "pod", "B": "mine"},
        ),
        (
            "env: {A: mine}, slurm_env: {A: own}",
            {"A": "mine", "B": "base"},
            {"A": "own"},
            {"A": "mine", "B": "base"},
        ),
        (
            "env: {B: mine}, kubernetes_unset: [B]",
            {"A": "base", "B": "mine"},
            {"A": "slurm", "B": "mine"},
            {"A": "pod"},
        ),
        ("unset: [A]", {"B": "base"}, {}, {"B": "base"}),
        ("kubernetes_unset: [A]", {"A": "base", "B": "base"}, {"A": "slurm"}, {"B": "base"}),
        (
            "slurm_env: {B: own}",
            {"A": "base", "B": "base"},
            {"A": "slurm", "B": "own"},
            {"A": "pod", "B": "base"},
        ),
    ],
)
def test_a_childs_variables_hold_over_what_its_base_says_of_an_engine(
    tmp_path: Path, child: str, here: dict[str, str], slurm: dict[str, str], kubernetes: dict[str, str]
) -> None:
    file = tmp_path / "x.yaml"
    both = (
        f"  base: {{{BELOW}}}",
        f"  child: {{extends: base, {child}}}",
        f"  old: {{{BELOW}, versions: {{2026-01: {{{child}}}}}}}",
    )
    file.write_text("\n".join(("family: x", "presets:", *both)))
    for name in ("x/child", "x/old@2026-01"):
        preset = read_preset(name, (file,))
        assert preset.environ("") == here
        assert preset.environ("slurm") == slurm
        assert preset.environ("kubernetes") == kubernetes


def test_a_childs_place_holds_over_its_bases_form(tmp_path: Path) -> None:
    """What a flag says has another name in Kubernetes' form."""
    file = tmp_path / "x.yaml"
    file.write_text(
        "family: x\npresets:\n"
        "  base: {launch: {ranks_per_node: '8'}, kubernetes: {slots: '8', replicas: '2', gpu: '8'}}\n"
        "  child: {extends: base, launch: {ranks_per_node: '4', nodes: '3'}}\n"
        "  form: {extends: child, kubernetes: {slots: '2'}}\n"
    )
    values = {
        name: read_preset(f"x/{name}", (file,)).launch_values("kubernetes")
        for name in ("base", "child", "form")
    }
    assert values["base"] == {"ranks_per_node": "8", "nodes": "2", "set": ["gpu=8"]}
    assert values["child"] == {"ranks_per_node": "4", "nodes": "3", "set": ["gpu=8"]}
    assert values["form"] == {"ranks_per_node": "2", "nodes": "3", "set": ["gpu=8"]}


def test_a_circle_of_extensions_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("family: x\npresets: {a: {extends: b}, b: {extends: c}, c: {extends: b}}")
    with pytest.raises(UsageError, match="extends itself: x/b -> x/c -> x/b"):
        read_preset("x/a", (file,))


def test_files_of_one_family_add_to_it_and_to_what_is_shipped(tmp_path: Path) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(
        "family: aws\nsource: us\npresets: {mine: {extends: p5.48xlarge, env: {NCCL_DEBUG: WARN}}}"
    )
    other.write_text(
        "family: ours\npresets: {b: {extends: aws/mine, summary: b}, c: {}, a: {abstract: true}}"
    )
    more = tmp_path / "more.yaml"
    more.write_text("family: ours\npresets: {d: {extends: coreweave/h100}}")
    every = (one, other, more)
    assert set(names(every)) - set(names()) == {"aws/mine", "ours/b", "ours/c", "ours/d"}
    assert read_preset("ours/b", every).environ("")["FI_PROVIDER"] == "efa"
    assert read_preset("ours/b", every).environ("")["NCCL_DEBUG"] == "WARN"
    assert read_preset("ours/b@2024-04", every).environ("")["FI_EFA_USE_DEVICE_RDMA"] == "1"
    assert read_preset("ours/d", every).launch_values("slurm")["nodes"] == "8"
    assert (read_preset("aws/mine", every).source, read_preset("aws/mine", every).shipped) == ("us", False)


@pytest.mark.parametrize("family", ["aws", "ours"])
def test_one_name_in_two_files_is_refused_by_name(tmp_path: Path, family: str) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    for file in (one, other):
        file.write_text(f"family: {family}\npresets: {{p5.48xlarge: {{}}}}")
    with pytest.raises(UsageError, match=rf"preset {family}/p5\.48xlarge is in ") as refused:
        names((one, other))
    assert "one.yaml" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("body", "expects"),
    [
        ("node: {gpus: 8, nics: 8}, expects: [nics=4]", ("nics=4", "gpus=1")),
        ("extends: alcf/polaris, expects: [nics=0], node: {nics: 4}", ("nics=0", "gpus=1")),
        ("extends: few", ("net=ib", "nics=4", "gpus=1")),
    ],
)
def test_what_a_preset_expects_of_a_node_is_its_later_word(
    tmp_path: Path, body: str, expects: tuple[str, ...]
) -> None:
    file = tmp_path / "x.yaml"
    few = "few: {node: {gpus: 8, nics: 2}, expects: [net=ib, nics=4]}"
    file.write_text(f"family: x\npresets: {{{few}, a: {{{body}}}}}\n")
    assert read_preset("x/a", (file,)).expects == expects


def test_trainium_has_the_kit_s_sweep_and_names_its_tool() -> None:
    preset = read_preset("aws/trn2.48xlarge")
    assert preset.tool == "nccom-test"
    swept = {key: preset.run_values("slurm")[key] for key in ("minbytes", "maxbytes", "iters")}
    assert swept == {"minbytes": "8", "maxbytes": "512K", "iters": "5"}


# README of argonne-lcf/alcf-nccl-tests at 385be33: what it recommends, and adds for applications that hang.
POLARIS = {
    "NCCL_NET_GDR_LEVEL": "PHB",
    "NCCL_CROSS_NIC": "1",
    "NCCL_COLLNET_ENABLE": "1",
    "NCCL_NET": "AWS Libfabric",
    "FI_CXI_DISABLE_HOST_REGISTER": "1",
    "FI_MR_CACHE_MONITOR": "userfaultfd",
    "FI_CXI_DEFAULT_CQ_SIZE": "131072",
}
FOR_HANGS = {
    "FI_CXI_DEFAULT_TX_SIZE": "131072",
    "FI_CXI_RDZV_PROTO": "alt_read",
    "FI_CXI_RX_MATCH_MODE": "software",
    "FI_CXI_REQ_BUF_SIZE": "16MB",
    "FI_CXI_RDZV_GET_MIN": "0",
    "FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD": "16000",
    "FI_CXI_RDZV_THRESHOLD": "2000",
}


def test_a_preset_has_what_its_source_has_and_no_more() -> None:
    assert read_preset("alcf/polaris-recommended").body["env"] == POLARIS
    assert read_preset("alcf/polaris-recommended-hang").body["env"] == POLARIS | FOR_HANGS
