"""Damaged run folders and spec files through the commands that read them: no traceback, no hang, no number
that cannot be.

``PYTHONPATH=tests/support python -m busbw_testing.damage_campaign 500 1000 RESULT.json`` runs all of it and
keeps what it found; ``test_damaged_inputs.py`` runs a sample.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from busbw_testing.damage import damaged_bytes, damaged_folder, damaged_value

BUSBW: Final = (sys.executable, "-m", "busbw")
_HANG_SECONDS: Final = 60
_CANNOT_BE: Final = re.compile(r"\b(?:nan|inf)\b(?!, which)|\d{7,}(\.\d+)?%|-\d[\d.:]* m?s left")
_NULL: Final = ("--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "8", "-e", "64")
RUNS: Final[tuple[tuple[str, ...], ...]] = (
    ("run", "all_reduce", *_NULL),
    ("run", "all_reduce", *_NULL, "--launches", "3"),
    ("compare", "SETUPS", "--ops", "all_reduce", *_NULL, "--blocks", "2"),
    ("pairs", "--ranks", "4", "-b", "64K"),
    ("isolate", "--ranks", "4", "-b", "64K"),
    ("rails", "--ranks", "4", "-b", "64K"),
    ("preflight", "--ranks", "2"),
)
SPEC: Final[dict[str, Any]] = {
    "default": "plain",
    "about": "two settings of a transport",
    "setups": {
        "plain": {},
        "sockets": {"extends": "plain", "env": {"NCCL_NET": "Socket"}, "why": "the simplest transport"},
        "paths": {"prepend": {"LD_LIBRARY_PATH": "/opt/lib"}, "unset": ["NCCL_NET"], "flags": {"hot": True}},
    },
}


@dataclass
class Found:
    """What a campaign saw. ``faults`` name the seed of a case, what was damaged, and how it went wrong."""

    cases: int = 0
    commands: int = 0
    seconds: float = 0.0
    codes: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def make_runs(home: Path, runs: Sequence[Sequence[str]] = RUNS) -> list[Path]:
    """Whole run folders to damage: the folders that the commands leave in ``home``."""
    setups = home.parent / "setups.yaml"
    setups.write_text("setups:\n  a: {}\n  b: {env: {FOO: bar}}\n")
    for words in runs:
        argv = [str(setups) if word == "SETUPS" else word for word in words]
        environ = {**os.environ, "BUSBW_HOME": str(home)}
        subprocess.run([*BUSBW, *argv], env=environ, capture_output=True, timeout=300, check=False)
    return sorted(home.glob("2*"))


def commands_of(folder: Path, whole: Path, scratch: Path) -> Iterator[tuple[str, ...]]:
    """What reads a run: each command in its forms. ``whole`` is a run that is well."""
    run, out = str(folder), str(scratch / "out")
    yield from (("list",), ("list", "--format", "json"))
    yield from (("show", run, "--format", name) for name in ("table", "json", "csv", "jsonl"))
    yield from (("show", run, *more) for more in (("--ranks",), ("--histogram",), ("--case", "0")))
    yield ("show", run, "--provenance")
    for command in ("expect", "diagnose"):
        yield from ((command, run), (command, run, "--format", "json"))
    yield ("report", run, "-o", f"{out}.md")
    yield from (("export", run, "--format", name, "-o", out) for name in ("csv", "json", "nccl-tests"))
    yield from (
        ("compare", run),
        ("compare", run, str(whole)),
        ("compare", str(whole), run, "--format", "json"),
    )


def damaged_folders(home: Path, runs: Sequence[Path], numbers: range, until_s: float) -> Found:
    """A run folder a number, with one file of it damaged."""
    found, started_s = Found(), time.monotonic()
    codes: Counter[str] = Counter()
    for number in numbers:
        if time.monotonic() > until_s:
            break
        draw = random.Random(number)
        folder = home / f"20260101-000000-damaged-{number}"
        what = damaged_folder(draw.choice(runs), folder, draw)
        for words in commands_of(folder, runs[0], home.parent):
            _read(words, f"{number}: {what}", found, codes)
        shutil.rmtree(folder)
        found.cases += 1
    return _counted(found, codes, started_s)


def damaged_specs(folder: Path, numbers: range, until_s: float) -> Found:
    """A spec file a number, its values or its bytes damaged, through a dry run."""
    found, started_s = Found(), time.monotonic()
    codes: Counter[str] = Counter()
    path = folder / "spec.yaml"
    for number in numbers:
        if time.monotonic() > until_s:
            break
        draw = random.Random(number)
        body: Any = SPEC
        for _ in range(draw.choice((1, 1, 2, 4))):
            body = damaged_value(body, draw)
        data = json.dumps(body, indent=draw.choice((None, 1)), ensure_ascii=draw.random() < 0.5)
        text = data.encode("utf-8", "surrogatepass")
        path.write_bytes(damaged_bytes(text, draw) if draw.random() < 0.4 else text)
        words = ("compare", str(path), "--ops", "all_reduce", *_NULL, "--dry-run")
        _read(words, f"{number}: spec", found, codes)
        found.cases += 1
    return _counted(found, codes, started_s)


def _counted(found: Found, codes: Counter[str], started_s: float) -> Found:
    found.codes, found.seconds = dict(sorted(codes.items())), round(time.monotonic() - started_s, 1)
    return found


class _Hang(Exception):
    pass


def _hang(*_: object) -> None:
    raise _Hang


def _read(words: Sequence[str], what: str, found: Found, codes: Counter[str]) -> None:
    """One command in this process, which must end by itself and say nothing that cannot be."""
    from busbw.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, _hang)
    signal.alarm(_HANG_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = int(main(list(words)))
        codes[f"{words[0]} {code}"] += 1
        fault = _fault_of(words, code, out.getvalue(), err.getvalue())
    except _Hang:
        fault = "hangs"
    except Exception as error:  # noqa: BLE001 (whatever comes is what is looked for)
        place = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"{type(error).__name__}: {error} at {Path(place.filename).name}:{place.lineno}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    found.commands += 1
    if fault:
        found.faults.append(f"{what}: {' '.join(words[:1] + words[2:])}: {fault[:300]}")


def _fault_of(words: Sequence[str], code: int, out: str, err: str) -> str:
    if "json" in words and out and code in (0, 1, 3):
        try:
            json.loads(out, parse_constant=_no_number)
        except ValueError as error:
            return f"no JSON: {error}"
    elif code in (0, 1, 3) and words[0] != "export" and (bad := _CANNOT_BE.search(out + err)):
        return f"prints {bad[0]}"
    return "" if code in (0, 1, 2, 3, 4) else f"exit code {code}"


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def main(folders: int, specs: int, result: Path) -> int:
    """The whole campaign; 1 where something was found."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch, "home")
        home.mkdir()
        runs = make_runs(home)
        os.environ["BUSBW_HOME"] = str(home)
        found = {
            "specs": asdict(damaged_specs(Path(scratch), range(specs), float("inf"))),
            "folders": asdict(damaged_folders(home, runs, range(folders), float("inf"))),
        }
    result.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(each["faults"] for each in found.values()))


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
