"""A tuning that was kept: shown again, and written as what readers of tables take."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from busbw.errors import ExitCode, UsageError
from busbw.files import read_input, store, write_output
from busbw.judge.tune import Tuning, table_text
from busbw.machine.plugins import tuner_path
from busbw.plan.flags.tune import TuneSettings
from busbw.record.checked import checked
from busbw.record.folder import LAST, TUNING_FILE, environ_home, find_run
from busbw.record.json_text import json_mapping

_HINT: Final = "name a run of `busbw tune`"


def is_tuning(folder: Path) -> bool:
    """Whether a run raced arms to its end."""
    return (folder / TUNING_FILE).is_file()


def read_tuning(folder: Path) -> Tuning:
    """What a run came to. Raises UsageError where it is no tuning."""
    if not is_tuning(folder):
        raise UsageError(f"{folder.name} is no tuning", hint=_HINT)
    path = folder / TUNING_FILE
    return checked(Tuning, json_mapping(read_input(path, _HINT), str(path), _HINT), str(path), _HINT)


def emit(words: tuple[str, ...], own: TuneSettings) -> ExitCode:
    """Write what a tuning confirmed. Raises UsageError where that is nothing."""
    folder = find_run(words[0] if words else LAST, environ_home(), last=is_tuning)
    text = table_text(read_tuning(folder), only_confirmed=True)
    if not text:
        raise UsageError(
            f"{folder.name} confirmed nothing to write", hint="NCCL's own choice is the best known"
        )
    if own.emit in ("env", "nccl-conf"):
        table = folder / "tuner.csv"
        store(table, text.encode())
        site = os.environ.get("NCCL_TUNER_PLUGIN", "")
        variables = {"NCCL_TUNER_PLUGIN": tuner_path(), "BUSBW_TUNER_FILE": table, "BUSBW_TUNER_SITE": site}
        given = {name: str(value) for name, value in variables.items() if value}
        if own.emit == "env":
            given = {f"export {name}": shlex.quote(value) for name, value in given.items()}
        text = "".join(f"{name}={value}\n" for name, value in given.items())
    if own.output is None:
        print(text, end="")
    else:
        write_output(own.output, text.encode())
        print(f"wrote {own.output}", file=sys.stderr)
    return ExitCode.OK
