"""A headless Chromium, and reports to open in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.reported import run_folder
from busbw_testing.reported_more import pairs_folder, series
from busbw_testing.runs import start

from busbw.cli.main import main

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="pip install playwright: make test-browser"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as api:
        # As root Chromium starts without its sandbox only; the pages are our own.
        browser = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def written(home: Path, *runs: str) -> Path:
    """The page of runs; made in this process, for the libraries that draw take seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUSBW_HOME", str(home))
        page = home / f"report-of-{len(runs)}.html"
        assert main(["report", *runs, "--output", str(page)]) == 0
    return page


RUN = "20261122-100000-all_reduce-aaaa"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    run_folder(home, RUN)
    run_folder(home, "20261122-110000-all_reduce-bbbb", seed=3)
    return home


@pytest.fixture(scope="session")
def report(home: Path) -> Path:
    """One run, with everything that a report can show of it."""
    return written(home, RUN)


@pytest.fixture(scope="session")
def several_report(home: Path) -> Path:
    """Two runs that can be compared."""
    return written(home, RUN, "20261122-11")


@pytest.fixture(scope="session")
def large_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,160 ranks on 270 hosts."""
    home = tmp_path_factory.mktemp("large")
    run_folder(home, "20261122-120000-all_reduce-cccc", ranks=2160, hosts=270)
    return written(home, "last")


PAIRS = "20261122-130000-pairs-dddd"


@pytest.fixture(scope="session")
def maps_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix of 12 ranks with one slow pair, and a series of setups."""
    home = tmp_path_factory.mktemp("maps")
    pairs_folder(home, PAIRS, parts=12, slow={(3, 7): 2.0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUSBW_HOME", str(home))
        measured = series().folder.name
    return written(home, PAIRS, measured)


@pytest.fixture(scope="session")
def beside_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases beside a load, and the history of the launches, which have two sizes and one."""
    home = tmp_path_factory.mktemp("beside")
    words = ("run", "all_reduce", "--ranks", "2", "--backend", "mpi", "-f", "16", "--case-time", "100ms")
    for more in (("-e", "16K"), ("-e", "16K"), ("-e", "1K"), ("-e", "16K", "--beside", "compute")):
        done = start(home, *words, "-b", "1K", *more)
        assert done.returncode == 0, done.stderr
    return written(home, "last")
