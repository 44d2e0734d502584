"""``busbw import``: from files to run folders, with the exit codes that scripts rely on."""

import gzip
import io
import json
import lzma
import os
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest
from busbw_testing.logs import NEW_HEADING, PUBLISHED, TOOL_TABLES, Command, format_row, kinds, nccl_table

from busbw.cli.main import main
from busbw.foreign.read_any import read_file
from busbw.record.folder import find_run, run_folders
from busbw.record.read import read_record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_text(PUBLISHED["GB200 one rack"].text())
    return path


def test_a_log_becomes_a_run_that_show_prints(home: Path, log: Path, command: Command) -> None:
    log.write_text(PUBLISHED["GB200 two racks labelled 144"].text())
    code, out, _ = command("import", log, "--system", "gb200", "--setup", "2")
    assert code == 0
    assert "all_reduce        128      12  512 MiB to 16 GiB" in out
    assert f"{log}:4: mislabelled: the header says 144 ranks, but the rows fit 128 only" in out
    assert f"# 1 imported, 1 findings saved in {home}" in out
    source = read_record(find_run("last", home)).source
    assert source.labels == {"system": "gb200", "setup": "2"}
    assert (source.path, len(source.sha256)) == (str(log), 64)
    assert "17179869184   4294967296     float    sum    -1      42067" in command("show", "last")[1]


def test_show_says_where_an_imported_run_comes_from(log: Path, command: Command) -> None:
    log.write_text(PUBLISHED["p4de 25 MiB"].text())
    command("import", log)
    head = command("show", "last")[1].splitlines()
    assert head[0].endswith(f": imported from {log}, lines 3 to 7")
    assert head[1] == "# tool     nccl-tests, NCCL"
    assert head[2] == "# ranks    16, by rows (16 fit the rows)"
    assert head[3].startswith("# time     mean over the timed calls")
    assert not any(words in line for line in head for words in ("nothing is timed", "not stated)", "16 on 1"))


def test_a_tree_imports_in_one_command(home: Path, tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "results_polaris" / "nccl_2.18" / "n4.g4" / "2024-01-05-10-11-12"
    folder.mkdir(parents=True)
    for setup, name in (("1", "p4de 2x8"), ("5", "p4de 25 MiB")):
        (folder / f"all_reduce_perf_output.dat.{setup}").write_text(PUBLISHED[name].text())
        (folder / f"env.dat.{setup}").write_text("PATH=/bin\n")
    (folder / "all_reduce_perf_output.dat.3").write_text("aprun: no free PMI port\n")
    (folder / "alltoall_perf_output.dat.2").write_text(
        "# Collective test starting: alltoall_perf\nCXI alloc failed\n"
    )
    code, out, _ = command("import", tmp_path)
    assert (code, "# 4 imported, 3 findings" in out) == (0, True)
    records = [read_record(folder) for folder in run_folders(home)]
    by_setup = {record.source.labels["setup"]: record for record in records}
    assert sorted(by_setup) == ["1", "2", "3", "5"]
    assert [by_setup[setup].status.value for setup in "1235"] == ["complete", "failed", "failed", "complete"]
    assert by_setup["3"].error == "the log has no rows; it ends with: aprun: no free PMI port"
    assert {record.source.labels["version"] for record in records} == {"2.18"}


def test_dry_run_writes_nothing(home: Path, log: Path, command: Command) -> None:
    assert command("import", log, "--dry-run")[0] == 0
    assert not home.exists()


def test_one_of_several_tables(home: Path, log: Path, command: Command) -> None:
    log.write_text(log.read_text() + PUBLISHED["p4de 25 MiB"].text())
    code, out, _ = command("import", log, "--table", "2")
    assert (code, " 16       2  25 MiB" in out) == (0, True)
    assert len(run_folders(home)) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "no log given"),
        (["{tmp}/none.log"], "there is no file"),
        (["{tmp}/notes.txt"], "no table of a known tool"),
        (["{tmp}/notes.txt", "--labels", "{{"], "not a pattern"),
        (["{tmp}/notes.txt", "--table", "x"], "not table numbers"),
        (["{tmp}/notes.txt", "--rank", "2"], "unknown flag '--rank'"),
        (["{tmp}/a.log", "--ranks", "0"], "error: --ranks 0 is too small\nhint: give 1 or more"),
        (["{tmp}/a.log", "--table", "7"], "a.log: it has 1 table, but --table is 7"),
        (["{tmp}/a.log", "--format", "osu"], "error: no table of osu in "),
    ],
)
def test_requests_that_are_wrong(
    arguments: list[str], error: str, home: Path, log: Path, command: Command
) -> None:
    log.with_name("notes.txt").write_text("nothing here\n")
    code, _, err = command("import", *(word.format(tmp=log.parent) for word in arguments))
    assert (code, error in err) == (2, True)
    assert not home.exists()


def test_undecided_logs_say_what_to_give(home: Path, log: Path, command: Command) -> None:
    row = format_row("1048576 262144 float none 0" + 2 * " 100.0 10.49 10.49 0")
    log.write_text(f"{NEW_HEADING}{row}\n")
    code, _, err = command("import", log)
    assert (code, "hint: give --ranks N" in err) == (3, True)
    assert command("import", log, "--ranks", "8")[0] == 0
    assert not any(folder.name.endswith("-import") for folder in run_folders(home))


def test_what_cannot_be_told_comes_with_its_findings(log: Path, command: Command) -> None:
    log.write_text(TOOL_TABLES["imb"](1) + TOOL_TABLES["osu"](1) + "1048576    12.5    7\n")
    code, out, err = command("import", log)
    assert code == 3
    assert f"error: {log}: table 2: cannot determine the number of ranks of the table in line" in err
    assert "damaged: not a whole row (3 of 2 fields)" in out


def test_what_belongs_to_no_table_is_said_in_the_last_record(home: Path, log: Path, command: Command) -> None:
    log.write_text("131072  100  23.60  23.61  23.60\n" + TOOL_TABLES["imb"](1))
    assert command("import", log)[0] == 0
    assert kinds(read_record(find_run("last", home))) == ["no-heading"]


def test_a_format_is_forced(home: Path, log: Path, command: Command) -> None:
    code, out, _ = command("import", log, "--format", "rccl-tests")
    assert (code, "rccl-tests all_reduce" in out) == (0, True)
    record = read_record(find_run("last", home))
    assert (record.source.tool, record.plan.backend) == ("rccl-tests", "rccl")


def test_every_table_has_a_folder_of_its_own(
    home: Path, log: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["a", "a", "b", "b", "c"])  # two bytes of chance are few for thousands in a second
    monkeypatch.setattr("busbw.cli.import_logs.new_run_id", lambda collective: next(names))
    log.write_text("".join(map(nccl_table, range(3))))
    assert command("import", log)[0] == 0
    folders = run_folders(home)
    assert sorted(folder.name for folder in folders) == ["a", "b", "c"]
    for folder in folders:
        record = read_record(folder)
        assert (record.run_id, len(record.results)) == (folder.name, 2 * 29)
        assert json.loads((folder / "run.json").read_text()) == json.loads(json.dumps(asdict(record)))


# ---- files that are packed, piped, or have odd names ---------------------------------------------------


def packed(kind: str, text: bytes) -> bytes:
    if kind == "zip":
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
            file.writestr("a.log", text)
        return buffer.getvalue()
    return lzma.compress(text) if kind == "xz" else b"\x7fELF\x02\x01\x01\0" + text


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("xz", "it is compressed with xz: decompress it, as in `xz -dc FILE | busbw import -`"),
        ("zip", "it is compressed with zip: decompress it, as in `unzip -p FILE | busbw import -`"),
        ("binary", "it is binary, not text"),
    ],
)
def test_what_is_no_text_is_named(kind: str, why: str, log: Path, command: Command) -> None:
    log.write_bytes(packed(kind, log.read_bytes()))
    code, _, err = command("import", log)
    assert (code, f"error: no table of a known tool in {log}: {why}" in err) == (2, True)
    assert read_file(log).origin.sha256 == ""  # files of gigabytes are not read to the end for nothing


def test_compressed_on_standard_input(home: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(log.read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["import", "-"]) == 0
    assert len(run_folders(home)) == 1


def test_a_name_that_no_terminal_prints(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.fsencode(tmp_path) + b"/n\xe9.log"
    with open(path, "w") as file:  # noqa: PTH123 (a name in bytes)
        file.write(nccl_table(1))
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
    monkeypatch.setattr("sys.stdout", printed)
    assert main(["import", str(tmp_path)]) == 0
    printed.seek(0)
    assert "/n\ufffd.log:" in printed.read()
    (folder,) = run_folders(home)
    assert read_record(folder).source.path.encode() == os.fsencode(tmp_path) + b"/n\xef\xbf\xbd.log"
