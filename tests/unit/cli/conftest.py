"""What tests of commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import FOREIGN

from busbw.cli.main import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands keep and look for runs: nowhere but here."""
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Calls a command that starts no rank, in this process: (exit code, stdout, stderr)."""
    for name in os.environ:
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)

    def call(home: Path, *words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("BUSBW_HOME", str(home))
        capsys.readouterr()
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call
