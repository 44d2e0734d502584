"""``busbw tune``: race NCCL's ways of doing a collective in one launch, confirm winners in fresh ones."""

from __future__ import annotations

import io
import json
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from busbw.cli.app import RunCommand, command_line, operations_in, positional
from busbw.cli.compare_series import compared
from busbw.cli.compare_setups import measure_here, series_plan, starter
from busbw.cli.kept_tuning import emit
from busbw.cli.on import node_counts
from busbw.cli.run import run
from busbw.errors import ExitCode, UsageError
from busbw.files import store
from busbw.judge import knobs
from busbw.judge.compare import Comparison, Verdict
from busbw.judge.compare_setups import setup_arms
from busbw.judge.knobs import leader
from busbw.judge.tune import Tuning, confirmed, lost_arm, nodes_of, races, table_text
from busbw.launch import series as setup_series
from busbw.launch.series_job import follow_series, runs_in_one_job, submit_series
from busbw.machine.backends import choose_backend
from busbw.machine.plugins import tuner_path
from busbw.model.arm import FUNCTIONS
from busbw.model.event import Event, EventKind
from busbw.plan.flags.compare import CompareSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.tune import TuneSettings
from busbw.plan.setup_file import read_knobs
from busbw.plan.setups import Setup
from busbw.plan.swept import operation_names
from busbw.rank.world.identity import identify
from busbw.record.folder import LAST, TUNING_FILE
from busbw.record.read import read_record
from busbw.report import tune as report
from busbw.report.console import print_lines
from busbw.report.fields import remark
from busbw.report.tune import COLUMNS
from busbw.units import counted, format_share, format_size

MOST_LOST: Final = 3  # arms; then it is not the arms
DEFAULT, TUNED = "NCCL's own", "tuned"


def tune_command(
    *words: Annotated[
        str, positional("Operations to tune; with --emit the run of an earlier tuning. [default: last]")
    ],
    own: TuneSettings = TuneSettings(),
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """``busbw tune``."""
    return tune(own, RunCommand(operations_in(words), settings, launch, command_line()))


def tune(own: TuneSettings, command: RunCommand) -> ExitCode:
    """Tune operations, or write what an earlier tuning confirmed. Raises BusbwError."""
    words, settings = command.operations, command.settings
    if own.plugin:
        print(tuner_path())
        return ExitCode.OK
    if own.emit is not None:
        return emit(words, own)
    if own.knobs is not None:
        named = replace(command, operations=tuple(operation_names(words)))
        blocks = max(own.blocks, 1)
        if settings.dry_run:
            print_lines(launches(own.knobs, blocks))
            return run(replace(named, settings=replace(settings, format="table")))
        return tune_knobs(own.knobs, partial(_compared, named, blocks), settings.format)
    _check(command)
    if settings.dry_run:
        return run(replace(command, settings=replace(settings, arms=True)))
    code, folder, lost = _race(command)
    if folder is None:
        return code
    record = read_record(folder)
    found = races(record)
    is_cut = code in (ExitCode.INTERRUPTED, ExitCode.RANK_FAILED)  # what it showed so far is no answer
    if is_cut or (code is not ExitCode.OK and not found):
        return code
    world = record.world
    assert world is not None, "a race had ranks"
    tuning = Tuning(nodes_of(world), world.size, found, lost)
    if tuning.winners and own.blocks:
        # Launches with the table and without it, in turn: what the site has else is the default there.
        named = replace(command, operations=tuple(dict.fromkeys(each.operation for each in tuning.winners)))
        table = table_text(tuning, only_confirmed=False)
        setups = (Setup(DEFAULT), Setup(TUNED, flags={"tuner_table": table}))
        tuning = confirmed(tuning, _compared(named, own.blocks, setups))
    store(folder / TUNING_FILE, json.dumps(asdict(tuning)).encode())
    if settings.format == "json":
        fields = asdict(tuning)
        print(json.dumps({"run": folder.name, "tuned": fields["tuned"], "lost": fields["lost"]}))
    else:
        print_lines(report.lines(tuning, LAST))
    return ExitCode.OK


def _race(command: RunCommand) -> tuple[ExitCode, Path | None, tuple[str, ...]]:
    """The race, begun again without an arm in which ranks died or stood still: how it ended, where its record
    is, and the arms that it lost.
    """
    lost: tuple[str, ...] = ()
    while True:
        heard: list[Event] = []
        settings = replace(command.settings, arms=True, arms_out=lost, format="table")
        with redirect_stdout(io.StringIO()):  # rows of arms are no table
            code = run(replace(command, settings=settings, hear=heard.append))
        folder = next((Path(item["folder"]) for item in heard if item["event"] == EventKind.END), None)
        is_lost = folder is not None and code is ExitCode.RANK_FAILED
        arm = lost_arm(read_record(folder), _visited(heard)) if folder is not None and is_lost else ""
        if not arm or len(lost) >= MOST_LOST:
            return code, folder, lost
        lost = (*lost, arm)
        print(f"{arm} did not come back; starting again without it", file=sys.stderr, flush=True)


def _visited(heard: Sequence[Event]) -> int | None:
    """The case of the arm whose later pass began last; None where ranks were in a first pass since, which
    tells of itself when it is over.
    """
    for item in reversed(heard):
        if item["event"] == EventKind.PROGRESS and "case" in item:
            return int(item["case"])
        # Of a race that is cut short, cases that had some of their passes are told too.
        result = item["result"] if item["event"] == EventKind.CASE else None
        is_whole = result is not None and len(result["pass_samples"]) >= int(result["passes"])
        if item["event"] == EventKind.PASS or is_whole:
            return None
    return None


def _check(command: RunCommand) -> None:
    """Raises UsageError for what cannot be tuned, before anything is started."""
    words, settings, launch = command.operations, command.settings, command.launch
    for word in words:
        if word not in FUNCTIONS:
            raise UsageError(
                f"NCCL does not ask a tuner about {word}",
                hint=f"tune {', '.join(FUNCTIONS)}, or several of them",
            )
    if not words:
        raise UsageError("no operation given", hint="busbw tune all_reduce,all_gather -b 8 -e 1G")
    _check_single(command)
    if launch.on is None:
        identity = identify(os.environ)
        if identity is not None and identity.size != 1:
            raise UsageError(
                f"tune starts launches of its own, and {identity.launcher} has started these ranks",
                hint=f"leave {identity.launcher} out, or give --on slurm, hosts or kubernetes",
            )
        if choose_backend(settings.backend, settings.nccl or None) != "nccl":
            raise UsageError(
                "tune chooses among NCCL's algorithms, and these ranks have no NCCL",
                hint="for MPI try its variables: `busbw tune all_reduce --knobs knobs.yaml`",
            )
    if settings.cudagraph or settings.local_register == 2:
        raise UsageError(
            "NCCL asks its tuner once a captured graph, and not at all for symmetric windows",
            hint="leave -G and -R 2 out",
        )


def _check_single(command: RunCommand) -> None:
    """Raises UsageError for what would be several tables, or a race that nobody waits for."""
    settings, launch = command.settings, command.launch
    if launch.detach:
        raise UsageError("tune cannot run detached: launches follow the race", hint="leave --detach out")
    nodes = node_counts(launch.nodes) or [0]
    given = {"-d": settings.datatype, "-o": settings.op, "-r": settings.root, "-N": nodes}
    for flag, values in given.items():
        if len(values) != 1:
            raise UsageError(
                f"tune takes one value of {flag}",
                hint="a table has one choice for a size of an operation: run tune once for each value",
            )


def _compared(command: RunCommand, blocks: int, setups: tuple[Setup, ...]) -> Comparison:
    """The setups, launched in turn, against the first of them; what has lost is launched no more, but in one
    job, whose launches were sent with it. An interrupt ends the tuning too. Raises UsageError where the user
    left.
    """
    plan = series_plan(setups, command, CompareSettings())
    seed = secrets.randbits(32)
    if plan.launch.on is not None and runs_in_one_job(plan.launch.on):
        plan.check()
        folder = submit_series(plan, blocks, seed)
        series = follow_series(folder, plan.err, cancels=True, wait=plan.launch.wait)
        if series is None:
            raise UsageError("the series was left", hint=f"busbw attach {folder.name}")
    else:
        series = measure_here(plan, starter(plan), blocks, seed, _losers)
    if series.stopped == setup_series.INTERRUPTED:
        raise KeyboardInterrupt
    whole, records = setup_series.read_all((series.folder,))
    return compared(whole, whole.names, records)[0]


def _losers(series: setup_series.Series) -> frozenset[str]:
    """The setups of a series that need no more launches, by the records of those that it has."""
    _, records = setup_series.read_series(series.folder)
    nodes = series.nodes[0]
    return knobs.losers(setup_arms(series.folder.name, series.names, series.outcomes, records, nodes))


# ---- variables that need a launch of their own --------------------------------------------------------


# Launches the setups in turn, the first being how it is, and compares them.
Compare = Callable[[tuple[Setup, ...]], Comparison]
AS_IT_IS: Final = "as it is"
_NONE: Final = "no value is faster without being slower or failing somewhere"


def launches(path: Path, blocks: int) -> list[str]:
    """What would be launched for the knobs of a file, in words. Raises UsageError for a file that is none."""
    knobs = read_knobs(path)
    tried = [f"# {name}: {AS_IT_IS}, {', '.join(values)}" for name, values in knobs.items()]
    most = blocks * (sum(1 + len(values) for values in knobs.values()) + 2)
    said = f"at most {most} launches: {counted(blocks, 'block')} a variable, each on top of the best values"
    return [*tried, f"# {said} so far, and as many to confirm", "# one of them, as a run of its own:"]


def tune_knobs(path: Path, compare: Compare, format_name: str) -> ExitCode:
    """Try the knobs of a file and print what to set. Raises UsageError for a file that is none."""
    taken: dict[str, str] = {}
    told = []
    for name, values in read_knobs(path).items():
        tried = {f"{name}={value}": {**taken, name: value} for value in values}
        setups = (Setup(AS_IT_IS, environ=taken), *(Setup(word, environ=own) for word, own in tried.items()))
        race = compare(setups)
        best, saved = leader(race)
        taken = tried.get(best, taken)
        told.append(f"{best} saves {format_share(saved)}" if best in tried else f"{name}: {_NONE}")
        out = [arm.name for arm in race.candidates if arm.failures or arm.wrong]
        told += [f"{word} is out: a launch failed or had wrong data" for word in out]
    final = compare((Setup(AS_IT_IS), Setup("tuned", environ=taken))) if taken else None
    if format_name == "json":
        print(
            json.dumps({"taken": taken, "tried": told, "confirmed": final is not None and _gains(final) > 0})
        )
    else:
        remarks = (_answer(taken, final), *(f"tried: {each}" for each in told))
        print_lines([*(line for each in remarks for line in remark(each, COLUMNS)), *_next(taken, final)])
    return ExitCode.OK


def _gains(final: Comparison) -> int:
    """In how many cases all that was taken is faster; none where it is slower in any."""
    verdicts = [row.verdict for row in final.rows]
    is_bad = any(verdict in (Verdict.SLOWER, Verdict.FAILED, Verdict.MISSING) for verdict in verdicts)
    return 0 if is_bad else verdicts.count(Verdict.FASTER)


def _answer(taken: Mapping[str, str], final: Comparison | None) -> str:
    if final is None:
        return f"nothing to gain: {_NONE}"
    gains = _gains(final)
    words = ", ".join(f"{name}={value}" for name, value in taken.items())
    if not gains:
        return f"nothing to gain: {words} looked faster, and fresh launches did not show it"
    faster = [row for row in final.rows if row.verdict is Verdict.FASTER and row.speedup]
    most = max(faster, key=lambda row: row.speedup or 0.0)
    share = format_share(1 - 1 / (most.speedup or 1.0))
    where = f"{most.key.collective} {format_size(most.key.size_bytes)} {most.key.placement}"
    return f"{gains} of {len(final.rows)} cases gain, at most {share} ({where}), with {words}"


def _next(taken: Mapping[str, str], final: Comparison | None) -> Sequence[str]:
    if final is None or not _gains(final):
        return []
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in taken.items())
    return [f"# next: export {words}"]
