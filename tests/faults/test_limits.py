"""Runs under a shell's limits: what is refused is named, with the limit."""

from __future__ import annotations

import os
from typing import Any

import pytest

RUN = ("run", "all_reduce", "--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "8", "-e", "1K")


def under(launcher: Any, limit: str, *more: str) -> Any:
    """The run in a shell with a limit. A traceback fails the test."""
    words = ("bash", "-c", f'ulimit {limit} && exec "$0" "$@"', *launcher.busbw, *RUN, *more)
    return launcher.start(*words).finish()


@pytest.mark.parametrize(
    ("limit", "code", "file"),
    [("-f 1", 4, "request.json"), ("-f 8", 4, "run.json"), ("-f 64", 5, "samples.bin")],
)
def test_a_file_that_may_not_grow_is_named(launcher: Any, limit: str, code: int, file: str) -> None:
    done = under(launcher, limit, "-n", "2000")
    assert done.code == code
    assert f"{file}: File too large\n" in done.err
    assert "raise `ulimit -f`" in done.err
    assert "Errno" not in done.err


@pytest.mark.parametrize(("limit", "words"), [("-v 400000", ""), ("-n 12", "Too many open files")])
def test_memory_and_files_that_are_short_end_in_no_traceback(launcher: Any, limit: str, words: str) -> None:
    done = under(launcher, limit)
    assert done.code in (0, 4, 5)
    assert words in done.err


def test_a_value_need_not_be_text(launcher: Any) -> None:
    done = launcher.begin(*RUN, "--env", os.fsdecode(b"NCCL_A=a\xff")).finish()
    assert done.code == 0, done.err
    assert launcher.begin("show", "last", "--provenance").finish().code == 0
