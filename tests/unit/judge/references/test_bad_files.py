"""Files of references that somebody has changed: named with what is wrong, or left out with a warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import nccl_tests_log, write

from busbw.cli.main import main
from busbw.judge.references import load
from busbw.judge.references.reference import Point

MiB = 2**20
GOOD = replace(
    next(each for each in load.built_in() if each.name == "aws-p4de-2x8"),
    name="good",
    kind="saved",
    points=tuple(
        Point(size, "out-of-place", 40.0, (size / 21.4e3, size / 21.3e3)) for size in (MiB, 2 * MiB)
    ),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    """The file of a good reference after a change of its only entry."""
    body = json.loads(load.dump((GOOD,)))
    change(body["references"][0])
    return json.dumps(body)


def point(*values: object) -> str:
    return changed(lambda entry: entry["points"].__setitem__(1, list(values)))


BAD = [
    ("[" * 5000, "is not JSON: maximum recursion depth exceeded"),
    ("[1]", "is not a JSON object"),
    ('{"schema": 1}', "references is not a list"),
    ('{"schema": 1, "references": [3]}', "references[0].points is not a list"),
    (point(True, "out-of-place", 40.0, [100.0]), "points[1].size_bytes: "),
    (changed(lambda entry: entry.pop("ranks")), "references[0].ranks: field required"),
    (
        changed(lambda entry: entry.update(ranks="many")),
        "references[0].ranks: input should be a valid integer",
    ),
    (changed(lambda entry: entry.update(ranks=2**70)), "references[0].ranks is beyond 64 bits"),
    (changed(lambda entry: entry.update(Date="now")), "references[0].Date is an unknown key"),
    (changed(lambda entry: entry.update(versions=["NCCL"])), "references[0].versions: "),
    (changed(lambda entry: entry.update(operation="all_round")), "all_round"),
    (point(2 * MiB, "out-of-place", 40.0), "references[0].points[1] is not [size_bytes, placement, "),
    (point(2 * MiB, "out-of-place", float("inf"), []), "points[1][2] is inf, which is no number"),
    (point(2 * MiB, "out-of-place", -1.0, []), "points[1].busbw_gb_per_s is -1"),
    (point(2 * MiB, "out-of-place", 40.0, [100.0, 0.0]), "points[1].times_us has 0, not above 0"),
    (
        point(2 * MiB, "out-of-place", 40.0, 100.0),
        "points[1].times_us is 100.0: input should be a valid array",
    ),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_a_named_file_is_refused_with_the_key_that_is_wrong(
    tmp_path: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "run.log", nccl_tests_log({MiB: 40.0}, 16, devices=False))
    bad = write(tmp_path / "bad.json", text)
    assert main(["expect", str(log), "--reference", str(bad)]) == 2
    err = capsys.readouterr().err
    assert f"error: {bad}: " in err or f"error: {bad} " in err
    assert why in err
    assert "hint: " in err


@pytest.mark.parametrize(("text", "why"), BAD[::9])
def test_a_saved_file_is_left_out_with_a_warning(
    tmp_path: Path, home: Path, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load.save((GOOD,), "good", home)
    bad = write(home / "references" / "bad.json", text)
    write(home / "references" / "folder.json" / "x", "")
    assert main(["expect", "--list"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("good: ")
    assert f"warning: this reference cannot be read: {bad}" in err
    assert why in err
    assert err.count("warning: ") == 2
    log = write(tmp_path / "run.log", nccl_tests_log({MiB: 40.0}, 16, devices=False))
    assert main(["expect", str(log), "--reference", "good"]) == 0
    assert main(["expect", str(log), "--reference", "bad"]) == 2
    assert main(["expect", str(log), "--reference", "nobody"]) == 2
    assert f"no reference 'nobody'; left out: {bad}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "a" * 300, "a/" * 3000, "/dev/null"])
def test_what_is_no_name_of_a_reference_is_said(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "run.log", nccl_tests_log({MiB: 40.0}, 16, devices=False))
    assert main(["expect", str(log), "--reference", name]) == 2
    assert f"no reference {name!r}" in capsys.readouterr().err
