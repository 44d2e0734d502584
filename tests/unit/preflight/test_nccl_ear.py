"""NCCL's part is played by a plain C-like write to the file that its variables name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.worker.nccl_ear import NcclEar

LINE = "h1:1:2 [0] NCCL INFO Using network Socket\n"
WARN = "h1:1:2 [0] a.cc:1 NCCL WARN no good\n"


def write_as_nccl(environ: dict[str, str], text: str) -> None:
    """As debug.cc: only with a level, into the file, which it opens for writing."""
    if environ.get("NCCL_DEBUG", "") in ("INFO", "TRACE"):
        with open(environ["NCCL_DEBUG_FILE"], "w") as file:  # noqa: PTH123
            file.write(text)


def test_it_hears_and_puts_everything_back() -> None:
    environ: dict[str, str] = {"NCCL_ALGO": "Ring"}
    ear = NcclEar(environ)
    assert environ["NCCL_DEBUG"] == "INFO"
    assert "TUNING" not in environ["NCCL_DEBUG_SUBSYS"]  # a line for every call
    write_as_nccl(environ, LINE)
    assert ear.lines() == [LINE.rstrip()]
    assert environ == {"NCCL_ALGO": "Ring"}


def test_nothing_is_printed_that_the_user_did_not_ask_for(capfd: pytest.CaptureFixture[str]) -> None:
    environ: dict[str, str] = {}
    ear = NcclEar(environ)
    write_as_nccl(environ, LINE + WARN)
    assert len(ear.lines()) == 2
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, ("INIT", "ENV", "NET")),
        ({"NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "COLL"}, ("INIT", "ENV", "NET")),
        ({"NCCL_DEBUG": "info"}, ("INIT", "ENV")),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL,TUNING"}, ("TUNING",)),
    ],
)
def test_it_knows_what_the_log_holds(environ: dict[str, str], told: tuple[str, ...]) -> None:
    ear = NcclEar(environ)
    assert ear.told == told
    ear.lines()


@pytest.mark.parametrize(
    ("level", "shown"), [("INFO", LINE + WARN), ("trace", LINE + WARN), ("WARN", WARN), ("VERSION", "")]
)
def test_the_users_own_log_is_passed_on(level: str, shown: str, capfd: pytest.CaptureFixture[str]) -> None:
    environ = {"NCCL_DEBUG": level}
    ear = NcclEar(environ)
    if level == "trace":
        assert environ["NCCL_DEBUG"] == "trace"
        environ["NCCL_DEBUG"] = "TRACE"  # NCCL reads it in any case
    write_as_nccl(environ, LINE + WARN)
    assert len(ear.lines()) == 2
    assert capfd.readouterr().out == shown


def test_a_file_of_the_users_own_is_read_and_left(tmp_path: Path) -> None:
    environ = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(tmp_path / "log-%p-100%%")}
    before = dict(environ)
    ear = NcclEar(environ)
    assert environ == before
    (tmp_path / f"log-{os.getpid()}-100%").write_text(LINE)
    assert ear.lines() == [LINE.rstrip()]


@pytest.mark.parametrize("name", ["/dev/stderr", "/no/such/file"])
def test_a_terminal_or_nothing_is_not_waited_for(name: str) -> None:
    assert NcclEar({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": name}).lines() == []


def test_a_file_without_a_level_is_not_used_by_nccl(tmp_path: Path) -> None:
    environ = {"NCCL_DEBUG_FILE": str(tmp_path / "log")}
    ear = NcclEar(environ)
    write_as_nccl(environ, LINE)
    assert ear.lines() == [LINE.rstrip()]
    assert environ == {"NCCL_DEBUG_FILE": str(tmp_path / "log")}
    assert list(tmp_path.iterdir()) == []


# As much as a pipe holds, and more: a writer in C that nobody drains would stand still for ever.
FLOOD = """
import ctypes, os, sys
from busbw.worker.nccl_ear import NcclEar
ear = NcclEar(os.environ)
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(os.environ["NCCL_DEBUG_FILE"].encode(), b"w"))
for number in range(20000):
    libc.fprintf(file, b"h:1:2 [0] NCCL INFO line %d\\n", number)
libc.fflush(file)
print(len(ear.lines()))
for number in range(20000):
    libc.fprintf(file, b"h:1:2 [0] NCCL INFO late %d\\n", number)
libc.fflush(file)
print("over")
"""


def test_a_writer_in_c_never_finds_the_pipe_full() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", FLOOD],
        env={name: value for name, value in os.environ.items() if not name.startswith("NCCL_")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["20000", "over"]


def test_warnings_go_to_the_file_that_the_user_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """NCCL opens it from WARN on."""
    environ = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": str(tmp_path / "mine.%p.log")}
    before = dict(environ)
    ear = NcclEar(environ)
    write_as_nccl(environ, LINE + WARN)
    assert len(ear.lines()) == 2
    assert environ == before
    assert (tmp_path / f"mine.{os.getpid()}.log").read_text() == WARN
    assert capfd.readouterr().out == ""
