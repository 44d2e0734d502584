"""``busbw compare`` of folders of logs: setups, versions and tests told apart, none lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from busbw_testing.compared import compare, csv_rows, nccl_tests_log, write

from busbw.cli.main import main

pytestmark = pytest.mark.usefixtures("home")

GiB = 2**30
# argonne-lcf/alcf-nccl-tests 385be33: out-of-place busbw at 1 GiB, GB/s, by version, nodes, test and setup.
ALCF = {
    ("2.21", 8, "all_reduce"): {"1": 3.30, "2": 2.98, "3": 36.14, "4": 36.08, "5": 36.38},
    ("2.21", 8, "all_gather"): {"1": 2.95, "2": 3.25, "3": 35.84, "4": 35.76, "5": 36.37},
    ("2.21", 8, "alltoall"): {"1": 1.51, "2": 1.51, "3": 4.36, "4": 4.82, "5": 5.22},
    ("2.18", 8, "all_reduce"): {"1": 5.98, "2": 3.31, "3": 36.08, "4": 36.06, "5": 36.53},
    ("2.18", 2, "all_reduce"): {"1": 9.45, "2": 3.18, "3": 36.14, "4": 36.08, "5": 36.81},
}


@pytest.fixture
def alcf(tmp_path: Path) -> Path:
    """The tree of logs as the source has it, with its published figures; one test failed as one did there."""
    root = tmp_path / "results_polaris"
    for (version, nodes, test), setups in ALCF.items():
        folder = root / f"nccl_{version}" / f"n{nodes}.g4" / "2024-05-01-10-00-00"
        for setup, busbw in setups.items():
            log = nccl_tests_log({GiB: busbw}, 4 * nodes, test)
            write(folder / f"{test}_output.dat.{setup}", log)
    failed = root / "nccl_2.18" / "n8.g4" / "2024-05-01-10-00-00" / "alltoall_output.dat.2"
    write(failed, "cxil_map: write error\nCXI alloc failed: exceeds ACs limits\n")
    return root


def test_alcf_logs_rank_as_published(alcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = compare(capsys, alcf, "--format", "json")
    assert code == 0
    trees = {tree["of"]: tree for tree in json.loads(text)}
    assert set(trees) == {"version 2.18, 2 nodes", "version 2.18, 8 nodes", "version 2.21, 8 nodes"}
    for (version, nodes, test), setups in ALCF.items():
        rows = [
            row
            for row in trees[f"version {version}, {nodes} nodes"]["rows"]
            if (row["collective"], row["placement"]) == (test, "out-of-place") and row["time_ns"]
        ]
        best_first = sorted(setups, key=lambda setup: -setups[setup])
        ranks = {row["arm"].removeprefix("setup "): row["rank"] for row in rows}
        for setup, rank in ranks.items():
            ties = [other for other in setups if setups[other] == setups[setup]]
            assert rank == best_first.index(min(ties, key=best_first.index)) + 1
        assert all(row["verdict"] == "FASTER" for row in rows if row["speedup"] and row["speedup"] > 1.5)


def test_every_test_that_failed_alike_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A launcher's one error, or nothing at all, is no copy of one launch; nor are equal rows of setups."""
    folder = tmp_path / "results_x" / "nccl_2.18" / "n2.g8" / "2024-05-01-10-00-00"
    for test in ("all_reduce", "alltoall", "all_gather"):
        write(folder / f"{test}_output.dat.1", nccl_tests_log({GiB: 3.0}, 8, test))
        write(folder / f"{test}_output.dat.2", "aprun: no free PMI port\n")
        write(folder / f"{test}_output.dat.3", "")
        write(folder / f"{test}_output.dat.4", nccl_tests_log({GiB: 3.0}, 8, test))
    _, text = compare(capsys, tmp_path / "results_x", "--format", "json")
    verdicts = [(row["arm"], row["verdict"]) for row in json.loads(text)["rows"]]
    assert verdicts.count(("setup 2", "FAILED")) == verdicts.count(("setup 3", "FAILED")) == 6
    assert verdicts.count(("setup 4", "SAME")) == 6
    _, text = compare(capsys, tmp_path / "results_x", "--scaling", "--format", "csv")
    rows = csv_rows(text)
    failed = [(row["collective"], row["setup"]) for row in rows if row["failed"] == "1"]
    assert sorted(failed) == [(test, s) for test in ("all_gather", "all_reduce", "alltoall") for s in "23"]
    assert len([row for row in rows if row["setup"] == "4"]) == 6


def test_a_baseline_that_failed_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results_x" / "nccl_2.18" / "n2.g8" / "2024-05-01-10-00-00"
    write(folder / "all_gather_output.dat.1", "aprun: no free PMI port\n")
    write(folder / "all_reduce_output.dat.1", nccl_tests_log({GiB: 4.6}, 8))
    write(folder / "all_gather_output.dat.5", nccl_tests_log({GiB: 32.0}, 8, "all_gather"))
    _, text = compare(capsys, tmp_path / "results_x")
    words = "the log has no rows; it ends with: aprun: no free PMI port"
    assert text.count(f"missing: the baseline failed: {words}") == 1  # both placements
    assert f"# note     setup 1: all_gather failed: {words}" in text


def versioned(text: str, version: int = 21803) -> str:
    return f"# nccl-tests version 2.17.1 nccl-headers={version} nccl-library={version}\n{text}"


@pytest.mark.parametrize("failed", ["1", "2"])
def test_a_log_that_failed_before_it_could_say_a_version_is_in_the_table(
    failed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results_x" / "n2.g8" / "2024-05-01-10-00-00"
    for setup in "123":
        log = versioned(nccl_tests_log({GiB: 3.0}, 8))
        write(folder / f"all_reduce_output.dat.{setup}", "no free port\n" if setup == failed else log)
    code, text = compare(capsys, tmp_path / "results_x", "--gate", "--format", "json")
    found = {(row["arm"], row["verdict"], row["why"][:19]) for row in json.loads(text)["rows"]}
    if failed == "2":
        assert code == 1
        assert ("setup 2", "FAILED", "the log has no rows") in found
    else:
        assert found == {(f"setup {setup}", "MISSING", "the baseline failed") for setup in "23"}


def test_a_library_of_its_own_is_a_part_of_a_setup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results_x" / "n2.g8" / "2024-05-01-10-00-00"
    for setup, number in (("1", 21803), ("2", 21803), ("3", 22105)):
        write(folder / f"all_reduce_output.dat.{setup}", versioned(nccl_tests_log({GiB: 3.0}, 8), number))
    told = json.loads(compare(capsys, tmp_path / "results_x", "--format", "json")[1])
    assert {row["arm"] for row in told["rows"]} == {"setup 2", "setup 3"}
    assert told["of"] == "2 nodes"


def test_folders_are_compared_setup_by_setup(alcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Setup 5 under NCCL 2.18 against setup 5 under 2.21; setups are no launches of one thing."""
    folders = [alcf / f"nccl_{version}" for version in ("2.18", "2.21")]
    _, text = compare(capsys, *folders, "--format", "json")
    trees = {tree["of"]: tree["rows"] for tree in json.loads(text)}
    assert set(trees) == {f"setup {s}, {nodes} nodes" for s in range(1, 6) for nodes in (2, 8)}
    (row,) = [
        row for row in trees["setup 5, 8 nodes"]
        if (row["collective"], row["placement"]) == ("all_reduce", "out-of-place")
    ]  # fmt: skip
    assert (row["baseline_launches"], row["launches"]) == (1, 1)
    assert row["speedup"] == pytest.approx(36.38 / 36.53, rel=0.01)
    # What one of them has not is told.
    assert {row["verdict"] for row in trees["setup 1, 2 nodes"]} == {"MISSING"}
    assert compare(capsys, *folders, "--gate")[0] == 1
    rows = compare(capsys, f"a={folders[0]}", f"b={folders[1]}", "--scaling", "--format", "csv")[1]
    assert {row["setup"] for row in csv_rows(rows)} == {
        f"{name} {number}" for name in "ab" for number in range(1, 6)
    }


def test_folders_without_a_setup_in_common_are_refused(
    alcf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = sorted((alcf / "nccl_2.21" / "n8.g4" / "2024-05-01-10-00-00").glob("all_reduce*"))
    assert main(["compare", f"a={logs[0]},{logs[1]}", f"b={logs[2]},{logs[3]}"]) == 2
    assert "a has setups 1, 2; b has setups 3, 4" in capsys.readouterr().err


def test_a_folder_of_setups_has_a_curve_for_each(alcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = compare(capsys, alcf, "--scaling", "--format", "csv")
    rows = csv_rows(text)
    assert code == 0
    found = {
        (row["setup"], int(row["nodes"])): float(row["busbw_gb_per_s"])
        for row in rows
        if row["collective"] == "all_reduce"
        and row["placement"] == "out-of-place"
        and "2.18" in row["version"]
    }
    assert found == {
        (setup, nodes): pytest.approx(busbw, rel=0.01)
        for nodes in (2, 8)
        for setup, busbw in ALCF["2.18", nodes, "all_reduce"].items()
    }
    (failed,) = [row for row in rows if row["failed"] != "0"]
    assert (failed["collective"], failed["setup"], failed["runs"]) == ("alltoall", "2", "0")
    assert "exceeds ACs limits" in failed["why"]


def test_a_log_without_a_setup_is_no_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    for name, busbw in (("all_reduce_output.dat.1", 10.0), ("all_reduce_output.dat.2", 11.0), ("a.log", 5.0)):
        write(folder / name, nccl_tests_log({GiB: busbw}, 8))
    _, text = compare(capsys, folder, "--format", "json")
    tree = json.loads(text)
    assert tree["baseline"] == "setup 1"
    assert {row["arm"] for row in tree["rows"]} == {"setup 2", "no setup"}


def test_launches_of_other_dates_and_nodes_are_merged_with_a_word(
    alcf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One setup in two folders of dates: the median of the two was measured by nobody."""
    assert "are merged" not in compare(capsys, alcf)[1]
    for day, host in (("2025-01-06-10-00-00", "old"), ("2025-07-09-10-00-00", "new")):
        for setup, busbw in (("1", 10.0), ("2", 11.0)):
            log = nccl_tests_log({GiB: busbw + len(host + day) / 10}, 8).replace(" on node", f" on {host}")
            write(tmp_path / "logs" / "n2.g4" / day / f"all_reduce_output.dat.{setup}", log)
    _, text = compare(capsys, tmp_path / "logs")
    for setup in "12":
        assert (
            f"# note     setup {setup}: its launches on new0,new1 and old0,old1 are merged into one number"
            in text
        )
        assert f"# note     setup {setup}: its launches of 2025-01-06 and 2025-07-09 are merged" in text
