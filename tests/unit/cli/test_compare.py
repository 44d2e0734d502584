"""``busbw compare``: published logs, runs, files of setups, exit codes."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import nccl_tests_log, record_of, write

from busbw.cli import compare_setups
from busbw.cli.main import main
from busbw.errors import ExitCode, SiteError
from busbw.model.record import RunStatus
from busbw.model.result import Status
from busbw.planning.setups import Setup
from busbw.record.folder import create
from busbw.record.write import write_record
from busbw.settings.compare import CompareSettings
from busbw.settings.launch import LaunchSettings
from busbw.setup_series import measure

MiB, GiB = 2**20, 2**30
NCCL_TESTS_ROWS = {"n100": (2009.1, 1873.9), "n1000": (1896.5, 1873.1)}
# argonne-lcf/alcf-nccl-tests 385be33: out-of-place busbw at 1 GiB, GB/s, by version, nodes, test and setup.
ALCF = {
    ("2.21", 8, "all_reduce"): {"1": 3.30, "2": 2.98, "3": 36.14, "4": 36.08, "5": 36.38},
    ("2.21", 8, "all_gather"): {"1": 2.95, "2": 3.25, "3": 35.84, "4": 35.76, "5": 36.37},
    ("2.21", 8, "alltoall"): {"1": 1.51, "2": 1.51, "3": 4.36, "4": 4.82, "5": 5.22},
    ("2.18", 8, "all_reduce"): {"1": 5.98, "2": 3.31, "3": 36.08, "4": 36.06, "5": 36.53},
    ("2.18", 2, "all_reduce"): {"1": 9.45, "2": 3.18, "3": 36.14, "4": 36.08, "5": 36.81},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


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


def compare(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["compare", *map(str, words)])
    return code, capsys.readouterr().out


def stored(home: Path, name: str, times: dict[int, object], **fields: object) -> str:
    record = record_of(times, name=name, **fields)
    write_record(create(home, name), record)
    return name


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
        assert {row["verdict"] for row in rows} == {"AMBIGUOUS"}
        assert {row["why"] for row in rows} == {"single observation, no interval"}


def test_setup_2_is_slower_than_default_with_nccl_2_18(
    alcf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = compare(capsys, alcf, "--format", "json")
    for tree in json.loads(text):
        if "2.18" not in tree["of"]:
            continue
        (row,) = [
            row for row in tree["rows"]
            if (row["arm"], row["collective"], row["placement"]) == ("setup 2", "all_reduce", "out-of-place")
        ]  # fmt: skip
        assert row["rank"] == row["ranked"] == 5
        assert row["speedup"] == pytest.approx(
            3.18 / 9.45 if "2 nodes" in tree["of"] else 3.31 / 5.98, rel=0.01
        )


def test_a_test_that_failed_is_shown_with_its_last_words(
    alcf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = compare(capsys, alcf)
    assert code == 0
    assert "setup 2: alltoall failed: the log has no rows; it ends with: CXI alloc failed" in text
    assert compare(capsys, alcf, "--gate")[0] == 1


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
    assert verdicts.count(("setup 4", "AMBIGUOUS")) == 6
    _, text = compare(capsys, tmp_path / "results_x", "--scaling", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
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
    assert text.count(f"MISSING: the baseline failed: {words}") == 2
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


def test_a_setup_that_nothing_is_compared_with_is_told(
    alcf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = versioned(nccl_tests_log({GiB: 3.0}, 16))
    write(alcf / "nccl_2.18" / "n4.g4" / "2024-05-01-10-00-00" / "all_reduce_output.dat.7", log)
    write(alcf / "n2.g4" / "2024-05-01-10-00-00" / "all_reduce_output.dat.3", "no free port\n")
    write(alcf / "nccl_2.21" / "n2.g4" / "2024-05-01-10-00-00" / "all_reduce_output.dat.3", "no port\n")
    assert main(["compare", str(alcf), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert "warning: setup 7 (version 2.18, 4 nodes): its logs (1) are compared with nothing" in err
    assert "warning: setup 3 (version 2.21, 2 nodes): its logs (2) are compared with nothing" in err
    assert next(tree["of"] for tree in json.loads(out)) == "version 2.18, 2 nodes"


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
    assert compare(capsys, *folders, "--gate")[0] == 3
    rows = compare(capsys, f"a={folders[0]}", f"b={folders[1]}", "--scaling", "--format", "csv")[1]
    assert {row["setup"] for row in csv.DictReader(io.StringIO(rows))} == {
        f"{name} {number}" for name in "ab" for number in range(1, 6)
    }


def test_folders_without_a_setup_in_common_are_refused(
    alcf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = sorted((alcf / "nccl_2.21" / "n8.g4" / "2024-05-01-10-00-00").glob("all_reduce*"))
    assert main(["compare", f"a={logs[0]},{logs[1]}", f"b={logs[2]},{logs[3]}"]) == 2
    assert "a has setups 1, 2; b has setups 3, 4" in capsys.readouterr().err


def test_a_launch_without_a_number_is_told_and_does_not_pass(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "before", {1024: 10.0})
    for name in ("a", "b", "c"):
        record = record_of({1024: 5.0}, name=name)
        if name == "c":
            died = replace(record.results[0], status=Status.FAILED, time_ns=None, error="hung")
            record = replace(record, results=(died,))
        write_record(create(home, name), record)
    code, text = compare(capsys, "before", "after=a,b,c", "--launch-spread", "5%", "--gate")
    assert code == 3
    assert "FASTER: after: 1 of 3 launches have no number" in text


def test_two_published_means_are_ambiguous_not_similar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = []
    for name, (out, within) in NCCL_TESTS_ROWS.items():
        side = "  {:>7}   13.05   {:>5}      0"
        sides = [side.format(time, f"{25 * MiB / time / 1e3 * 1.875:.2f}") for time in (out, within)]
        algbw = [f"{25 * MiB / time / 1e3:.2f}" for time in (out, within)]
        sides = [text.replace("13.05", value) for text, value in zip(sides, algbw, strict=True)]
        heading = nccl_tests_log({MiB: 1.0}, 16, devices=False).splitlines()[1:4]
        row = f"{25 * MiB:>12}  {25 * MiB // 4:>12}     float     sum      -1{''.join(sides)}"
        logs.append(write(tmp_path / f"{name}.log", "\n".join([*heading, row, "#"]) + "\n"))
    code, text = compare(capsys, *logs)
    assert code == 0
    assert text.count("AMBIGUOUS: single observation, no interval") == 2
    assert "SAME" not in text.replace("SAME: within", "")
    assert compare(capsys, *logs, "--gate")[0] == 3


def test_gate_follows_the_verdicts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05, 99.95, 100.0]
    stored(home, "before", {1024: steady, 2048: steady})
    stored(home, "same", {1024: steady, 2048: steady})
    stored(home, "slower", {1024: [1.5 * time for time in steady], 2048: steady})
    stored(home, "single", {1024: 100.0, 2048: 100.0})
    known = ("--launch-spread", "0.5%")
    code, text = compare(capsys, "before", "same", "--gate", *known)
    assert (code, "2 SAME" in text) == (0, True)
    code, text = compare(capsys, "before", "slower", "--gate", *known)
    assert code == 1
    assert "SLOWER" in text
    # Not in turn, and nobody says how launches differ.
    assert compare(capsys, "before", "slower", "--gate")[0] == 3
    assert compare(capsys, "before", "single", "--gate")[0] == 3
    assert compare(capsys, "before", "slower", *known)[0] == 0
    assert compare(capsys, "before", "slower", "--baseline", "slower", *known)[1].count("FASTER") >= 2


def test_a_gate_does_not_pass_what_was_not_compared(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = ("--gate", "--launch-spread", "0.5%")
    steady = [100.0, 100.1, 99.9, 100.0]
    stored(home, "before", {1024: steady})
    stored(home, "other", {2048: steady})
    stored(home, "more", {1024: steady, 2048: steady})
    code, text = compare(capsys, "before", "other", *known)
    assert (code, "# 2 MISSING" in text) == (3, True)
    assert compare(capsys, "before", "more", *known)[0] == 3
    assert compare(capsys, "before", "before", *known)[0] == 0
    broken = replace(record_of({1024: 1.0}, name="broken"), results=(), status=RunStatus.FAILED, error="died")
    write_record(create(home, "broken"), broken)
    assert compare(capsys, "broken", "before", *known)[0] == 3
    assert compare(capsys, "before", "broken", *known)[0] == 1


def test_csv_has_a_line_a_row(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "a", {1024: 10.0, 2048: 20.0})
    stored(home, "b", {1024: 10.0, 2048: 10.0})
    rows = list(csv.DictReader(io.StringIO(compare(capsys, "a", "b", "--format", "csv")[1])))
    assert [(row["size_bytes"], float(row["speedup"]), row["verdict"]) for row in rows] == [
        ("1024", 1.0, "AMBIGUOUS"),
        ("2048", 2.0, "AMBIGUOUS"),
    ]


def test_several_logs_make_an_arm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"old": [], "new": []}
    for arm, busbw in (("old", 10.0), ("new", 14.0)):
        for index in range(6):
            log = nccl_tests_log({MiB: busbw * (1 + 0.001 * index)}, 8)
            names[arm].append(str(write(tmp_path / arm / f"{index}.log", log)))
    words = [f"{arm}={','.join(paths)}" for arm, paths in names.items()]
    code, text = compare(capsys, *words)
    assert code == 0
    assert "# 2 AMBIGUOUS" in text  # whenever the logs were made: nobody says that it was in turn
    known = ("--launch-spread", "2%")
    assert "# 2 FASTER" in compare(capsys, *words, *known)[1]
    assert "# 2 FASTER" in compare(capsys, tmp_path / "old", tmp_path / "new", *known)[1]


def test_curves_of_three_worlds_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GB200: one rack and twenty (coreweave/nccl-tests 7c12c62), 8 GiB."""
    for ranks, busbw in ((72, 834.57), (128, 793.07), (1440, 381.48)):
        write(tmp_path / "logs" / f"{ranks}.log", nccl_tests_log({8 * GiB: busbw}, ranks))
    code, text = compare(capsys, tmp_path / "logs", "--scaling", "--format", "csv")
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["placement"] == "out-of-place"]
    assert code == 0
    assert [(int(row["ranks"]), int(row["nodes"])) for row in rows] == [(72, 18), (128, 32), (1440, 360)]
    assert float(rows[2]["busbw_gb_per_s"]) / float(rows[0]["busbw_gb_per_s"]) == pytest.approx(
        0.457, abs=0.001
    )
    # They are not one comparison.
    code = main(["compare", *(str(tmp_path / "logs" / f"{ranks}.log") for ranks in (72, 1440))])
    assert code == 2
    err = capsys.readouterr().err
    assert "has 72 ranks" in err
    assert "hint: add --scaling" in err


def test_a_folder_of_setups_has_a_curve_for_each(alcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = compare(capsys, alcf, "--scaling", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
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


def in_series(home: Path, nodes: tuple[int, ...]) -> Path:
    """A series of two setups on several numbers of nodes; the second fails on the largest."""

    def start(setup: Setup, many: int, folder: Path, hear: object) -> ExitCode:
        if setup.name == "other" and many == nodes[-1]:
            raise SiteError("no such queue")
        write_record(folder, record_of({1024: 10.0 * many}, ranks=2 * many, hosts=many, name=folder.name))
        return ExitCode.OK

    home.mkdir(exist_ok=True)
    return measure((Setup("plain"), Setup("other")), 2, 7, nodes, {}, start, io.StringIO()).folder


def test_a_series_on_several_numbers_of_nodes_scales(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = in_series(home, (2, 4, 8))
    code, text = compare(capsys, folder, "--scaling", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert code == 0
    assert [(row["setup"], row["nodes"], row["runs"], row["failed"]) for row in rows] == [
        ("other", "2", "2", "0"),
        ("other", "4", "2", "0"),
        ("plain", "2", "2", "0"),
        ("plain", "4", "2", "0"),
        ("plain", "8", "2", "0"),
        ("other", "8", "0", "2"),  # came to no operation
    ]
    assert main(["compare", str(folder / "launches"), "--scaling"]) == 2
    err = capsys.readouterr().err
    assert "nothing in " in err
    assert f"name the series itself: {folder}" in err
    assert main(["expect", str(folder), "--least", "1K=1"]) == 2
    assert f"name one of {folder / 'launches'}/*" in capsys.readouterr().err


def test_rows_of_several_numbers_of_nodes_are_told_apart(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader(io.StringIO(compare(capsys, in_series(home, (2, 4)), "--format", "csv")[1])))
    told = [(row["nodes"], row["ranks"], row["baseline"], row["version"]) for row in rows]
    assert told == [("2", "4", "plain", "MPI 5.0.2"), ("4", "8", "plain", "")]


def test_trees_of_several_versions_are_told_apart(alcf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(compare(capsys, alcf, "--format", "csv")[1])))
    found = {
        (row["nodes"], number)
        for row in rows
        for number in ("2.18", "2.21")
        if number in row["version"] and number in row["baseline_version"]
    }
    assert found == {("2", "2.18"), ("8", "2.18"), ("8", "2.21")}


def test_a_log_with_wrong_data_is_no_launch_to_leave_out(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "before", {1024: 10.0})
    for name in ("a", "b", "c"):
        record = record_of({1024: 5.0}, name=name)
        if name == "c":
            record = replace(record, results=(replace(record.results[0], status=Status.WRONG, wrong=4),))
        write_record(create(home, name), record)
    code, text = compare(capsys, "before", "after=a,b,c", "--launch-spread", "1%", "--gate")
    assert code == 1
    assert "FAILED: wrong data in 1 of 3 launches: 4 wrong elements" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--delta", "150%"), "'150%' is not between 0 and 1"),
        (("--false-discoveries", "2"), "'2' is not between 0 and 1"),
        (("--export-setup", "zz", "--save-env", "e"), "no setup 'zz'"),
    ],
)
def test_what_verdicts_cannot_use_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    spec = write(tmp_path / "setups.yaml", "setups: {a: {}, b: {}}")
    assert main(["compare", str(spec), "--ops", "all_reduce", "--ranks", "2", "--dry-run", *words]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert "block" not in told.out


def test_rows_that_were_left_out_of_a_log_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that contradicts its footer is not among the cases, and was lost without a word."""
    good = nccl_tests_log({8 * MiB: 100.0, 16 * MiB: 110.0, 32 * MiB: 120.0}, 16)
    was, is_now = "58.67  110.00      0\n", "58.67  110.00      9\n"
    logs = [write(tmp_path / "good.log", good), write(tmp_path / "bad.log", good.replace(was, is_now))]
    assert is_now in logs[1].read_text()
    _, text = compare(capsys, *logs)
    assert "bad.log, line 22: left out: " in text
    assert main(["expect", str(logs[0]), "--least", "8M=50"]) == 0
    capsys.readouterr()
    assert main(["expect", str(logs[1]), "--least", "8M=50"]) == 3  # a size is not judged
    assert "bad.log, line 22: left out: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to compare"),
        (("a",), "nothing to compare with"),
        (("a", "nobody"), "no run 'nobody'"),
        (("a", "b", "-b", "8"), "--minbytes=8 is for measuring setups"),
        (("a", "b", "--ops", "all_reduce"), "--ops is for measuring setups"),
        (("a", "b", "--blocks", "3"), "--blocks is for measuring setups"),
        (("a", "b", "--order-seed", "3"), "--order-seed is for measuring setups"),
        (("a", "b", "--launch-timeout", "3s"), "--launch-timeout is for measuring setups"),
        (("a", "b", "--save-env", "x.env"), "--save-env and --export-setup are for series of setups"),
        (("a", "b", "--baseline", "z"), "no 'z' to be the baseline"),
        (("a", "b", "--delta", "2"), "is not between 0 and 1"),
        (("a", "b", "--format", "jsonl"), "--format jsonl"),
        (("a", "none.yaml"), "is compared alone"),
        (("none.yaml",), "cannot read none.yaml"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    home: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(home, "a", {1024: 10.0})
    stored(home, "b", {1024: 10.0})
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("launch", "nodes"),
    [
        ({}, ()),
        ({"on": "slurm", "nodes": "4,2"}, (2, 4)),
        ({"on": "hosts", "hosts": "a,u@b:2,a"}, (2,)),
        ({"on": "hosts", "hosts": "a,b,c", "nodes": "2"}, (2,)),
    ],
)
def test_a_series_says_on_how_many_nodes_it_is(launch: dict[str, Any], nodes: tuple[int, ...]) -> None:
    assert compare_setups._node_counts(LaunchSettings(**launch)) == nodes


def test_a_log_that_is_there_twice_is_one_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "x.log", nccl_tests_log({2**20: 30.0}, 8))
    copy = write(tmp_path / "copy" / "y.log", log.read_text())
    other = write(tmp_path / "z.log", nccl_tests_log({2**20: 33.0}, 8))
    assert main(["compare", f"A={log},{log},{copy}", f"B={other}", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert {row["baseline_launches"] for row in json.loads(out)["rows"]} == {1}
    assert err.count("again: one launch") == 2
    assert main(["compare", f"A={log},{copy}", "--scaling", "--format", "json"]) == 0
    assert {row["runs"] for row in json.loads(capsys.readouterr().out)["rows"]} == {1}
    for words, runs in (((log, copy), {1}), ((log, other, copy), {2}), ((f"A={log}", f"B={copy}"), {1})):
        assert main(["compare", *map(str, words), "--scaling", "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert {row["runs"] for row in json.loads(out)["rows"]} == runs
        assert ("again: one launch" in err) == (words[-1] == copy)


def test_a_series_that_is_named_twice_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(in_series(home, (2, 4)))
    for more in ((), ("--scaling",)):
        assert main(["compare", folder, folder, *more]) == 2
        assert "once more: its blocks count once" in capsys.readouterr().err


def test_a_launch_timeout_of_0_is_none() -> None:
    limit = compare_setups._limit_seconds
    assert limit(CompareSettings(launch_timeout="0"), LaunchSettings()) is None
    assert limit(CompareSettings(launch_timeout="25s"), LaunchSettings()) == 25
