"""NCCL's part is played by a plain C-like write to the file that its variables name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.model.finding import Severity
from busbw.rank.nccl_output import NcclDump, NcclEar
from busbw.record.folder import NCCL_FILES, create

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


@pytest.mark.parametrize(
    ("level", "shown"), [("INFO", LINE + WARN), ("trace", LINE + WARN), ("WARN", WARN), ("", "")]
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


# As much as a pipe holds, and more: a writer in C that nobody drains would stand still for ever.
FLOOD = """
import ctypes, os, sys
from busbw.rank.nccl_output import NcclEar
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


MakeSite = Callable[..., Any]


TOPOLOGY, GRAPHS = "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOPOLOGY, GRAPHS):
        monkeypatch.delenv(name, raising=False)


def test_what_rank_0_writes_is_in_the_run_folder(make_site: MakeSite, tmp_path: Path) -> None:
    folder = create(tmp_path / 'it\'s a "home"', "run")
    dump = NcclDump(os.environ, folder)
    make_site(rank=0)
    assert dump.finish() == ()
    topology, graphs = (folder / name for name in NCCL_FILES)
    assert topology.read_text().startswith("<system ")
    assert graphs.read_text().startswith("<graphs ")
    # Communicators that are made later, and the record's environment, know nothing of it.
    assert not {TOPOLOGY, GRAPHS} & os.environ.keys()


def test_the_user_s_own_files_are_written_too(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.xml"
    monkeypatch.setenv(TOPOLOGY, str(own))
    folder = create(tmp_path, "run")
    dump = NcclDump(os.environ, folder)
    make_site(rank=0)
    assert dump.finish() == ()
    assert own.read_text() == (folder / NCCL_FILES[0]).read_text()
    assert (folder / NCCL_FILES[1]).exists()
    assert os.environ[TOPOLOGY] == str(own)
    assert GRAPHS not in os.environ


def test_what_is_not_written_is_a_finding(make_site: MakeSite, tmp_path: Path) -> None:
    """Another rank than 0 writes where NCCL_TOPO_DUMP_FILE_RANK says so."""
    dump = NcclDump(os.environ, create(tmp_path, "run"))
    make_site(rank=1)
    topology, graphs = dump.finish()
    assert topology.severity is Severity.WARNING
    assert topology.claim == (
        "NCCL wrote no nccl-topology.xml (NCCL_TOPO_DUMP_FILE: No such file or directory)"
    )
    assert "NCCL_TOPO_DUMP_FILE_RANK" in topology.hint
    assert "nccl-graphs.xml" in graphs.claim


def test_every_rank_names_a_topology_file_while_it_connects(make_site: MakeSite) -> None:
    """NCCL waits for ever where rank 0 alone does."""
    dump = NcclDump(os.environ, None)
    assert os.environ[TOPOLOGY] == os.devnull
    make_site(rank=1)
    assert dump.finish() == ()
    assert not {TOPOLOGY, GRAPHS} & os.environ.keys()
