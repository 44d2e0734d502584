"""`busbw show --provenance`: where a run took place and with what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.launch.topology.kinds import Place
from busbw.launch.topology.order import RankOrder
from busbw.model.record import SCHEMA_VERSION, HostInfo, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.record.folder import NCCL_FILES, create
from busbw.record.write import write_record

NCCL = {"library": "NCCL", "library_version": "2.28.9", "library_build_id": "aa11"}
HOSTS = ("h2", "h1")
TAKEN = "NCCL_DEBUG=WARN, --env's, replaces preset aws/p5.48xlarge's INFO"


@pytest.fixture
def record() -> RunRecord:
    ranks = tuple(
        RankInfo(
            rank, HOSTS[rank // 2], 50, rank % 2, library_path=f"/{HOSTS[rank // 2]}/libnccl.so.2", **NCCL
        )
        for rank in range(4)
    )
    order = RankOrder(
        (("aws", "topology.json"),),
        ("h2", "h1"),
        ("h1",),
        {"h2": Place(("nn-1", "nn-2"), "rack 7")},
    )
    places = (
        HostInfo("h2", "Amazon EC2", "p5.48xlarge", "i-0123456789abcdef0", slurm_topology="s0.s1.h2"),
        HostInfo("h1", slurm_topology="s0.s2.h1"),
    )
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id="20260102-030405-all_reduce-00ff",
        busbw_version="0.1",
        created="2026-01-02T03:04:05.000+00:00",
        argv=("busbw", "run", "all_reduce", "--topology", "a b"),
        settings={
            "rank_order": order.to_fields(),
            "presets_used": ["aws/p5.48xlarge@2026-02"],
            "overridden": [TAKEN],
        },
        plan=make_plan(
            ("all_reduce",), RunSettings(minbytes=Size("1K"), maxbytes=Size("1K"), seed=1), "null", 4
        ),
        status=RunStatus.COMPLETE,
        world=WorldInfo("nccl", "slurm", 4, ranks, places),
        machine={
            "libraries": [{"path": "/x/libfabric.so.1.2", "soname": "libfabric.so.1", "version": "1.2"}]
        },
        environment={"modules": ["gcc/13", "efa/1"], "module_files": ["/m/gcc/13.lua", "/m/efa/1.lua"]},
    )


def shown(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str, code: int = 0
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    folder = create(tmp_path, record.run_id)
    write_record(folder, record)
    (folder / NCCL_FILES[0]).parent.mkdir(exist_ok=True)
    (folder / NCCL_FILES[0]).touch()
    assert main(["show", "last", "--provenance", *words]) == code


def test_everything_that_is_known(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown(record, tmp_path, monkeypatch)
    assert capsys.readouterr().out == (
        "# run      20260102-030405-all_reduce-00ff, busbw 0.1, 2026-01-02T03:04:05.000+00:00\n"
        "# command  busbw run all_reduce --topology 'a b'\n"
        "# preset   aws/p5.48xlarge@2026-02\n"
        f"# override {TAKEN}\n"
        "# ranks    in the order of aws (topology.json)\n"
        "# host  ranks  instance             switches   NVLink domain  product      vendor\n"
        "  h2    0-1    i-0123456789abcdef0  nn-1/nn-2  rack 7         p5.48xlarge  Amazon EC2\n"
        "  h1    2-3    -                    s0.s2.h1   -              -            -\n"
        "#\n"
        "# modules loaded where rank 0 ran\n"
        "# module  file\n"
        "  gcc/13  /m/gcc/13.lua\n"
        "  efa/1   /m/efa/1.lua\n"
        "#\n"
        "# libraries: what was measured, by rank, and what rank 0's process had mapped\n"
        "# library         ranks  version  build id  path\n"
        "  NCCL            0-1    2.28.9   aa11      /h2/libnccl.so.2\n"
        "  NCCL            2-3    2.28.9   aa11      /h1/libnccl.so.2\n"
        "  libfabric.so.1  -      1.2      -         /x/libfabric.so.1.2\n"
        "#\n"
        "# files in the run's folder: evidence/nccl-topology.xml\n"
    )


def test_a_run_without_a_world(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It failed before its ranks were connected."""
    shown(replace(record, world=None), tmp_path, monkeypatch)
    assert "# host" not in capsys.readouterr().out


def test_the_image_of_each_host_and_what_rank_0s_is_made_of(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record.world is not None
    places = tuple(replace(place, image="efa1-amd64") for place in record.world.places)
    image = {
        "image": "efa1-amd64",
        "base": "cuda:13",
        "versions": {"nccl": "2.30.4-1"},
        "packages": {"libnccl-ofi": "1.19.0"},
    }
    world = replace(record.world, places=places)
    shown(replace(record, world=world, machine={**record.machine, "image": image}), tmp_path, monkeypatch)
    out = capsys.readouterr().out
    assert out.count("  efa1-amd64") == 2
    assert (
        "#\n# image of rank 0: efa1-amd64, on cuda:13\n# part         version\n"
        "  libnccl-ofi  1.19.0\n  nccl         2.30.4-1\n#\n"
    ) in out


@pytest.mark.parametrize("words", [("--ranks",), ("--case", "1"), ("--format", "csv")])
def test_what_does_not_go_together(
    words: tuple[str, ...],
    record: RunRecord,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown(record, tmp_path, monkeypatch, *words, code=2)
    assert "provenance" in capsys.readouterr().err
