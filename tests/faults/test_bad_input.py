"""Words that mean nothing: one error with a hint, exit code 2, and no rank was started for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("operands", "error", "hint"),
    [
        (["all_redduce"], "unknown operation 'all_redduce'", "use one of: all_reduce, all_gather, "),
        ([], "no operation given", "name one or more of"),
        (["all_reduce", "-d", "quad"], "unknown type 'quad'", "use one of: int8"),
        (["all_reduce", "-o", "mean"], "unknown reduction 'mean'", "use one of: sum"),
        (["all_reduce", "-b", "8X"], "-b: not a size: '8X'", "write bytes, or a number with K, M or G"),
        (["all_reduce", "-e", "4KB"], "ambiguous size: '4KB'", "4KiB"),
        (
            ["all_reduce", "-b", "1M", "-e", "8"],
            "the first size (1 MiB) is larger than the last (8 B)",
            "-b <= -e",
        ),
        (["all_reduce", "--ranks", "0"], "--ranks 0 is too small", "give 1 or more"),
        (["all_reduce", "-n", "-1"], "-n -1 is too small", "give 0 or more"),
        (["all_reduce", "-n", "many"], 'unable to convert "many" into int', "--help"),
        (["all_reduce", "--frobnicate"], "Unknown option: --frobnicate", "--help"),
        (["all_reduce", "--ranks", "2", "-r", "5"], "root 5 is not a rank of 0..1", "-r"),
        (["all_reduce", "--world", "solo", "--ranks", "2"], "--world solo has one rank, not 2", "--ranks 1"),
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
