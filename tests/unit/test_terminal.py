# ruff: noqa: E501 (lines have the width that nccl-tests gives them)
from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.runs import NULL, start

from busbw.record.folder import RUN_FILE
from busbw.report.console import CleanConsole
from busbw.terminal import Screen, own_controls, printable

ESCAPES = "a\x1b]0;title\x07b\x1b[31mc\x9b1md\x7fe\u202ef\u2066g\rh"


def test_control_characters_are_removed_and_text_stays() -> None:
    assert printable(ESCAPES) == "a]0;titleb[31mc1mdefgh"
    assert printable("a\tb\nc ä 漢 🙂 é") == "a\tb\nc ä 漢 🙂 é"


def test_a_screen_is_the_stream_but_for_its_text() -> None:
    under = io.StringIO()
    screen = Screen(under)
    print(ESCAPES, file=screen)  # type: ignore[arg-type]
    screen.writelines(["x\x1b", "y"])
    assert under.getvalue() == printable(ESCAPES) + "\nxy"
    assert screen.isatty() is False
    assert own_controls(screen) is under  # type: ignore[arg-type]


def test_a_console_colours_and_passes_no_escape_of_a_text() -> None:
    out = io.StringIO()
    console = CleanConsole(out, force_terminal=True, color_system="standard", highlight=False)
    console.print(ESCAPES, style="red", markup=False)
    text = out.getvalue()
    assert "\x1b[31m" in text
    assert not {"\x07", "\x9b", "\x7f", "\u202e", "\u2066"} & set(text)
    assert "]0;titleb[31mc" in text


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a run of somebody who wants our terminal; beside it another, with their log imported."""
    home = tmp_path_factory.mktemp("foreign") / "home"
    assert start(home, "run", "all_reduce", "-b", "8", "-e", "16", *NULL).returncode == 0
    (file,) = home.glob(f"*/{RUN_FILE}")
    body = json.loads(file.read_text())
    for rank in body["world"]["ranks"]:
        rank["host"] = ESCAPES
    body["settings"]["note"] = body["error"] = body["argv"][0] = ESCAPES
    body["environment"]["variables"]["NCCL_X"] = ESCAPES
    body["findings"] = [
        {"severity": "warning", "check": "x", "claim": ESCAPES, "evidence": ESCAPES, "hint": ESCAPES}
    ]
    file.write_text(json.dumps(body))
    log = home.with_name(LOG_NAME)
    log.write_text(LOG)
    assert start(home.with_name("imported"), "import", str(log)).returncode == 0
    return home


LOG_NAME = "a\x1b]0;t\x07\u202eb.log"
LOG = """\
all_reduce_perf -b 8 -e 16
# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid     10 on     node\x1b]0;t\x07a device  0 [0x0f] NVIDIA \u202eH100
#  Rank  1 Group  0 Pid     11 on     node-a device  1 [0x2d] NVIDIA H100
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    10.00    0.00    0.00      0    10.00    0.00    0.00      0
          16             4     float     sum      -1    10.00    0.00    0.00      0    10.00    0.00    0.00      0
# Avg bus bandwidth    : 0.0012
"""


def is_clean(text: str) -> bool:
    return printable(text) == text


@pytest.mark.parametrize("command", ["show", "diagnose", "expect", "list", "report", "export", "compare"])
def test_nothing_foreign_moves_the_terminal(command: str, foreign: Path) -> None:
    log = "last" if command in ("show", "export") else str(foreign.with_name(LOG_NAME))
    for home, run in ((foreign, "last"), (foreign, log), (foreign.with_name("imported"), "last")):
        words = {
            "list": (),
            "report": (run, "-o", "-"),
            "export": (run, "--format", "nccl-tests"),
            "compare": (run, run),
            "show": (run, "--provenance"),
        }.get(command, (run,))
        done = start(home, command, *words)
        assert done.returncode != 2, done.stderr
        assert is_clean(done.stdout)
        assert is_clean(done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "no\x1b[31m"),
        ("run", "all\x1b]0;t\x07"),
        ("export", "last", "--format", "\u202ex"),
        ("x\x9b1m",),
    ],
)
def test_an_error_quotes_no_escape(words: tuple[str, ...], tmp_path: Path) -> None:
    done = start(tmp_path, *words)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert is_clean(done.stderr)


def test_a_label_of_an_import_is_shown_without_escapes(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(LOG)
    done = start(tmp_path / "home", "import", str(log), "--setup", ESCAPES)
    shown = start(tmp_path / "home", "show", "last", "--provenance")
    for text in (done.stdout, done.stderr, shown.stdout, shown.stderr):
        assert is_clean(text)


def test_help_on_a_terminal_has_its_colours(tmp_path: Path) -> None:
    """Which are escapes: its console passes them by the screen."""
    controller, terminal = os.openpty()
    words = (sys.executable, "-m", "busbw", "presets", "--help")
    environ = {**clean_environ(BUSBW_HOME=str(tmp_path)), "TERM": "xterm"}
    with os.fdopen(terminal, "wb") as out, os.fdopen(controller, "rb", buffering=0) as seen:
        assert subprocess.run(words, env=environ, stdout=out, timeout=60, check=False).returncode == 0
        assert b"\x1b[1mUsage: " in seen.read(4096)
