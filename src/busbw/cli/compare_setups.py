"""``busbw compare setups.yaml``: measure setups in turn."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from busbw.cli.app import RunCommand, command_line
from busbw.cli.compare_series import show_series
from busbw.cli.on import node_counts, settled
from busbw.cli.run import refuse_without_engine
from busbw.errors import ExitCode, SiteError, UsageError, refused_in
from busbw.launch import series as setup_series
from busbw.launch.base import Command
from busbw.launch.engine import JobRequest
from busbw.launch.hosts.list import read_places
from busbw.launch.series_job import follow_series, runs_in_one_job, show_job, submit_series
from busbw.launch.series_plan import SeriesPlan, here_starter, hosts_starter
from busbw.launch.settle import as_steps, job_around
from busbw.launch.variables import read_here, read_variables
from busbw.plan.flags.compare import LAUNCH_SECONDS, CompareSettings
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import check_settings
from busbw.plan.setup_file import read_setups
from busbw.plan.setups import Setup, blocks, flags_typed, one_at_a_time, resolve, variables
from busbw.redact import HIDDEN_NOTE
from busbw.terminal import standard_error


def measure_setups(
    path: Path, options: CompareSettings, settings: RunSettings, launch: LaunchSettings
) -> ExitCode:
    """Launch the setups of a file in random blocks and show the series. Raises BusbwError for everything that
    ends it before its first launch.
    """
    setups = _setups(path, options)
    operations = tuple(word.strip() for word in options.ops.split(",") if word.strip())
    if not operations:
        raise UsageError("no operation given", hint="add --ops all_reduce,alltoall")
    if settings.launches != 1:
        raise UsageError("compare has no --launches; it repeats all setups in blocks", hint="give --blocks")
    seed = secrets.randbits(32) if options.order_seed is None else options.order_seed
    plan = series_plan(setups, RunCommand(operations, settings, launch, command_line()), options)
    for setup in setups:
        _check_flags(setup, operations, settings)
    launch = plan.launch
    whole = plan
    if settings.dry_run and not settings.show_secrets:
        plan = plan.without_secrets()
    is_one_job = launch.on is not None and runs_in_one_job(launch.on)
    if launch.on is not None:
        plan.check()
    job = show_job(plan) if is_one_job else None  # it refuses what the engine cannot run in one job
    start = starter(plan) if job is None else None
    if settings.dry_run:
        if plan.setups != whole.setups or plan.environ != whole.environ:
            print(f"# {HIDDEN_NOTE}")
        _print_dry_run(plan, options.blocks, seed, job)
        return ExitCode.OK
    if start is None:  # one job of its engine, which goes on without this process where it is to
        folder = submit_series(plan, options.blocks, seed)
        if launch.detach:
            plan.say(f"hint: busbw attach {folder.name}")
            return ExitCode.OK
        return followed(folder, plan.err, options, settings.format, cancels=True, wait=launch.wait)
    return show_measured(measure_here(plan, start, options.blocks, seed), options, settings.format)


def series_plan(setups: Sequence[Setup], command: RunCommand, options: CompareSettings) -> SeriesPlan:
    """The launches of setups: what each measures, and where. Raises UsageError."""
    launch = _placed(command.launch)  # first of all: a PBS job's hosts say how many nodes there are
    return SeriesPlan(
        setups=setups,
        counts=counts_of_nodes(launch) or (0,),
        operations=command.operations,
        settings=command.settings,
        launch=launch,
        # --env and --env-file: over every setup's own, so said.
        environ=dict(read_variables(launch.env, launch.env_file))
        if launch.on is not None
        else read_here(launch, os.environ),
        limit_seconds=LAUNCH_SECONDS if options.launch_timeout is None else options.launch_timeout or None,
        argv=command.argv,
        err=standard_error(),
    )


def measure_here(
    plan: SeriesPlan,
    start: setup_series.Starter,
    blocks: int,
    seed: int,
    losers: setup_series.Losers | None = None,
) -> setup_series.Series:
    """Launch the setups in turn, each as a run of its own."""
    nodes = () if plan.counts == (0,) else plan.counts
    series = setup_series.create_series(plan.setups, blocks, seed, nodes, plan.environ, plan.settings)
    return setup_series.measure(series, start, plan.err, losers)


def followed(
    folder: Path,
    err: TextIO,
    options: CompareSettings,
    format_name: str,
    *,
    cancels: bool,
    wait: float | None = None,
) -> ExitCode:
    """Follow a series' job to its end and show what it measured. Raises SiteError for a lost engine."""
    try:
        series = follow_series(folder, err, cancels=cancels, wait=wait)
    except SiteError as error:
        error.hint = error.hint or f"`busbw attach {folder.name}` goes on with it"
        raise
    if series is None:
        print(f"detached; the job goes on\nhint: busbw attach {folder.name}", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return show_measured(series, options, format_name)


def show_measured(series: setup_series.Series, options: CompareSettings, format_name: str) -> ExitCode:
    """A series that has ended just now; nothing but the exit code where it has no launch."""
    print(f"series   {series.folder}", file=sys.stderr)
    code = ExitCode.OK
    if series.outcomes or not series.stopped:
        code = show_series((series.folder,), options, format_name)
    if series.stopped:
        return ExitCode.INTERRUPTED if series.stopped == setup_series.INTERRUPTED else ExitCode.ENVIRONMENT
    return code


def starter(plan: SeriesPlan) -> setup_series.Starter:
    """Launches that are runs of their own: on hosts, or here."""
    if plan.launch.on is not None:
        return hosts_starter(plan)
    refuse_without_engine(plan.launch, os.environ)
    return here_starter(plan)


def _placed(launch: LaunchSettings) -> LaunchSettings:
    """The settings as the engine takes them, inside the Slurm job around; and what to know of the nodes that
    launches will have. Raises UsageError.
    """
    if launch.on is None:
        return launch
    if launch.detach and not runs_in_one_job(str(launch.on)):
        raise UsageError(
            "--detach needs --on; without it busbw starts each launch itself",
            hint="start busbw compare itself in the background, as with nohup",
        )
    launch = settled(launch)
    if around := job_around(launch, os.environ):
        print(f"note: launches run as steps of job {around}, where this command runs", file=sys.stderr)
        return as_steps(launch, around)
    return launch


def _setups(path: Path, options: CompareSettings) -> tuple[Setup, ...]:
    setups = resolve(read_setups(path))
    if options.baseline:
        chosen = [setup for setup in setups if setup.name == options.baseline]
        if not chosen:
            raise UsageError(
                f"no setup {options.baseline!r} in {path}",
                hint=f"use one of: {', '.join(setup.name for setup in setups)}",
            )
        setups = (chosen[0], *(setup for setup in setups if setup is not chosen[0]))
    if options.one_at_a_time:
        setups = one_at_a_time(setups)
    if len(setups) < 2:
        raise UsageError(f"{path} has only one setup", hint="add one to compare it with")
    # What is asked of the verdicts is refused before hours of launches, not after them.
    if options.save_env and not os.access(options.save_env.parent, os.W_OK):
        raise UsageError(f"cannot write {options.save_env}", hint="name a file that you can write")
    if options.export_setup and options.export_setup not in (setup.name for setup in setups):
        hint = f"use one of: {', '.join(setup.name for setup in setups)}"
        raise UsageError(f"no setup {options.export_setup!r}", hint=hint)
    return setups


def counts_of_nodes(launch: LaunchSettings) -> tuple[int, ...]:
    """On how many nodes each setup is launched; none: on this host."""
    counts = node_counts(launch.nodes) if launch.on is not None else []
    if not counts and launch.on == "hosts":
        return (len({place.name for place in read_places(launch)}),)
    return tuple(sorted(set(counts)))


def _check_flags(setup: Setup, operations: tuple[str, ...], settings: RunSettings) -> None:
    """Raises UsageError for what no launch of a setup could be: it must not end a series in the middle."""
    with refused_in(f"setup {setup.name}") if setup.flags else nullcontext():
        check_settings(operations, replace(settings, **setup.flags))


def _print_dry_run(plan: SeriesPlan, count: int, seed: int, job: tuple[JobRequest, Command] | None) -> None:
    for setup in plan.setups:
        # What stands behind the folders on other hosts is known there alone.
        inherited = os.environ if plan.launch.on is None else dict.fromkeys(setup.prepend, "...")
        print(f"# setup {setup.name}" + (f", extends {', '.join(setup.lineage)}" if setup.lineage else ""))
        for name in setup.unset:
            print(f"unset {name}")
        for name, value in variables(setup, inherited).items():
            over = f"  # --env has {plan.environ[name]}" if name in plan.environ else ""
            print(f"{name}={value}{over}")
        for typed in flags_typed(setup):
            print(f"# flag {typed}")
    names = [setup.name for setup in plan.setups]
    launches = count * len(names) * len(plan.counts)
    print(f"# {launches} launches in {count} blocks, order seed {seed}")
    if job is not None:
        request, launch = job
        if not plan.settings.show_secrets:
            request = request.without_secrets()
        for note in request.notes:
            plan.say(f"note: {note}")
        print("# all in one job:", *str(request).splitlines(), sep="\n# ")
        print(f"# a launch of {names[0]} in it:", *shlex.join(launch.argv).splitlines(), sep="\n# ")
    for number, order in enumerate(blocks(names, count, seed), 1):
        print(f"# block {number}: {', '.join(order)}")
