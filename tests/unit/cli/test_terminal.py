"""Commands on a real terminal: no line is longer than it is wide, and no number is broken."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from busbw_testing.runs import NULL, start
from busbw_testing.terminal import WIDTHS, lines, on_terminal, screen

from busbw.launch.engine import Handle
from busbw.record.folder import JOB_FILE

SWEEP = ("all_reduce", "broadcast", "-b", "4", "-e", "256M", "-f", "64", *NULL)


HUNT = ("--ranks", "6", "-b", "64K", *NULL[:4])
JOB = "20261128-101112-alltoall-ab12"
READING = (
    "devices",
    "presets list",
    "presets show aws/p5.48xlarge",
    "nccom-test --help",
    "list",
    "jobs",
    "show {run}",
    "show {run} --case 0",
    "compare {run} {run} --all",
    "expect {run}",
    "expect {run} --all",
    "expect --list",
    "diagnose {run}",
    "diagnose {run} --all",
    "show {isolate}",
    "show {pairs}",
    "show {pairs} --all",
)
MEASURING = (
    ("run", "all_gather", "-b", "4", "-e", "64M", "-f", "64", *NULL),
    ("isolate", *HUNT),
    ("pairs", *HUNT),
    ("preflight", *NULL),
)
POINT = re.compile(r"\d+\.[\d.]+")


@pytest.fixture(scope="module")
def measured() -> Iterator[Path]:
    """The home of a run, two hunts and a job, whose path is short enough for a line."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for words in (("run", *SWEEP), ("isolate", *HUNT), ("pairs", *HUNT)):
            assert start(home, *words).returncode == 0
        job = home / JOB
        shutil.copytree(named(home)["run"], job)
        handle = Handle("slurm", "123456789_12345678", "busbw-alltoall")
        (job / JOB_FILE).write_text(json.dumps(asdict(handle)))
        yield home


def named(home: Path) -> dict[str, str]:
    """The folder of the run and of each hunt."""
    kinds = {"run": "all_reduce", "isolate": "isolate", "pairs": "pairs"}
    return {kind: str(next(home.glob(f"*-{part}*"))) for kind, part in kinds.items()}


@pytest.mark.parametrize("words", READING)
def test_what_is_read_fits_every_width_with_its_numbers_whole(measured: Path, words: str) -> None:
    given = words.format(**named(measured)).split()
    shown = {columns: lines(on_terminal(measured, columns, *given)) for columns in WIDTHS}
    assert not any(line.startswith("error") for line in shown[80])
    for columns, text in shown.items():
        assert max(map(len, text)) <= columns
    if words != "devices":  # free memory changes
        numbers = {columns: set(POINT.findall("\n".join(text))) for columns, text in shown.items()}
        assert all(found <= numbers[200] for found in numbers.values())


@pytest.mark.parametrize("words", MEASURING, ids=lambda words: words[0])
def test_what_is_measured_fits_with_its_progress(measured: Path, words: tuple[str, ...]) -> None:
    for columns in WIDTHS:
        shown = lines(on_terminal(measured, columns, *words))
        assert max(map(len, shown)) <= columns
        assert sum(line.startswith("# next") for line in shown) == 1


ROWS = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid 1 on a device  0 [0x01] NVIDIA H100
#  Rank  1 Group  0 Pid 2 on a device  1 [0x02] NVIDIA H100
   1024     256     float     sum      -1    10.00    0.10    0.10      0    10.00    0.10    0.10      0
"""


def test_what_is_printed_under_progress_stands_above_it(tmp_path: Path) -> None:
    """Rows of an import, each of which ends in a word that could have a colour."""
    logs = [tmp_path / f"{name}-failed.log" for name in ("a", "b", "c")]
    for log in logs:
        log.write_text(ROWS)
    text = on_terminal(tmp_path / "home", 300, "import", "--op", "all_reduce", *map(str, logs))
    assert "/3" in text
    shown = screen(text)
    assert [line.split()[-1] for line in shown if line.startswith("  2")] == [f"{log}:4-4" for log in logs]
    assert not any("/3" in line or "[1;31m" in line for line in shown)


def test_an_error_goes_on_below_its_text(measured: Path) -> None:
    words = ("export", named(measured)["run"], "--format", "pdf")
    shown = lines(on_terminal(measured, 80, *words))
    assert shown[1].startswith("hint: use one of: csv, ")
    assert shown[2].startswith("      ")
    assert max(map(len, start(measured, *words).stderr.splitlines())) > 80  # whole in a pipe


def test_wide_shows_all_columns(measured: Path) -> None:
    run = named(measured)["run"]
    wide = [
        line for line in lines(on_terminal(measured, 80, "show", run, "--wide")) if not line.startswith("#")
    ]
    assert "\n".join(filter(None, wide)) == "\n".join(
        line for line in start(measured, "show", run).stdout.splitlines() if not line.startswith("#")
    )


def test_colours_are_for_terminals_that_want_them(measured: Path) -> None:
    assert "\x1b[" in on_terminal(measured, 100, "show")
    assert "\x1b[" not in on_terminal(measured, 100, "show", NO_COLOR="1")
    assert "\x1b[" not in start(measured, "show").stdout
