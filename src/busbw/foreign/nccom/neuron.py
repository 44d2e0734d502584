"""The vendor's nccom-test on Trainium and Inferentia: run it as it was asked for, show what it prints as it
comes, and keep the result as a run of busbw, through the importer that reads its logs.

Not run on hardware: written to the public documentation, and tested with a stand-in that speaks its format.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TextIO

from busbw.errors import BusbwError, ExitCode, RankFailed, SiteError, UndecidedError, UsageError
from busbw.foreign.logs.assemble import Origin, assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.logs.json_text import mapping, word
from busbw.foreign.logs.operations import operation as operation_named
from busbw.foreign.logs.scan import scan
from busbw.foreign.logs.table import Table
from busbw.foreign.nccom.options import split
from busbw.foreign.nccom.read import NAME, NCCOM_TEST, interpret
from busbw.foreign.nccom.read import command as command_words
from busbw.foreign.nccom.streams import FLAG as STREAMS_FLAG
from busbw.launch.base import Command
from busbw.launch.interrupt import Interrupt
from busbw.launch.processes import Exit, Line, Processes
from busbw.machine.machine import read_environment_record, read_machine
from busbw.model.event import now_utc
from busbw.model.record import RunStatus
from busbw.plan.json_file import read_entries
from busbw.plan.streams import KEY
from busbw.record import folder as folders
from busbw.record.results import write_record

# A path: that tool, whatever is found here. `none`: never the vendor's tool.
TOOL_VARIABLE: Final = "BUSBW_NCCOM_TEST"
# Seconds without a line of output after which the tool counts as hung. One size can compile for minutes.
TIMEOUT_VARIABLE: Final = "BUSBW_NCCOM_TIMEOUT"
DEFAULT_TIMEOUT_S: Final = 1800.0
# Where the Neuron packages install it.
_HOME: Final = "/opt/aws/neuron/bin"


@dataclass
class _Heard:
    """What the tool did. ``code`` is negative for a signal, None where it was ended."""

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    code: int | None = None
    hung: bool = False
    interrupted: bool = False

    @property
    def last_words(self) -> str:
        """The last line that says something."""
        return next((line.strip() for line in reversed(self.errors or self.lines) if line.strip()), "")


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
            raise UsageError(f"{TOOL_VARIABLE}={named} is not a program", hint="set it to a path, or to none")
        return Path(found)
    present = sorted(devices.glob("neuron[0-9]*"))
    if not present:
        return None
    found = shutil.which(NAME, path=os.pathsep.join((environ.get("PATH", ""), _HOME)))
    if found is None:
        raise SiteError(
            f"{len(present)} Neuron devices ({present[0]}, ...) but no {NAME} on PATH or in {_HOME}",
            hint="install aws-neuronx-tools, or put it on PATH",
        )
    return Path(found)


def run(tool: Path, words: tuple[str, ...], argv: tuple[str, ...], out: TextIO, err: TextIO) -> ExitCode:
    """Run the tool to its end. Its output is ours; the record is named on standard error.

    Raises RankFailed where it died or hung (its finished rows are kept),
    SiteError where it ended without a table, UndecidedError where its table cannot be understood.
    """
    limit_s = _limit_s(os.environ)
    operation, _ = command_words(shlex.join(words))
    folder = folders.create(folders.environ_home(), folders.new_run_id(operation or NAME))
    command = Command((str(tool), *words))
    (folder / "request" / "commands.txt").write_text(f"{command}\n")
    print(f"busbw: {tool} runs; run {folder.name}", file=err, flush=True)
    heard = _follow(command, limit_s, out, err)
    (folder / "log" / f"{NAME}.log").write_text("".join(f"{line}\n" for line in heard.lines + heard.errors))
    tables = _tables(heard.lines, words)
    error = _keep(folder, tables, words, argv, heard)
    if heard.interrupted:
        return ExitCode.INTERRUPTED
    if error is not None:
        raise error
    print(f"busbw: `busbw show {folder.name}` shows it again", file=err)
    return ExitCode.BAD_VERDICT if heard.code or any(table.failures for table in tables) else ExitCode.OK


def _limit_s(environ: Mapping[str, str]) -> float:
    text = environ.get(TIMEOUT_VARIABLE) or str(DEFAULT_TIMEOUT_S)
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(
            f"{TIMEOUT_VARIABLE}={text} is not a number of seconds", hint="set it to seconds: 1800"
        ) from error


def _follow(command: Command, limit_s: float, out: TextIO, err: TextIO) -> _Heard:
    """Pass the tool's output on, line by line, until it ends or says nothing for ``limit_s``."""
    heard = _Heard()
    with Interrupt() as interrupt, Processes([command], lambda: interrupt.insisted) as processes:
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


# ---- records ------------------------------------------------------------------------------------------


def _tables(lines: Sequence[str], words: Sequence[str]) -> tuple[Table, ...]:
    """The tables that the tool printed, below its command line, which says operation and ranks."""
    text = f"$ {NAME} {shlex.join(words)}\n" + "".join(f"{line}\n" for line in lines)
    _, ranks = command_words(shlex.join(words))
    said = (("command", ranks),) if ranks else ()
    return tuple(
        replace(interpret(table), rank_labels=said) for table in scan(text.encode(), (NCCOM_TEST,)).tables
    )


def _stream_operations(words: Sequence[str]) -> list[str]:
    """The operation of each stream, by the file that the command line names: the tool judges it, not we."""
    try:
        entries = read_entries(str(split(words)[0].get("streams_json", "")), STREAMS_FLAG, (KEY,))
    except UsageError:
        return []
    return [operation_named(word(mapping(entry).get("operation"))) for entry in entries]


def _keep(
    folder: Path, tables: Sequence[Table], words: Sequence[str], argv: tuple[str, ...], heard: _Heard
) -> BusbwError | None:
    """Write a record for every table: the first into ``folder``, those of further streams beside it. Gives
    what was wrong with the run or with the first table that cannot be understood; that table, and a run
    without one, has the record of a failed run.
    """
    error = _verdict(heard, tables)
    undecided: UndecidedError | None = None
    operations = _stream_operations(words)
    for number, table in enumerate(tables or (NCCOM_TEST.without_rows(),)):
        place = folders.create(folder.parent, f"{folder.name}-stream{number}") if number else folder
        origin = Origin(
            path=str(folder / "log"),
            table=number + 1,
            created=now_utc(),
            created_from="run",
            last_words=heard.last_words,
        )
        wrong: BusbwError | None = error
        try:
            record = assemble(table, origin, Given("".join(operations[number : number + 1])), place.name)
        except UndecidedError as cannot:
            undecided = undecided or cannot
            wrong = error or cannot
            record = assemble(NCCOM_TEST.without_rows(), origin, Given(), place.name)
        if wrong is not None:
            record = replace(record, status=RunStatus.FAILED, error=wrong.message, hint=wrong.hint)
        record = replace(
            record,
            argv=argv,
            status=RunStatus.INTERRUPTED if heard.interrupted else record.status,
            machine=read_machine(),
            environment={**read_environment_record(), **record.environment},
            ended=now_utc(),
        )
        write_record(place, record)
    return error or undecided


def _verdict(heard: _Heard, tables: Sequence[Table]) -> BusbwError | None:
    """What is wrong with how it ended; None where it said so itself in its table, or nothing is."""
    words = f"its last words: {heard.last_words}" if heard.last_words else "it printed nothing"
    if heard.interrupted:
        return None
    if heard.hung:
        return RankFailed(
            f"{NAME} printed nothing for {TIMEOUT_VARIABLE} seconds, and busbw ended it", hint=words
        )
    if heard.code is not None and heard.code < 0:
        return RankFailed(f"{NAME} was killed by signal {-heard.code}", hint=words)
    if not tables and heard.code:
        return SiteError(f"{NAME} ended with exit code {heard.code} and no table", hint=words)
    if not tables:
        return UndecidedError(f"{NAME} printed no table", hint=words)
    if any(not table.ended for table in tables):
        return RankFailed(f"{NAME} ended with exit code {heard.code} before its last line", hint=words)
    return None
