"""Words that mean nothing: one error with a hint, exit code 2, and no rank was started for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("operands", "error", "hint"),
    [
        (["all_redduce"], "unknown operation 'all_redduce'", "did you mean `busbw run all_reduce"),
        (["all_reduce", "--frobnicate"], "unknown flag '--frobnicate'", "--help"),
        (["all_reduce", "--ranks", "2", "-r", "5"], "root 5 is not one of the ranks 0..1", "-r"),
    ],
)
def test_words(launcher: Any, operands: list[str], error: str, hint: str) -> None:
    done = launcher.run(*operands)
    assert error in done.error
    assert hint in done.hint
    assert (done.code, done.out) == (2, "")
    assert not list(launcher.home.glob("*/run.json"))


def test_a_home_that_cannot_be_written(launcher: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = launcher.run("all_reduce", "--ranks", "1", BUSBW_HOME=str(tmp_path / "file"))
    assert done.error.startswith(f"cannot make the run folder {tmp_path}/file/")
    assert "BUSBW_HOME" in done.hint
    assert done.code == 2
