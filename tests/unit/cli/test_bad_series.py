"""The file of a series that somebody has changed: refused with the key that is wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw.cli.main import main
from busbw.errors import ExitCode
from busbw.planning.setups import Setup
from busbw.record.write import write_record
from busbw.setup_series import measure


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two setups in two blocks."""
    home = tmp_path / "home"
    monkeypatch.setenv("BUSBW_HOME", str(home))
    home.mkdir()

    def start(setup: Setup, many: int, folder: Path, hear: object) -> ExitCode:
        write_record(folder, record_of({1024: 10.0}, name=folder.name))
        return ExitCode.OK

    return measure((Setup("plain"), Setup("other")), 2, 7, (), {}, start, io.StringIO()).folder


CHANGES = [
    (lambda body: body.pop("order"), "order: field required"),
    (lambda body: body.update(order=3), "order: input should be a valid array"),
    (lambda body: body.update(setups=[]), "setups has no setup"),
    (lambda body: body["setups"].append(body["setups"][0]), "setups has no setup, or one twice"),
    (lambda body: body["setups"][0].update(environ=["A"]), "setups[0].environ: input should be an object"),
    (lambda body: body.update(nodes=[]), "nodes is []"),
    (lambda body: body.update(environ=None), "environ: input should be an object"),
    (lambda body: body.update(stopped=3), "stopped: input should be a valid string"),
    (lambda body: body.update(more=3), "more is an unknown key"),
    (lambda body: body["order"][1].append("zz"), "order[1] has 'zz', which is no setup"),
    (lambda body: body["outcomes"][0].update(setup="zz"), "outcomes[0].setup is 'zz', which is no setup"),
    (lambda body: body["outcomes"][0].update(seconds=float("nan")), "outcomes[0].seconds is nan"),
    (lambda body: body["outcomes"][0].update(seconds="x"), "outcomes[0].seconds: input should be a valid"),
    (lambda body: body["outcomes"][0].update(block=9), "outcomes[0].block is 9 of 2"),
    (lambda body: body["outcomes"][0].update(nodes=9), "outcomes[0].nodes is 9, and nodes is [0]"),
    (lambda body: body["outcomes"][0].update(folder="a\0b"), "outcomes[0].folder is 'a"),
    (lambda body: body["outcomes"][0].update(folder="../../x"), "outcomes[0].folder is '../../x'"),
    (lambda body: body["outcomes"][0].update(words=3), "outcomes[0].words: input should be a valid array"),
    (lambda body: body.update(schema=99), "is of another busbw"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_a_changed_series_is_refused(
    series: Path, change: Callable[[dict[str, Any]], Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(series)]) == 0
    path = series / "setups.json"
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))
    for words in (["compare"], ["compare", "--scaling"]):
        assert main([*words, str(series)]) == 2
        err = capsys.readouterr().err
        assert f"error: {path}" in err
        assert why in err


@pytest.mark.parametrize("text", ["", "[" * 5000, "[1]", "\udcff"])
def test_what_is_no_series_is_refused(series: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (series / "setups.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["compare", str(series)]) == 2
    assert f"{series / 'setups.json'}" in capsys.readouterr().err
