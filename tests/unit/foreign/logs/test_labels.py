"""Labels that stand in paths and flags, and when the log's own word comes first."""

from collections.abc import Callable
from pathlib import Path

import pytest
from busbw_testing.logs import Command, imported, nccl_table

from busbw.errors import UsageError
from busbw.foreign.logs.labels import DEFAULTS, compile_pattern, labels
from busbw.foreign.logs.operations import operation_in_path
from busbw.model.record import RunRecord
from busbw.record.folder import run_folders
from busbw.record.read import read_record


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "x/results_polaris/nccl_2.18/n8.g4/2024-01-05-10-11-12/alltoall_perf_output.dat.5",
            "system=polaris version=2.18 nodes=8 gpus=4 stamp=2024-01-05-10-11-12 test=alltoall_perf setup=5",
        ),
        (
            "n2.g8.2024-01-05-10-11-12/alltoall_output.dat.1",
            "nodes=2 gpus=8 stamp=2024-01-05-10-11-12 test=alltoall setup=1",
        ),
        (
            "nccl_results/nccl_16_container_allreduce_0x7_topo_20250901-1200_results.csv",
            "nodes=16 mode=container test=allreduce mask=0x7 topology=topo stamp=20250901-1200",
        ),
        ("sweep/all_gather/data/1048576/nodes_16/slurm-1.out", "test=all_gather bytes=1048576 nodes=16"),
        ("sweep/alltoall/8/nodes_2/out.log", "test=alltoall bytes=8 nodes=2"),
        ("photos/8/nodes_2/out.log", ""),
        ("all_reduce.log", ""),
    ],
)
def test_trees_that_people_keep(path: str, expected: str) -> None:
    assert labels(path, DEFAULTS) == dict(pair.split("=") for pair in expected.split())


def test_own_patterns() -> None:
    pattern = compile_pattern("{system}/n{nodes}[_{setup}]_*.*")
    found = labels("a/frontier/n8_fast_17.out", [pattern])
    assert found == {"system": "frontier", "nodes": "8", "setup": "fast"}
    assert labels("frontier/n8_17.out", [pattern]) == {"system": "frontier", "nodes": "8"}
    assert labels("frontier/nX_17.out", [pattern]) == {}


@pytest.mark.parametrize("pattern", ["{a}{a}", "{", "x[y", "}", "{a b}"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(UsageError, match="not a pattern"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("logs/aws-p5-2x8-allreduce.log", "all_reduce"),
        ("all_reduce_vs_alltoall.txt", ""),
        ("reduce_perf.out", "reduce"),
        ("scatterplot.log", ""),
    ],
)
def test_operations_in_paths(path: str, name: str) -> None:
    assert operation_in_path(path) == name


# ---- whose version is taken ------------------------------------------------------------------------------

NCCL = "ip-10-0-1-2:14:14 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n"
Imported = Callable[..., list[RunRecord]]


def test_the_logs_own_version_is_taken_before_a_label() -> None:
    (record,) = imported(NCCL + nccl_table(1), version="2.21")
    assert record.world.ranks[0].library_version == "2.18.5+cuda12.2"
    assert record.source.fields["library_version"] == "evidence"
    (record,) = imported(nccl_table(1), version="2.21")
    assert {rank.library_version for rank in record.world.ranks} == {"2.21"}
    assert record.source.fields["library_version"] == "path"
    (record,) = imported(nccl_table(1))
    assert record.source.fields["library_version"] == "not stated"


def test_the_users_version_is_what_show_prints(home: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "a.log").write_text(nccl_table(1))
    assert command("import", tmp_path / "a.log", "--library-version", "2.99")[0] == 0
    (folder,) = run_folders(home)
    assert read_record(folder).source.fields["library_version"] == "flag"
    assert "tool     nccl-tests, NCCL 2.99" in command("show", "last")[1]


def test_trees_are_told_apart_by_what_the_log_says(tmp_path: Path, command: Command) -> None:
    for version, said in (("2.21", NCCL), ("2.18", "")):
        for setup in ("1", "2"):
            path = tmp_path / f"results_P/nccl_{version}/n2.g8/2024-05-01-10-00-0{setup}"
            path.mkdir(parents=True)
            (path / f"all_reduce_output.dat.{setup}").write_text(said + nccl_table(1))
    code, out, _ = command("compare", tmp_path)
    assert code in (0, 1)
    assert "version NCCL 2.18.5+cuda12.2, 2 nodes" in out
    assert "version 2.18, 2 nodes" in out
    assert "2.21" not in out
