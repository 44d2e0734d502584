"""``busbw import``: from files to run folders, with the exit codes that scripts rely on."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.main import main
from busbw.record.folder import find_run, run_folders
from busbw.record.read import read_record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_a_log_becomes_a_run_that_show_prints(
    home: Path, tmp_path: Path, published_by_name: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(published_by_name["GB200 two racks labelled 144"].text())
    assert main(["import", str(log), "--system", "gb200", "--setup", "2"]) == 0
    out = capsys.readouterr().out
    assert "all_reduce        128      12  512 MiB to 16 GiB" in out
    assert f"{log}:4: mislabelled: the header says 144 ranks, but the rows fit 128 only" in out
    assert f"# 1 imported, 1 findings saved in {home}" in out
    record = read_record(find_run("last", home))
    assert record.source is not None
    assert record.source.labels == {"system": "gb200", "setup": "2"}
    assert record.source.path == str(log)
    assert len(record.source.sha256) == 64
    assert main(["show", "last"]) == 0
    assert "17179869184   4294967296     float    sum    -1      42067" in capsys.readouterr().out


def test_a_tree_imports_in_one_command(
    home: Path, tmp_path: Path, published_by_name: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for setup, name in (("1", "p4de 2x8"), ("5", "p4de 25 MiB")):
        folder = tmp_path / "results_polaris" / "nccl_2.18" / "n4.g4" / "2024-01-05-10-11-12"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"all_reduce_perf_output.dat.{setup}").write_text(published_by_name[name].text())
        (folder / f"env.dat.{setup}").write_text("PATH=/bin\n")
    (folder / "all_reduce_perf_output.dat.3").write_text("aprun: no free PMI port\n")
    (folder / "alltoall_perf_output.dat.2").write_text(
        "# Collective test starting: alltoall_perf\nCXI alloc failed\n"
    )
    assert main(["import", str(tmp_path)]) == 0
    assert "# 4 imported, 3 findings" in capsys.readouterr().out
    records = [read_record(folder) for folder in run_folders(home)]
    by_setup = {record.source.labels["setup"]: record for record in records if record.source}
    assert sorted(by_setup) == ["1", "2", "3", "5"]
    assert [by_setup[setup].status.value for setup in "1235"] == ["complete", "failed", "failed", "complete"]
    assert by_setup["3"].error == "the log has no rows; it ends with: aprun: no free PMI port"
    assert all(record.source.labels["version"] == "2.18" for record in records if record.source)


def test_dry_run_writes_nothing(home: Path, tmp_path: Path, published_by_name: dict[str, Any]) -> None:
    log = tmp_path / "a.log"
    log.write_text(published_by_name["GB200 one rack"].text())
    assert main(["import", str(log), "--dry-run"]) == 0
    assert not home.exists()


def test_one_of_several_tables(
    home: Path, tmp_path: Path, published_by_name: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(published_by_name[name].text() for name in ("GB200 one rack", "p4de 25 MiB")))
    assert main(["import", str(log), "--table", "2"]) == 0
    assert " 16       2  25 MiB" in capsys.readouterr().out
    assert len(run_folders(home)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no log given"),
        (["{tmp}/none.log"], "there is no file"),
        (["{tmp}/notes.txt"], "no table of a known tool"),
        (["{tmp}/notes.txt", "--labels", "{{"], "not a pattern"),
        (["{tmp}/notes.txt", "--table", "x"], "not table numbers"),
        (["{tmp}/notes.txt", "--format", "csv"], "csv"),
        (["{tmp}/notes.txt", "--rank", "2"], "unknown flag '--rank'"),
    ],
)
def test_requests_that_are_wrong(
    arguments: list[str], message: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("nothing here\n")
    assert main(["import", *(word.format(tmp=tmp_path) for word in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_undecided_logs_say_what_to_give(
    home: Path,
    tmp_path: Path,
    new_heading: str,
    row_text: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "a.log"
    row = row_text("1048576 262144 float none 0 100.0 10.49 10.49 0 100.0 10.49 10.49 0")
    log.write_text(f"{new_heading}{row}\n")
    assert main(["import", str(log)]) == 3
    assert "hint: give --ranks N" in capsys.readouterr().err
    assert main(["import", str(log), "--ranks", "8"]) == 0
    assert not any(folder.name.endswith("-import") for folder in run_folders(home))


def test_a_format_is_forced(
    home: Path, tmp_path: Path, published_by_name: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(published_by_name["GB200 one rack"].text())
    assert main(["import", str(log), "--format", "osu"]) == 2
    assert main(["import", str(log), "--format", "rccl-tests"]) == 0
    assert "rccl-tests all_reduce" in capsys.readouterr().out
    record = read_record(find_run("last", home))
    assert (record.source.tool, record.plan.backend) == ("rccl-tests", "rccl")


def test_show_says_where_an_imported_run_comes_from(
    home: Path, tmp_path: Path, published_by_name: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(published_by_name["p4de 25 MiB"].text())
    assert main(["import", str(log)]) == 0
    capsys.readouterr()
    assert main(["show", "last"]) == 0
    head = capsys.readouterr().out.splitlines()
    assert head[0].endswith(f": imported from {log}, lines 3 to 7")
    assert head[1] == "# tool     nccl-tests, NCCL"
    assert head[2] == "# ranks    16, by rows (16 fit the rows)"
    assert head[3].startswith("# time     mean over the timed calls")
    assert not any(words in line for line in head for words in ("nothing is timed", "not stated)", "16 on 1"))


def test_every_table_has_a_folder_of_its_own(
    tmp_path: Path, nccl_table: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    names = iter(["a", "a", "b", "b", "c"])  # two bytes of chance are few for thousands in a second
    monkeypatch.setattr("busbw.cli.import_logs.new_run_id", lambda collective: next(names))
    path = tmp_path / "log"
    path.write_text("".join(map(nccl_table, range(3))))
    assert main(["import", str(path)]) == 0
    folders = run_folders(tmp_path / "runs")
    assert sorted(folder.name for folder in folders) == ["a", "b", "c"]
    for folder in folders:
        record = read_record(folder)
        assert (record.run_id, len(record.results)) == (folder.name, 2 * 29)
        assert json.loads((folder / "run.json").read_text()) == json.loads(json.dumps(asdict(record)))
