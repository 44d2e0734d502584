from __future__ import annotations

from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.settings.preset import names, read_preset
from busbw.settings.preset_file import parse, refuse_cut_notes


def test_every_cluster_that_the_sources_know_is_there() -> None:
    aws = ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"]
    aws += ["p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge", "trn1.32xlarge", "trn2.48xlarge"]
    coreweave = ["a40", "a100", "a100-gdrcopy", "a100-no-ib", "a100-sharp", "h100", "h100-sharp", "b200"]
    coreweave += ["b200-sharp", "b300", "b300-sharp", "gb200-nvl72", "gb200-2-racks", "gb300-nvl72"]
    coreweave += ["gb300-roce", "gb300-roce-dra", "gb300-roce-2-racks", "gb300-roce-2-racks-dra"]
    alcf = ["polaris", *(f"polaris-{n}" for n in range(2, 7)), "polaris-recommended"]
    alcf += ["polaris-recommended-hang"]
    wanted = [f"aws/{n}" for n in aws] + [f"coreweave/{n}" for n in coreweave] + [f"alcf/{n}" for n in alcf]
    assert set(wanted) <= set(names())


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
            "aws/p5.48xlarge",
            "slurm",
            {"FI_PROVIDER": "efa", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
            ["NCCL_BUFFSIZE", "NCCL_TUNER_PLUGIN", "OMPI_MCA_pml", "FI_EFA_USE_DEVICE_RDMA"],
        ),
        ("aws/p6e-gb200.36xlarge", "", {"NCCL_NVLS_ENABLE": "1", "NCCL_MNNVL_ENABLE": "1"}, []),
        ("alcf/polaris-6", "pbs", {"NCCL_NET_GDR_LEVEL": "PXB", "FI_CXI_RX_MATCH_MODE": "software"}, []),
        (
            "alcf/polaris-recommended",
            "pbs",
            {"NCCL_NET_GDR_LEVEL": "PHB", "FI_CXI_DEFAULT_CQ_SIZE": "131072"},
            ["FI_CXI_RX_MATCH_MODE"],
        ),
        (
            "alcf/polaris-recommended-hang",
            "pbs",
            {"FI_CXI_REQ_BUF_SIZE": "16MB", "FI_CXI_RDZV_THRESHOLD": "2000", "FI_CXI_RDZV_GET_MIN": "0"},
            [],
        ),
    ],
)
def test_environments_are_those_of_the_source(
    name: str, engine: str, has: dict[str, str], lacks: list[str]
) -> None:
    environ = read_preset(name).environ(engine)
    assert {key: environ.get(key) for key in has} == has
    assert [key for key in lacks if key in environ] == []


def test_set_ups_of_polaris_are_cumulative() -> None:
    environs = [read_preset(f"alcf/polaris{tail}").environ("") for tail in ("", "-2", "-3", "-4", "-5")]
    assert [len(environ) for environ in environs] == [0, 3, 4, 7, 10]
    for below, above in pairwise(environs):
        assert below.items() <= above.items()


def test_library_folders_replace_each_other() -> None:
    assert read_preset("alcf/polaris-5").library_path == ("/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib",)
    recommended = read_preset("alcf/polaris-recommended").library_path
    assert recommended == ("/soft/libraries/hwloc/lib", "/soft/libraries/aws-ofi-nccl/v1.6.0/lib")


def test_a_version_changes_what_the_engine_is_asked_too() -> None:
    now = read_preset("aws/p5.48xlarge").launch_values("kubernetes")["set"]
    then = read_preset("aws/p5.48xlarge@2024-04").launch_values("kubernetes")["set"]
    assert "memory=32000Mi" in now
    assert "memory=8000Mi" in then
    assert read_preset("coreweave/gb200-nvl72").launch_values("slurm")["nodes"] == "16"
    assert read_preset("coreweave/gb200-nvl72@2025-07").launch_values("slurm")["nodes"] == "18"


@pytest.mark.parametrize(
    "name", ["aws/p5", "p5.48xlarge", "nowhere/x", "", "aws/efa@1999", "aws/p5.48xlarge@1999"]
)
def test_what_is_not_there_is_refused_with_what_is(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_preset(name)
    assert refused.value.hint


OURS = """
family: ours
source: the wiki
date: 2026-11-22
presets:
  base: {abstract: true, env: {A: "1", B: "2"}}
  big: {extends: base, summary: ours, env: {B: "3"}, run: {minbytes: 1K}, slurm: {partition: p}}
"""


def test_a_user_s_own_file_is_one_more_family(tmp_path: Path) -> None:
    file = tmp_path / "ours.yaml"
    file.write_text(OURS)
    assert "ours/big" in names((file,))
    assert "ours/base" not in names((file,))
    preset = read_preset("ours/big", (file,))
    assert preset.environ("slurm") == {"A": "1", "B": "3"}
    assert preset.launch_values("slurm") == {"partition": "p"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("family: x", "no mapping of presets"),
        ("presets: {}", "names no family"),
        ("family: x\npresets: {a: {envv: {}}}", "'envv' is not known"),
        ("family: x\npresets: {a: {env: {A: 1}}}", "A is not text"),
        ("family: x\npresets: {a: {env: []}}", "env is not a mapping"),
        ("family: x\npresets: {a: {notes: x}}", "notes is not a list"),
        ("family: x\npresets: {a: {run: {minbyte: 1}}}", "'minbyte' is no setting"),
        ("family: x\npresets: {a: {slurm: {queue: 1}}}", "'queue' is no setting"),
        ("family: x\npresets: {a: 1}", "not a mapping"),
        ("family: x\nmore: 1\npresets: {}", "'more' is no part"),
        ("family: x\npresets: {a: {versions: {2026: {envv: {}}}}}", "version 2026: 'envv'"),
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
        ("env: {A: null}", {"B": "base"}, {}, {"B": "base"}),
        ("unset: [A]", {"B": "base"}, {}, {"B": "base"}),
        ("slurm_unset: [A]", {"A": "base", "B": "base"}, {"B": "base"}, {"A": "pod", "B": "base"}),
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


IN_SET = "set: [slots=8, replicas=2, image=x, np=16, a=b]"


@pytest.mark.parametrize(
    ("base", "child", "engine", "place", "ranks"),
    [
        (f"launch: {{{IN_SET}}}", "", "slurm", ("8", "2", "x", ["a=b"]), "16"),
        (f"slurm: {{{IN_SET}}}", "", "slurm", ("8", "2", "x", ["a=b"]), "16"),
        (f"slurm: {{{IN_SET}}}", "", "kubernetes", (None, None, None, []), None),
        (
            f"launch: {{{IN_SET}}}",
            "kubernetes: {slots: 4, gpu: 8}",
            "kubernetes",
            ("4", "2", "x", ["a=b", "gpu=8"]),
            None,
        ),
        (f"launch: {{{IN_SET}}}", "slurm: {set: [c=d]}", "slurm", (None, None, None, ["c=d"]), None),
        (
            f"launch: {{{IN_SET}}}",
            "slurm: {ranks_per_node: 4, nodes: 1}",
            "slurm",
            (4, 1, "x", ["a=b"]),
            None,
        ),
        (f"launch: {{{IN_SET}}}", "launch: {ranks_per_node: 4}", "slurm", (4, "2", "x", ["a=b"]), None),
        (f"slurm: {{{IN_SET}}}", "launch: {ranks_per_node: 4}", "slurm", (4, "2", "x", ["a=b"]), None),
        (f"slurm: {{{IN_SET}}}", "slurm: {ranks_per_node: 4}", "slurm", (4, "2", "x", ["a=b"]), None),
        ("slurm: {nodes: 4}", "launch: {set: [replicas=2]}", "slurm", (None, "2", None, []), None),
        (f"launch: {{{IN_SET}}}", "run: {ranks: 4}", "slurm", (None, "2", "x", ["a=b"]), 4),
        (f"slurm: {{{IN_SET}}}", "slurm_run: {ranks: 4}", "slurm", (None, "2", "x", ["a=b"]), 4),
        ("slurm_run: {ranks: 4}", "launch: {set: [np=8]}", "slurm", (None, None, None, []), "8"),
        ("run: {ranks: 4}", "kubernetes: {np: 8}", "kubernetes", (None, None, None, []), "8"),
        ("kubernetes: {np: 8}", "run: {ranks: 4}", "kubernetes", (None, None, None, []), 4),
        ("kubernetes: {np: 8}", "kubernetes: {np: null}", "kubernetes", (None, None, None, []), None),
    ],
)
def test_words_of_a_form_that_flags_say_are_the_flags(
    tmp_path: Path, base: str, child: str, engine: str, place: tuple[object, ...], ranks: object
) -> None:
    """And of those the later word holds, whatever its form; what would contradict it is gone."""
    file = tmp_path / "x.yaml"
    file.write_text(f"family: x\npresets:\n  base: {{{base}}}\n  child: {{extends: base, {child}}}\n")
    preset = read_preset("x/child", (file,))
    found = preset.launch_values(engine)
    names = ("ranks_per_node", "nodes", "image")
    assert (*map(found.get, names), found.get("set", [])) == place
    assert preset.run_values(engine).get("ranks") == ranks


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
    other.write_text("family: ours\npresets: {b: {extends: aws/mine, summary: b}, c: {}}")
    more = tmp_path / "more.yaml"
    more.write_text("family: ours\npresets: {d: {extends: coreweave/h100}}")
    every = (one, other, more)
    assert set(names()) < set(names(every))
    assert {"aws/p5.48xlarge", "aws/mine", "ours/b", "ours/c", "ours/d"} <= set(names(every))
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


@pytest.mark.parametrize("path", sorted(Path(str(files("busbw.settings") / "presets")).glob("*.yaml")))
def test_no_note_of_ours_is_cut_at_a_comma(path: Path) -> None:
    refuse_cut_notes(path.read_text(), path.name)


def test_a_note_cut_at_a_comma_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("family: x\npresets:\n  a:\n    notes: [It is slow, but right.]\n")
    with pytest.raises(UsageError, match=r"line 4: a comma begins the note 'but right\.'") as refused:
        names((file,))
    assert "quotes" in refused.value.hint
    file.write_text("family: x\npresets:\n  a:\n    notes: ['It is slow, but right.', \"Yes, so.\"]\n")
    assert read_preset("x/a", (file,)).notes == ("It is slow, but right.", "Yes, so.")


def test_polaris_says_how_its_plugin_was_built() -> None:
    for name in ("polaris-3", "polaris-5", "polaris-recommended"):
        notes = " ".join(read_preset(f"alcf/{name}").notes)
        assert "--with-libfabric=/opt/cray/libfabric/1.15.2.0" in notes
        assert "--with-hwloc=/soft/libraries/hwloc" in notes
    assert len(read_preset("alcf/polaris-5").notes) == len(read_preset("alcf/polaris-4").notes) + 1


@pytest.mark.parametrize(
    ("name", "expects"),
    [
        ("alcf/polaris", ("gpus=1", "nics=2")),
        ("alcf/polaris-3", ("net=ofi", "provider=cxi", "gpus=1", "nics=2")),
        ("generic/full", ()),
    ],
)
def test_a_presets_gpus_are_expected(name: str, expects: tuple[str, ...]) -> None:
    assert read_preset(name).expects == expects


@pytest.mark.parametrize(
    ("body", "expects"),
    [
        ("node: {gpus: 8}, expects: [nics=0]", ("nics=0", "gpus=1")),
        ("node: {gpus: 8, nics: 8}, expects: [nics=4]", ("nics=4", "gpus=1")),
        ("node: {gpus: 8}, expects: [gpus=0]", ("gpus=0",)),
        ("extends: alcf/polaris, expects: [nics=0]", ("nics=0", "gpus=1")),
        ("extends: alcf/polaris, expects: [nics=0], node: {nics: 4}", ("nics=0", "gpus=1")),
        ("extends: few", ("net=ib", "nics=4", "gpus=1")),
        ("extends: few, node: {nics: 8}", ("net=ib", "gpus=1", "nics=8")),
    ],
)
def test_what_a_preset_expects_of_a_node_is_its_later_word(
    tmp_path: Path, body: str, expects: tuple[str, ...]
) -> None:
    file = tmp_path / "x.yaml"
    few = "few: {node: {gpus: 8, nics: 2}, expects: [net=ib, nics=4]}"
    file.write_text(f"family: x\npresets: {{{few}, a: {{{body}}}}}\n")
    assert read_preset("x/a", (file,)).expects == expects


AWS = [name for name in names() if name.startswith("aws/") and not read_preset(name).tool]


@pytest.mark.parametrize("name", AWS)
def test_aws_has_the_kit_s_nodes_and_words(name: str) -> None:
    values = read_preset(name).launch_values("slurm")
    assert values["nodes"] == ("18" if "gb200" in name else "2")
    assert values["sbatch_args"] == "--wait-all-nodes=1 --ntasks-per-core=1"
    assert values["srun_args"] == "--cpu-bind=none"
    assert read_preset(name).launch_values("kubernetes")["nodes"] == values["nodes"]


def test_the_kit_s_words_of_2024_that_are_not_taken_over_are_noted() -> None:
    notes = " ".join(read_preset("aws/p5.48xlarge@2024-04").notes)
    assert "-u -l" in notes
    assert "--gpus-per-node=8" in notes
    assert "-u -l" not in " ".join(read_preset("aws/p5.48xlarge").notes)


@pytest.mark.parametrize("name", ["aws/trn1.32xlarge", "aws/trn1n.32xlarge", "aws/trn2.48xlarge"])
def test_trainium_has_the_kit_s_sweep_and_names_its_tool(name: str) -> None:
    preset = read_preset(name)
    assert preset.tool == "nccom-test"
    swept = {key: preset.run_values("slurm")[key] for key in ("minbytes", "maxbytes", "iters")}
    assert swept == {"minbytes": "8", "maxbytes": "512K", "iters": "5"}


def test_an_extension_that_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("family: x\npresets: {a: {extends: b}}")
    with pytest.raises(UsageError, match="extends 'b'"):
        read_preset("x/a", (file,))
