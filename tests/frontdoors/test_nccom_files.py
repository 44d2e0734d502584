"""``busbw nccom-test`` with files of JSON that are broken or not there: one refusal each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

BROKEN: Final = (
    "",
    "{",
    "[]",
    "null",
    "7",
    '"text"',
    "{}",
    '{"replica_groups": 3, "src_target_pairs": 3, "metadata": 3, "streams": 3}',
    '{"replica_groups": [[[0, 0]]], "src_target_pairs": [[[0]]], "metadata": [{}], "streams": [7]}',
    '{"replica_groups": [[[0, 9]]], "src_target_pairs": [[[0, 9]]], "metadata": [], "streams": []}',
    '{"replica_groups": [[["a"]]], "src_target_pairs": [[["a", 1]]], "streams": [{"operation": "x"}]}',
    '{"replica_groups": [[[]]], "src_target_pairs": [[]], "metadata": [{"send_counts": [-1, 1]}]}',
    "\u0000\uffff",
)


@pytest.mark.parametrize(
    "words",
    [
        ["allr", "--custom-replica-groups"],
        ["permute", "--custom-src-target-pairs"],
        ["alltoallv", "--alltoallv-metadata"],
        ["allgv", "--variable-size-op-metadata"],
        ["allr", "--streams-json"],
    ],
    ids=lambda words: words[1],
)
@pytest.mark.parametrize("text", BROKEN)
def test_broken_json_files_are_one_refusal(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from busbw.cli.main import main

    path = tmp_path / "broken.json"
    path.write_text(text)
    monkeypatch.setenv("BUSBW_NCCOM_TEST", "none")
    monkeypatch.setenv("BUSBW_BACKEND", "null")
    monkeypatch.setenv("BUSBW_LAUNCHER", "none")
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    assert main(["nccom-test", "-r", "2", "-b", "1kb", "-e", "1kb", *words, str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    lines = [line for line in told.err.splitlines() if not line.startswith("busbw: ")]
    assert len(lines) in (1, 2), told.err
    assert lines[0].startswith("error: ")
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert not (tmp_path / "home").exists()


def test_a_json_file_that_is_not_there(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from busbw.cli.main import main

    monkeypatch.setenv("BUSBW_NCCOM_TEST", "none")
    monkeypatch.setenv("BUSBW_LAUNCHER", "none")
    assert main(["nccom-test", "-r", "2", "allr", "--custom-replica-groups", str(tmp_path / "no.json")]) == 2
    assert "no.json" in capsys.readouterr().err
