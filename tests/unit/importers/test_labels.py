"""Labels that stand in paths."""

import pytest

from busbw.errors import UsageError
from busbw.importers.labels import DEFAULTS, compile_pattern, labels
from busbw.importers.operations import operation, operation_in_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "x/results_polaris/nccl_2.18/n8.g4/2024-01-05-10-11-12/all_reduce_perf_output.dat.5",
            {
                "system": "polaris",
                "version": "2.18",
                "nodes": "8",
                "gpus": "4",
                "stamp": "2024-01-05-10-11-12",
                "test": "all_reduce_perf",
                "setup": "5",
            },
        ),
        (
            "n2.g8.2024-01-05-10-11-12/alltoall_output.dat.1",
            {"nodes": "2", "gpus": "8", "stamp": "2024-01-05-10-11-12", "test": "alltoall", "setup": "1"},
        ),
        (
            "nccl_results/nccl_16_container_allreduce_0x7_topo_20250901-1200_results.csv",
            {
                "nodes": "16",
                "mode": "container",
                "test": "allreduce",
                "mask": "0x7",
                "topology": "topo",
                "stamp": "20250901-1200",
            },
        ),
        (
            "nccl_2_ami_alltoall_0x0_20250901_results.csv",
            {"nodes": "2", "mode": "ami", "test": "alltoall", "mask": "0x0", "stamp": "20250901"},
        ),
        (
            "sweep/all_gather/data/1048576/nodes_16/slurm-1.out",
            {"test": "all_gather", "bytes": "1048576", "nodes": "16"},
        ),
        ("sweep/alltoall/8/nodes_2/out.log", {"test": "alltoall", "bytes": "8", "nodes": "2"}),
        ("photos/8/nodes_2/out.log", {}),
        ("all_reduce.log", {}),
    ],
)
def test_trees_that_people_keep(path: str, expected: dict[str, str]) -> None:
    assert labels(path, DEFAULTS) == expected


def test_own_patterns() -> None:
    pattern = compile_pattern("{system}/n{nodes}[_{setup}]_*.{_}")
    assert labels("a/frontier/n8_fast_17.out", [pattern]) == {
        "system": "frontier",
        "nodes": "8",
        "setup": "fast",
    }
    assert labels("frontier/n8_17.out", [pattern]) == {"system": "frontier", "nodes": "8"}
    assert labels("frontier/nX_17.out", [pattern]) == {}


@pytest.mark.parametrize("pattern", ["{a}{a}", "{", "x[y", "}", "{a b}"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(UsageError, match="not a pattern"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("all_reduce_perf", "all_reduce"),
        ("allr", "all_reduce"),
        ("Reduce_scatter", "reduce_scatter"),
        ("All-to-All Personalized Exchange", "alltoall"),
        ("osu_bcast", "broadcast"),
        ("allgv", "all_gatherv"),
        ("photos", ""),
        ("", ""),
    ],
)
def test_operations(word: str, name: str) -> None:
    assert operation(word) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("logs/aws-p5-2x8-allreduce.log", "all_reduce"),
        ("all_reduce_vs_alltoall.txt", ""),
        ("alltoallv.log", "alltoallv"),
        ("reduce_perf.out", "reduce"),
        ("reducer.log", ""),
        ("scatterplot.log", ""),
    ],
)
def test_operations_in_paths(path: str, name: str) -> None:
    assert operation_in_path(path) == name
