"""``busbw compare setups.yaml``: measure setups in turn."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import setup_series
from busbw.analysis.compare_places import before_launches
from busbw.cli.compare_launches import Launches, starting
from busbw.cli.compare_series import show_series
from busbw.errors import ExitCode, UsageError
from busbw.launchers.engine import JobRequest
from busbw.launchers.hosts_list import read_places
from busbw.launchers.slurm_allocation import as_steps, job_around
from busbw.planning.make import make_plan
from busbw.planning.setups import Setup, blocks, flags_typed, one_at_a_time, resolve, variables
from busbw.settings.setups import read_setups

if TYPE_CHECKING:
    from busbw.settings.compare import CompareSettings
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings


def measure_setups(
    path: Path,
    options: CompareSettings,
    settings: RunSettings,
    launch: LaunchSettings,
    argv: tuple[str, ...],
) -> ExitCode:
    """Launch the setups of a file in random blocks and show the series. Raises BusbwError for everything that
    ends it before its first launch.
    """
    setups = _setups(path, options)
    operations = tuple(word.strip() for word in options.ops.split(",") if word.strip())
    if not operations:
        raise UsageError("no operation given", hint="add --ops all_reduce,alltoall")
    if settings.launches != 1:
        raise UsageError("--launches is the number of blocks here", hint="give --blocks")
    if options.blocks < 1:
        raise UsageError(f"--blocks {options.blocks} is too small", hint="give 1 or more; 6 for an interval")
    _check_verdict(setups, options)
    seed = secrets.randbits(32) if options.order_seed is None else options.order_seed
    launch = _placed(launch)  # first of all: a PBS job's hosts say how many nodes there are
    nodes = _node_counts(launch)
    environ = _own_variables(launch)
    for setup in setups:
        _check_flags(setup, operations, settings)
    how = Launches(operations, options, settings, launch, environ, argv)
    job, opened = starting(how, setups, nodes)
    if settings.dry_run:
        _print_dry_run(setups, options.blocks, seed, nodes, environ, job, is_here=launch.on is None)
        return ExitCode.OK
    with opened as start:
        series = setup_series.measure(setups, options.blocks, seed, nodes, environ, start, sys.stderr)
    print(f"series   {series.folder}", file=sys.stderr)
    code = show_series((series.folder,), options, settings.format)
    if series.stopped:
        return ExitCode.INTERRUPTED if series.stopped == setup_series.INTERRUPTED else ExitCode.ENVIRONMENT
    return code


def _placed(launch: LaunchSettings) -> LaunchSettings:
    """The settings as the engine takes them, inside the Slurm job around; and what to know of the nodes that
    launches will have. Raises UsageError.
    """
    if launch.on is None:
        return launch
    from busbw.cli.on import settled

    if launch.detach:
        raise UsageError(
            "--detach means nothing here: launches follow one another",
            hint="start busbw compare itself in the background, as with nohup",
        )
    launch = settled(launch)
    if around := job_around(launch, os.environ):
        print(f"note: launches are steps of job {around}, which this is in", file=sys.stderr)
        return as_steps(launch, around)
    if told := before_launches(str(launch.on)):
        print(f"note: {told}", file=sys.stderr)
    return launch


def _check_verdict(setups: Sequence[Setup], options: CompareSettings) -> None:
    """What is asked of the verdicts: told before hours of launches, not after them. Raises UsageError."""
    from busbw.cli.compare import rule_of

    rule_of(options)
    if options.save_env and not os.access(options.save_env.parent, os.W_OK):
        raise UsageError(f"cannot write {options.save_env}", hint="name a file that you can write")
    names = [setup.name for setup in setups]
    if options.export_setup and options.export_setup not in names:
        raise UsageError(f"no setup {options.export_setup!r}", hint=f"the file has: {', '.join(names)}")


def _setups(path: Path, options: CompareSettings) -> tuple[Setup, ...]:
    setups = resolve(read_setups(path))
    if options.baseline:
        chosen = [setup for setup in setups if setup.name == options.baseline]
        if not chosen:
            raise UsageError(
                f"no setup {options.baseline!r} in {path}",
                hint=f"the file has: {', '.join(setup.name for setup in setups)}",
            )
        setups = (chosen[0], *(setup for setup in setups if setup is not chosen[0]))
    if options.one_at_a_time:
        setups = one_at_a_time(setups)
    if len(setups) < 2:
        raise UsageError(f"{path} has one setup only", hint="add one to compare it with")
    return setups


def _node_counts(launch: LaunchSettings) -> tuple[int, ...]:
    words = [word.strip() for word in launch.nodes.split(",") if word.strip()]
    if words and launch.on is None:
        raise UsageError("--nodes needs an engine", hint="give --on hosts, slurm, kubernetes, pbs or batch")
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--nodes {launch.nodes} is no number of nodes", hint="give 8, or 2,4,8")
    if not words and launch.on == "hosts":
        return (len({place.name for place in read_places(launch)}),)
    return tuple(sorted(map(int, words)))


def _own_variables(launch: LaunchSettings) -> dict[str, str]:
    """--env and --env-file: over every setup's own, so said."""
    from busbw.launchers.variables import read_here, read_variables

    if launch.on is None:
        return read_here(launch, os.environ)
    return dict(read_variables(launch.env, launch.env_file))


def _check_flags(setup: Setup, operations: tuple[str, ...], settings: RunSettings) -> None:
    """Raises UsageError for what no launch of a setup could be: it must not end a series in the middle."""
    own = replace(settings, **setup.flags)
    try:
        make_plan(operations, own, "null", max(own.ranks or 1, 1))
    except UsageError as error:
        if not setup.flags:
            raise
        raise UsageError(f"setup {setup.name}: {error.message}", hint=error.hint) from error


def _print_dry_run(
    setups: Sequence[Setup],
    count: int,
    seed: int,
    nodes: Sequence[int],
    environ: dict[str, str],
    job: JobRequest | None,
    *,
    is_here: bool,
) -> None:
    for setup in setups:
        # What stands behind the folders on other hosts is known there alone.
        inherited = os.environ if is_here else dict.fromkeys(setup.prepend, "...")
        print(f"# setup {setup.name}" + (f", extends {', '.join(setup.lineage)}" if setup.lineage else ""))
        for name in setup.unset:
            print(f"unset {name}")
        for name, value in variables(setup, inherited).items():
            over = f"  # --env has {environ[name]}" if name in environ else ""
            print(f"{name}={value}{over}")
        for typed in flags_typed(setup):
            print(f"# flag {typed}")
    names = [setup.name for setup in setups]
    launches = count * len(setups) * max(len(nodes), 1)
    print(f"# {launches} launches in {count} blocks, order seed {seed}")
    if job is not None:
        lines = str(job).splitlines()
        print("# all in one allocation, cancelled at the end:", *lines, sep="\n# ")
    for number, order in enumerate(blocks(names, count, seed), 1):
        print(f"# block {number}: {', '.join(order)}")
