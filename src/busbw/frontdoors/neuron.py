"""The vendor's nccom-test on Trainium and Inferentia: run it as it was asked for, show what it prints as it
comes, and keep the result as a run of busbw.

Not run on hardware: written to the public documentation, and tested with a stand-in that speaks its format.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from busbw.errors import BusbwError, ExitCode, RankFailed, SiteError, UndecidedError, UsageError
from busbw.frontdoors.neuron_record import Ending, failed_record, store, tables_of
from busbw.importers.nccom_test import command as command_words
from busbw.launchers.base import Command, LaunchRequest
from busbw.launchers.interrupt import Interrupt
from busbw.launchers.processes import Exit, Line, Processes
from busbw.record import folder as folders

PROGRAM: Final = "nccom-test"
# A path: that tool, whatever is found here. `none`: never the vendor's tool.
TOOL_VARIABLE: Final = "BUSBW_NCCOM_TEST"
# Seconds without a line of output after which the tool counts as hung. One size can compile for minutes.
TIMEOUT_VARIABLE: Final = "BUSBW_NCCOM_TIMEOUT"
DEFAULT_TIMEOUT_S: Final = 1800.0
# Where the Neuron packages install it.
_HOMES: Final = ("/opt/aws/neuron/bin",)
_PRODUCT: Final = Path("/sys/devices/virtual/dmi/id/product_name")
LOG_NAME: Final = "nccom-test.log"


@dataclass
class _Heard:
    """What the tool did."""

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    code: int | None = None
    hung: bool = False
    interrupted: bool = False


def find_tool(environ: Mapping[str, str], devices: Path = Path("/dev")) -> Path | None:
    """The vendor's tool, where there is a Neuron device; None where busbw is to measure by itself.

    Raises SiteError for a device without the tool, UsageError for a variable that names no program.
    """
    named = environ.get(TOOL_VARIABLE, "")
    if named == "none":
        return None
    if named:
        found = shutil.which(named)
        if found is None:
            raise UsageError(f"{TOOL_VARIABLE}={named} is no program", hint="set it to a path, or to none")
        return Path(found)
    present = sorted(devices.glob("neuron[0-9]*"))
    if not present:
        return None
    places = os.pathsep.join((environ.get("PATH", ""), *_HOMES))
    found = shutil.which(PROGRAM, path=places)
    if found is None:
        raise SiteError(
            f"{len(present)} Neuron devices ({present[0]}, ...) but no {PROGRAM} on PATH or in {_HOMES[0]}",
            hint="install aws-neuronx-tools, or put it on PATH",
        )
    return Path(found)


def run(
    tool: Path,
    words: tuple[str, ...],
    argv: tuple[str, ...],
    out: TextIO,
    err: TextIO,
    product: Path = _PRODUCT,
) -> ExitCode:
    """Run the tool to its end. Its output is ours; the record is named on standard error.

    Raises UsageError for several Inf2 nodes, RankFailed where it died or hung (its finished rows are kept),
    SiteError where it ended without a table, UndecidedError where its table cannot be understood.
    """
    refuse_inf2(words, _text(product))
    limit_s = _limit_s(os.environ)
    operation, ranks = command_words(shlex.join(words))
    folder = folders.create(folders.environ_home(), folders.new_run_id(operation or PROGRAM))
    command = Command((str(tool), *words))
    (folder / "request" / "commands.txt").write_text(f"{command}\n")
    print(f"busbw: {tool} runs; run {folder.name}", file=err, flush=True)
    started = time.time()
    heard = _follow(LaunchRequest(PROGRAM, "mpi", ranks or 0, (command,)), limit_s, out, err)
    (folder / "log" / LOG_NAME).write_text("".join(f"{line}\n" for line in (*heard.lines, *heard.errors)))
    return _keep(folder, words, argv, heard, started, err)


def refuse_inf2(words: tuple[str, ...], product: str) -> None:
    """Inf2 has no links between its instances: nccom-test fails there with several nodes."""
    nodes = _nodes(words)
    if product.startswith("inf2") and nodes > 1:
        raise UsageError(
            f"-N {nodes}, but this is {product}: nccom-test runs on one Inf2 instance only",
            hint="leave -N out, or run this on Trainium",
        )


def _nodes(words: tuple[str, ...]) -> int:
    from busbw.frontdoors.nccom_words import tokenise

    try:
        (text,) = tokenise(words).values.get("nnodes", ("1",))
    except UsageError:  # a flag that is newer than our table: the tool judges it
        return 1
    return int(text) if text.isdecimal() else 1


def _text(path: Path) -> str:
    try:
        return path.read_text().strip().lower()
    except OSError:
        return ""


def _limit_s(environ: Mapping[str, str]) -> float:
    text = environ.get(TIMEOUT_VARIABLE, "")
    try:
        limit_s = float(text) if text else DEFAULT_TIMEOUT_S
    except ValueError:
        limit_s = -1.0
    if limit_s <= 0:
        raise UsageError(f"{TIMEOUT_VARIABLE}={text} is no time", hint="set it to seconds, as 1800")
    return limit_s


def _follow(request: LaunchRequest, limit_s: float, out: TextIO, err: TextIO) -> _Heard:
    """Pass the tool's output on, line by line, until it ends or says nothing for ``limit_s``."""
    heard = _Heard()
    with Interrupt() as interrupt, Processes(request, lambda: interrupt.insisted) as processes:
        last_s = time.monotonic()
        for item in processes.follow():
            if interrupt.requested:
                heard.interrupted = True
                break
            if isinstance(item, Line):
                last_s = time.monotonic()
                (heard.errors if item.is_error else heard.lines).append(item.text)
                print(item.text, file=err if item.is_error else out, flush=True)
            elif isinstance(item, Exit):
                heard.code = item.code
            elif time.monotonic() - last_s > limit_s:
                heard.hung = True
                break
    return heard


def _keep(
    folder: Path, words: tuple[str, ...], argv: tuple[str, ...], heard: _Heard, started: float, err: TextIO
) -> ExitCode:
    """Write the record, then judge."""
    ending = Ending(
        hung=heard.hung,
        interrupted=heard.interrupted,
        code=heard.code,
        last_words=next((line.strip() for line in reversed(heard.errors or heard.lines) if line.strip()), ""),
    )
    tables = tables_of(heard.lines, words, folder / "log" / LOG_NAME, started)
    error: BusbwError | None = _verdict(ending, bool(tables), any(not table.ended for table in tables))
    try:
        store(folder, tables, words, argv, ending, error)
    except UndecidedError as undecided:
        error = error or undecided
    if not tables:
        failed_record(folder, argv, error)
    if heard.interrupted:
        return ExitCode.INTERRUPTED
    if error is not None:
        raise error
    print(f"busbw: `busbw show {folder.name}` has it again", file=err)
    return ExitCode.BAD_VERDICT if ending.code or any(table.failures for table in tables) else ExitCode.OK


def _verdict(ending: Ending, has_table: bool, is_cut: bool) -> BusbwError | None:
    """What is wrong with how it ended; None where it said so itself in its table, or nothing is."""
    words = f"its last words: {ending.last_words}" if ending.last_words else "it printed nothing"
    if ending.interrupted:
        return None
    if ending.hung:
        return RankFailed(f"{PROGRAM} was ended: silent for {TIMEOUT_VARIABLE} seconds", hint=words)
    if ending.code is not None and ending.code < 0:
        return RankFailed(f"{PROGRAM} was killed by signal {-ending.code}", hint=words)
    if not has_table and ending.code:
        return SiteError(f"{PROGRAM} ended with exit code {ending.code} and no table", hint=words)
    if not has_table:
        return UndecidedError(f"{PROGRAM} printed no table", hint=words)
    if is_cut:
        return RankFailed(f"{PROGRAM} ended (exit code {ending.code}) before its last line", hint=words)
    return None
