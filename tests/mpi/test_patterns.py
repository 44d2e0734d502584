"""Variable counts, pairs, groups and the other check data over real MPI, in real processes."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.mpi_ranks import YIELDING, needs_mpiexec, said_by_ranks
from busbw_testing.runs import start

from busbw.record.read import read_record

PROGRAM: Final = Path(__file__).with_name("pattern_program.py")

pytestmark = needs_mpiexec


@functools.cache
def found(ranks: int) -> dict[str, Any]:
    """What the ranks found; they start once."""
    tasks = ["faults", "values"] if ranks == 3 else ["variable", "permute", "groups"]
    out: dict[str, Any] = said_by_ranks(ranks, PROGRAM, *tasks, timeout_s=150, **YIELDING)
    assert out["ranks"] == ranks
    return out


@pytest.mark.parametrize("ranks", [1, 5])
def test_variable_counts_are_right_for_every_table_type_and_size(ranks: int) -> None:
    variable = found(ranks)["variable"]
    assert variable["wrong"] == []
    assert variable["cases"] == 10 * 14 * 4  # tables, types, sizes


@pytest.mark.parametrize("ranks", [1, 5])
def test_pairs_of_every_shape(ranks: int) -> None:
    assert found(ranks)["permute"]["wrong"] == {"ring": [], "reverse": [], "self": [], "one": []}


@pytest.mark.parametrize("ranks", [1, 5])
def test_groups_of_different_sizes_run_at_once_and_have_data_of_their_own(ranks: int) -> None:
    groups = found(ranks)["groups"]
    assert groups["wrong"] == []
    assert groups["cases"] > 200
    in_groups = sum(map(len, groups["split"]))
    assert in_groups == (ranks - 1 if ranks > 3 else ranks)
    assert groups["noticed_the_other_group"] == (in_groups if ranks > 1 else 0)


def test_faults_in_variable_sizes_are_found() -> None:
    for name, fault in found(3)["faults"].items():
        assert fault["cases"] >= 4, name
        assert fault["unnoticed"] == [], name


def test_random_data_and_ones_pass_where_right_and_fail_where_not() -> None:
    for data, outcome in found(3)["values"].items():
        assert outcome["cases"] > 100, data
        assert outcome["wrong"] == [], data
        # The root of a gather is rank 0: the last rank, whose bits are flipped, receives nothing.
        assert {case[0] for case in outcome["flipped"]} <= {"gather"}, data
        # Only a reduction of equal or small contributions may hide one that is missing; and the last rank
        # gives nothing to a broadcast or scatter of rank 0.
        hidden = {"all_reduce", "reduce", "reduce_scatter", "broadcast", "scatter"}
        assert {case[0] for case in outcome["dropped"]} <= hidden, data


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return start(tmp_path / "home", "run", *words, **YIELDING)


def only_record(tmp_path: Path) -> Any:
    (folder,) = (tmp_path / "home").glob("2*")
    return read_record(folder)


def test_a_run_in_groups_has_a_row_and_a_result_for_each_and_no_average(tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"replica_groups": [[[0, 1], [4, 2, 3]]]}))
    done = run(
        tmp_path, "all_reduce", "--ranks", "6", "-b", "1K", "-e", "1K", "-n", "8", "--groups", str(file)
    )
    assert done.returncode == 0, done.stderr
    assert "groups   2 at once, of ranks 0,1 | 4,2,3; 1 rank in no group sits out" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [row[5] for row in rows] == ["all", "0", "1", "min", "median", "max"]
    record = only_record(tmp_path)
    for result in record.results:
        assert (result.algbw_gb_per_s, result.busbw_gb_per_s) == (None, None)  # no one size fits both
        first, second = result.groups
        assert (first.ranks, second.ranks, first.wrong, second.wrong) == (2, 3, 0, 0)
        assert first.busbw_gb_per_s == pytest.approx(first.algbw_gb_per_s)
        assert second.busbw_gb_per_s == pytest.approx(second.algbw_gb_per_s * 4 / 3)
        assert result.time_ns >= max(first.time_ns, second.time_ns)


def test_a_file_of_counts_alone_is_measured_with_its_own_counts(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    entries = [{"send_counts": [6, 2]}, {"send_counts": [1, 3]}]
    file.write_text(json.dumps({"alltoallv_metadata": entries}))
    done = run(
        tmp_path, "alltoallv", "--ranks", "2", "-n", "8", "--counts", str(file), "--stats", "in", "out"
    )
    assert done.returncode == 0, done.stderr
    record = only_record(tmp_path)
    result = record.results[0]
    assert record.plan.cases[0].size_bytes == 32  # rank 0 sends 8 floats
    assert (result.input_bytes, result.output_bytes, result.wrong) == (32, 28, 0)
    assert result.algbw_gb_per_s == pytest.approx(32 / result.time_ns)
    assert result.busbw_gb_per_s == pytest.approx(result.algbw_gb_per_s / 2)


def test_the_worked_example_of_two_level_iterations(tmp_path: Path) -> None:
    words = ["-n", "15", "-w", "5", "--outer-iters", "10", "--outer-warmup-iters", "5"]
    done = run(tmp_path, "all_reduce", "--ranks", "2", "-b", "1K", "-e", "1K", *words)
    assert done.returncode == 0, done.stderr
    for result in only_record(tmp_path).results:
        timed = (result.samples + result.excluded) * result.calls_per_sample
        assert (timed, timed + result.warmup_calls) == (150, 300)


def test_pinned_ranks_have_cpus_of_their_own(tmp_path: Path) -> None:
    done = run(tmp_path, "barrier", "--ranks", "2", "-n", "2", "--pin")
    assert done.returncode == 0, done.stderr
    pinned = [rank.facts["pinned_cpus"] for rank in only_record(tmp_path).world.ranks]
    assert all(pinned)


def test_a_call_in_parallel_parts_is_right_and_its_size_is_that_of_the_parts(tmp_path: Path) -> None:
    operations = "all_reduce,all_gather,reduce_scatter,alltoall,reduce,gather,scatter,sendrecv,permute"
    operations += ",alltoallv,all_gatherv"
    done = run(tmp_path, operations, "--ranks", "2", "-b", "4000", "-n", "0", "--coalesce", "1,2,1")
    assert done.returncode == 0, done.stdout + done.stderr
    record = only_record(tmp_path)
    measured = {
        case.collective
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.wrong == 0
    }
    assert measured == set(operations.split(","))
    assert {case.size_bytes for case in record.plan.cases if case.collective == "all_reduce"} == {4000}
    assert [part.requested_bytes for part in record.plan.cases[0].parts] == [1000, 2000, 1000]
