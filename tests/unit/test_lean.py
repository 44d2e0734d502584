"""Thousands of ranks start at once: a rank other than 0 loads numpy, its world's library and little else."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.runs import NULL

import busbw

HEAVY = (
    *("altair", "cyclopts", "jinja2", "kubernetes", "mpi4py"),
    *("polars", "pydantic", "rich", "ruamel", "scipy"),
)
OUTSIDE = tuple(f"busbw.{room}" for room in ("api", "judge", "cli", "launch", "report", "plan.flags"))
SOURCE = Path(busbw.__path__[0]).parent

# Runs in every Python that has its folder on the path, and says at exit what was loaded.
SITE_CUSTOMIZE = """
import atexit, json, os, pathlib, sys
def tell():
    path = pathlib.Path(os.environ["TOLD"]) / f"{os.getpid()}.json"
    path.write_text(json.dumps(sorted(sys.modules)))
atexit.register(tell)
"""


def loaded(modules: set[str], names: tuple[str, ...]) -> set[str]:
    return {module for module in modules for name in names if module == name or module.startswith(name + ".")}


def start(tmp_path: Path, words: list[str], **variables: str) -> subprocess.Popen[bytes]:
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    environ = clean_environ(TOLD=str(tmp_path), BUSBW_HOME=str(tmp_path / "home"), **variables)
    environ["PYTHONPATH"] = f"{site}{os.pathsep}{environ['PYTHONPATH']}"
    words = [sys.executable, "-m", "busbw", *words]
    return subprocess.Popen(words, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def modules_of(tmp_path: Path, process: subprocess.Popen[bytes]) -> set[str]:
    process.communicate(timeout=60)
    assert process.returncode == 0
    return set(json.loads((tmp_path / f"{process.pid}.json").read_text()))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def torchrun(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    """What the two ranks of a world loaded that torchrun started."""
    tmp_path = tmp_path_factory.mktemp("torchrun")
    common = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_RUN_ID": secrets.token_hex(8),
        "GROUP_RANK": "0",
    }
    words = ["run", "all_reduce", "-e", "64", "--backend", "null"]
    ranks = [start(tmp_path, words, RANK=str(i), LOCAL_RANK=str(i), **common) for i in range(2)]
    return [modules_of(tmp_path, rank) for rank in ranks]


def test_a_rank_that_torchrun_started_loads_no_command_line(torchrun: list[set[str]]) -> None:
    _, other = torchrun
    assert "busbw.rank.main" in other
    assert loaded(other, HEAVY) == set()
    assert loaded(other, OUTSIDE) == set()


def test_the_test_would_see_them_where_they_are(torchrun: list[set[str]]) -> None:
    first, _ = torchrun
    assert {"cyclopts", "busbw.cli", "busbw.report"} <= loaded(first, (*HEAVY, *OUTSIDE))


def test_ranks_of_our_own_start_load_no_command_line(tmp_path: Path) -> None:
    front = start(tmp_path, ["run", "all_reduce", "-e", "64", *NULL, "--format", "csv"])
    seen_by_front = modules_of(tmp_path, front)
    assert "cyclopts" in seen_by_front
    ranks = [
        set(json.loads(path.read_text())) for path in tmp_path.glob("*.json") if path.stem != str(front.pid)
    ]
    workers = [modules for modules in ranks if "busbw.rank.main" in modules]
    assert len(workers) == 2
    for modules in workers:
        assert loaded(modules, HEAVY) == set()
        assert loaded(modules, OUTSIDE) == set()


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys; before = set(sys.modules); import busbw; print(*sorted(set(sys.modules) - before))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    # -S: an editable installation's import hook (a .pth file) imports modules of its own.
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= {"busbw", "busbw._version", "__future__"}


def test_what_starts_the_ranks_loads_neither_numpy_nor_the_display_before(tmp_path: Path) -> None:
    words = ["run", "all_reduce", "-b", "8", "-e", "8", "--backend", "mpi", "--ranks", "2"]
    modules = modules_of(tmp_path, start(tmp_path, [*words, "--dry-run"]))
    assert not loaded(modules, ("numpy", "polars", "rich.live", "busbw.report.live", "busbw.judge"))


def test_what_pods_bring_loads_no_part_that_judges(tmp_path: Path) -> None:
    """``--bring`` leaves it out."""
    script = (
        "import sys, busbw.cli.run, busbw.rank.entry, busbw.report.live, busbw.launch.here\n"
        "print([name for name in sys.modules if 'busbw.judge' in name])"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"
