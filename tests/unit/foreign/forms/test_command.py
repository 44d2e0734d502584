"""``busbw export``, and that ``busbw import`` reads what it wrote."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from busbw_testing.exported import make
from busbw_testing.logs import Command

from busbw.cli.main import main
from busbw.foreign.forms.formats import ExportFormat
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import Status
from busbw.record.folder import create
from busbw.record.write import write_record

BOTH = (
    (10_000.0, Status.NOT_APPLICABLE),
    (Status.WRONG, 1_000_000.0),
    (Status.FAILED, 12_345_678.0),
    (2_345_678.0, Status.NOT_RUN),
)
SIZES = (2**20, 2**22, 2**24, 2**26)


@pytest.fixture
def stored(home: Path) -> RunRecord:
    """A run with cases of every status."""
    record = make(sizes=SIZES, both=BOTH)
    write_record(create(home, record.run_id), record)
    return record


@pytest.mark.parametrize("name", get_args(ExportFormat))
def test_every_format_goes_to_a_file_and_to_standard_output(
    name: str, stored: RunRecord, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    if name == "parquet":
        pytest.importorskip("polars")
    file = tmp_path / "written"
    assert main(["export", "last", "--format", name, "-o", str(file)]) == 0
    assert capfdbinary.readouterr() == (b"", b"")
    assert main(["export", stored.run_id[:8], "--format", name]) == 0
    assert capfdbinary.readouterr().out == file.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["written"]


def test_the_error_of_a_run_goes_to_standard_error(stored: RunRecord, home: Path, command: Command) -> None:
    write_record(home / stored.run_id, replace(stored, status=RunStatus.FAILED, error="rank 3 died"))
    code, out, err = command("export")
    assert (code, err) == (0, "the run failed: rank 3 died\n")
    assert "# busbw: the run is not complete, its status is failed: rank 3 died" in out
    assert out.endswith("# error: rank 3 died\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no run 'nothing'"),
        (["--format", "xlsx"], "xlsx"),
        (["--op", "gather"], "the run has no gather"),
        (["-o", "/no/such/folder/file"], "cannot write /no/such/folder/file"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(
    stored: RunRecord, words: list[str], message: str, command: Command
) -> None:
    code, out, err = command("export", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_parquet_does_not_go_to_a_terminal(
    stored: RunRecord, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["export", "--format", "parquet"]) == 2
    assert "parquet is not text" in capsys.readouterr().err
