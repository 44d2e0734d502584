"""Labels that the log itself contradicts lose, and that is said; what only a label says is taken as such."""

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.importers.label_checks import FLAG
from busbw.importers.labels import DEFAULTS, labels
from busbw.model.record import RunRecord
from busbw.model.version_words import is_same_version
from busbw.record.folder import run_folders
from busbw.record.read import read_record

Imported = Callable[..., list[RunRecord]]
TREE = "results_P/nccl_2.21/{}/2024-05-01-10-00-01/all_reduce_output.dat.1"
NCCL = "ip-10-0-1-2:14:14 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n"


def mislabelled(record: RunRecord) -> list[str]:
    assert record.source is not None
    return [found.text for found in record.source.findings if found.kind == "mislabelled"]


def devices(ranks: int = 16, per_host: int = 8) -> str:
    return "".join(
        f"#  Rank {rank:2d} Group  0 Pid {1000 + rank:6d} on node{rank // per_host} device"
        f" {rank % per_host:2d} [0000:{rank:02x}:00] NVIDIA H100\n"
        for rank in range(ranks)
    )


@pytest.fixture
def text(nccl_table: Callable[[int], str]) -> str:
    """16 ranks on two hosts."""
    lines = nccl_table(1).splitlines(keepends=True)
    return devices() + "".join(line for line in lines if not line.startswith("#  Rank"))


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (
            "n8.g32",
            [
                "8 nodes by path, but the device list has 2 hosts",
                "8 nodes and 32 GPUs by path, but there are 16 ranks by header",
            ],
        ),
        ("n2.g4", ["2 nodes and 4 GPUs by path, but there are 16 ranks by header"]),
        ("n4.g16", ["4 nodes by path, but the device list has 2 hosts"]),
        ("n2.g8", []),
        ("n2.g16", []),
    ],
)
def test_nodes_and_gpus_of_a_path(folder: str, said: list[str], text: str, imported: Imported) -> None:
    path = TREE.format(folder)
    (record,) = imported(text, path, **labels(path, DEFAULTS))
    assert record.world.size == 16
    assert mislabelled(record) == said


def test_more_nodes_than_ranks(text: str, imported: Imported) -> None:
    listed = text.removeprefix(devices())
    (record,) = imported(listed, nodes="17")
    assert mislabelled(record) == ["17 nodes by path, but there are 16 ranks"]


@pytest.mark.parametrize(
    ("label", "same"),
    [
        ("2.18", True),
        ("v2.18.5", True),
        ("2.18.5-1", True),
        ("new", True),
        ("2.21", False),
        ("2.18.6", False),
    ],
)
def test_a_version_by_a_label_and_by_the_log(label: str, same: bool, text: str, imported: Imported) -> None:
    (record,) = imported(NCCL + text, version=label)
    assert record.world.ranks[0].library_version == "2.18.5+cuda12.2"
    assert record.source.fields["library_version"] == "evidence"
    assert mislabelled(record) == (
        [] if same else [f"version {label} by path, but the log says 2.18.5+cuda12.2"]
    )
    assert is_same_version(label, "2.18.5+cuda12.2") is same


def test_a_version_that_only_a_label_says(text: str, imported: Imported) -> None:
    (record,) = imported(text, version="2.21")
    assert {rank.library_version for rank in record.world.ranks} == {"2.21"}
    assert record.source.fields["library_version"] == "path"
    assert mislabelled(record) == []
    assert imported(text)[0].source.fields["library_version"] == "not stated"


def test_the_users_version_and_what_show_prints(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    log = tmp_path / "a.log"
    log.write_text(text)
    assert main(["import", str(log), "--library-version", "2.99", "--nodes", "8"]) == 0
    assert "mislabelled: 8 nodes by flag, but the device list has 2 hosts" in capsys.readouterr().out
    (folder,) = run_folders(tmp_path / "runs")
    assert read_record(folder).source.fields["library_version"] == FLAG
    assert main(["show", "last"]) == 0
    assert "tool     nccl-tests, NCCL 2.99" in capsys.readouterr().out
    log.write_text(NCCL + text)
    assert main(["import", str(log), "--library-version", "2.99"]) == 0
    assert "version 2.99 by flag, but the log says 2.18.5+cuda12.2" in capsys.readouterr().out


def test_trees_are_told_apart_by_what_the_log_says(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version, said in (("2.21", NCCL), ("2.18", "")):
        for setup in ("1", "2"):
            path = tmp_path / f"results_P/nccl_{version}/n2.g8/2024-05-01-10-00-0{setup}"
            path.mkdir(parents=True)
            (path / f"all_reduce_output.dat.{setup}").write_text(said + text)
    assert main(["compare", str(tmp_path)]) in (0, 1)
    out = capsys.readouterr().out
    assert "version NCCL 2.18.5+cuda12.2, 2 nodes" in out
    assert "version 2.18, 2 nodes" in out
    assert "2.21" not in out


@pytest.mark.parametrize("changed", [False, True])
def test_a_copy_has_all_columns(
    changed: bool,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Times alone are equal by chance where they have few digits."""
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    heading = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    for ranks in (8, 32):
        shown = ranks if changed else 8
        rows = ""
        for power in range(20, 26):
            size, time = 1 << power, 100.0
            algbw = size / time / 1e3
            side = f"{time:.1f} {algbw:.2f} {algbw * (shown - 1) / shown:.2f} 0"
            rows += f"{size} {size // 4 // shown} float none -1 {side} {side}\n"
        (tmp_path / f"all_gather_{ranks}.log").write_text(heading + rows)
    logs = [str(tmp_path / f"all_gather_{ranks}.log") for ranks in (8, 32)]
    assert main(["import", *logs, "--dry-run"]) == 0
    assert ("copy: its rows" in capsys.readouterr().out) is not changed
