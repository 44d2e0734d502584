"""``busbw check``: is this machine as it was? A short run, judged, in one line."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from busbw.cli.app import RunCommand, command_line, operations_in, positional
from busbw.cli.output import write_for_ci
from busbw.cli.run import run, starts_ranks
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.files import read_input, write_output
from busbw.machine.gpus import gpu_presence
from busbw.model.event import Event, EventKind, error_words
from busbw.model.result import Status
from busbw.plan.flags.check import CheckRanks, CheckSettings
from busbw.plan.flags.compare import ExpectSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Seconds, Size, read_settings
from busbw.plan.yaml_file import read_yaml
from busbw.record.read import read_record
from busbw.report import ci
from busbw.report.check import check_code, check_line, error_line, prometheus_text

# What a check costs beside the start of the ranks; a second launch confirms an alarm.
BUDGET: Final = Seconds("15s")
# A latency, the middle, and the bandwidth.
_GPU_SIZES: Final = {"minbytes": Size("1K"), "maxbytes": Size("1G"), "stepfactor": 1024.0}
_CPU_SIZES: Final = {"minbytes": Size("1K"), "maxbytes": Size("16M"), "stepfactor": 128.0}
_PLAN_KEYS: Final = (
    *("operations", "minbytes", "maxbytes", "stepfactor", "stepbytes", "datatype", "op", "root"),
    *("buffers", "local_register", "cudagraph", "budget"),
)


@dataclass(frozen=True)
class Checked:
    """What a launch came to: its line, and what files are made from."""

    code: ExitCode
    line: str
    prometheus: str
    suites: tuple[ci.Suite, ...] = ()
    is_slow: bool = False  # below its level or a limit, which another launch may not be


def check_command(
    *operations: Annotated[str, positional("What to measure. [default: all_reduce]")],
    own: CheckSettings = CheckSettings(),
    ranks: CheckRanks = CheckRanks(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """Measure, judge, and print one line. Raises UsageError."""
    planned = _planned(operations_in(operations), own, ranks, launch)
    command = RunCommand(*planned, launch, command_line())
    if command.settings.dry_run:
        return run(command)
    most = float(command.settings.budget or 0.0)
    cost = f"at most {most:g} s of measuring, and as much again to confirm an alarm"
    print(f"check: {cost}", file=sys.stderr)
    found = _checked(command, own)
    if found.is_slow and starts_ranks(launch):
        found = _checked(command, own)
    print(found.line)
    write_for_ci(found.suites, own)
    if own.prometheus is not None:
        write_output(own.prometheus, found.prometheus.encode())
    return found.code


def _checked(command: RunCommand, own: CheckSettings) -> Checked:
    heard: list[Event] = []
    try:
        with redirect_stdout(io.StringIO()):
            code = run(replace(command, hear=heard.append))
    except BusbwError as error:
        if isinstance(error, UsageError):
            raise
        return _failed(ExitCode(error.exit_code), error.message)
    ended = next((item for item in reversed(heard) if item["event"] == EventKind.END), None)
    errors = [error_words(item) for item in heard if item["event"] == EventKind.ERROR]
    if code not in (ExitCode.OK, ExitCode.BAD_VERDICT, ExitCode.UNDECIDED) or ended is None:
        return _failed(code, errors[-1] if errors else "the run came to no end")
    return _judged(Path(str(ended["folder"])), own)


def _judged(folder: Path, own: CheckSettings) -> Checked:
    from busbw.cli.expect import hold

    record = read_record(folder)
    held = hold((record,), ExpectSettings(reference=own.reference, least=own.least))
    code = check_code(record, held.expectation, held.gates)
    suite = replace(ci.of_expectation(held.expectation, held.gates), name="busbw check")
    only_slow = not any(result.status in (Status.WRONG, Status.FAILED) for result in record.results)
    return Checked(
        code,
        check_line(record, held.expectation, held.gates, code),
        prometheus_text(record, held.expectation, code, time.time()),
        (suite,),
        is_slow=code is ExitCode.BAD_VERDICT and only_slow,
    )


def _failed(code: ExitCode, message: str) -> Checked:
    suite = ci.Suite("busbw check", (ci.Checked("ranks", "check", "error", message),))
    return Checked(code, error_line(message), prometheus_text(None, None, code, time.time()), (suite,))


def _planned(
    operations: tuple[str, ...], own: CheckSettings, ranks: CheckRanks, launch: LaunchSettings
) -> tuple[tuple[str, ...], RunSettings]:
    # Nodes of an engine have GPUs, unless CPU ranks are asked for.
    has_gpus = launch.on is not None or gpu_presence().count > 0
    is_gpu = ranks.backend == "nccl" or (ranks.backend == "auto" and has_gpus)
    values = {**vars(ranks), **(_GPU_SIZES if is_gpu else _CPU_SIZES), "budget": BUDGET}
    if own.plan is not None:
        found = read_yaml(read_input(own.plan, "name a YAML file"), str(own.plan))
        if not isinstance(found, Mapping):
            hint = "write minbytes: 1K, one flag a line"
            raise UsageError(f"{own.plan} is not a list of FLAG: value", hint=hint)
        said = {str(name).replace("-", "_"): value for name, value in found.items()}
        for name, value in said.items():
            if name not in _PLAN_KEYS or not isinstance(value, str):
                hint = f"use {', '.join(_PLAN_KEYS)}"
                raise UsageError(f"{own.plan}: {name}: {value!r} is not a flag of a check", hint=hint)
        operations = operations or tuple(said.pop("operations", "").replace(",", " ").split())
        said.pop("operations", None)
        made = read_settings(RunSettings, said)
        if "minbytes" in said or "maxbytes" in said:
            values = {name: value for name, value in values.items() if name not in _GPU_SIZES}
        values |= {name: getattr(made, name) for name in said}
    return operations or ("all_reduce",), RunSettings(**values)
