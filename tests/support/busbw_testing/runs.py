"""busbw as a user calls it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

from busbw_testing.environ import LAUNCHERS, clean_environ

NULL: Final = ("--backend", "null", "--world", "nccl", "--ranks", "2")


def start(
    home: Path, *words: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with its runs in ``home``. Its ranks are processes; the command line is
    called in this one, whose imports are there already. Beside a launcher's variables it would become a rank,
    which blocks signals and watches its process: then it gets one of its own.
    """
    if any(name.startswith(LAUNCHERS) for name in variables):
        return start_process(home, *words, cwd=cwd, **variables)
    from busbw.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        _as_process(words, clean_environ(BUSBW_HOME=str(home), **variables)),
        chdir(cwd or Path.cwd()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main(list(words))
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(["busbw", *words], code, *texts)


def start_process(
    home: Path, *words: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "busbw", *words],
        env=clean_environ(BUSBW_HOME=str(home), **variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def _as_process(words: tuple[str, ...], variables: dict[str, str]) -> Iterator[None]:
    """The words, environment and empty standard input that a process of its own would have."""
    before, argv, stdin = dict(os.environ), sys.argv, sys.stdin
    os.environ.clear()
    os.environ.update(variables)
    sys.argv, sys.stdin = ["busbw", *words], io.StringIO()
    try:
        yield
    finally:
        sys.argv, sys.stdin = argv, stdin
        os.environ.clear()
        os.environ.update(before)
