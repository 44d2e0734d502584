"""``busbw`` with a run home of its own."""

from pathlib import Path

import pytest
from busbw_testing.logs import Command

from busbw.cli.main import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """``command("show", "last")``: the exit code, and what the command printed."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        code = main(list(map(str, words)))
        return (int(code), *capsys.readouterr())

    return call
