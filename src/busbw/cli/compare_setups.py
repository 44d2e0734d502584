"""``busbw compare setups.yaml``: measure setups in turn."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from busbw import setup_series
from busbw.analysis.compare_places import before_launches
from busbw.cli.compare_series import show_series
from busbw.errors import ExitCode, UsageError
from busbw.job_allocation import allocated
from busbw.job_session import wait_seconds
from busbw.launchers.engine import Job, JobRequest, Work, load
from busbw.launchers.hosts_list import read_places
from busbw.launchers.slurm_allocation import as_steps, is_wanted, job_around, request
from busbw.planning.make import make_plan
from busbw.planning.setups import Setup, blocks, flags_typed, one_at_a_time, resolve, variables
from busbw.record import folder as folders
from busbw.settings.compare import LAUNCH_SECONDS
from busbw.settings.flag import flag_of
from busbw.settings.setups import read_setups
from busbw.units import parse_duration

if TYPE_CHECKING:
    from busbw.settings.compare import CompareSettings
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings
    from busbw.setup_series import Starter


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
    planned = [(setup, many) for setup in setups for many in nodes or (0,)]
    starter = partial(_starter, operations, options, settings, environ=environ, argv=argv, planned=planned)
    start = starter(launch)
    job = _allocation(settings, launch, nodes)
    if settings.dry_run:
        _print_dry_run(setups, options.blocks, seed, nodes, environ, job, is_here=launch.on is None)
        return ExitCode.OK
    with contextlib.ExitStack() as held:
        if job is not None:
            taken = held.enter_context(allocated(job, wait_seconds(launch.wait, load("slurm")), sys.stderr))
            start = starter(as_steps(launch, taken))
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


def _allocation(settings: RunSettings, launch: LaunchSettings, nodes: Sequence[int]) -> JobRequest | None:
    """The job that holds the nodes of all launches, where they would be jobs of their own on Slurm."""
    if not is_wanted(launch):
        return None
    run_id = folders.new_run_id("setups")
    job = Job(
        run_id="compare" if settings.dry_run else run_id,
        folder="",
        work=Work(()),
        launch=launch,
        backend=settings.backend,
        world=settings.world,
        ranks=settings.ranks,
    )
    made = request(job, nodes, load("slurm").inquire(launch))
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
    return made


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


def _limit_seconds(options: CompareSettings, launch: LaunchSettings) -> float | None:
    """How long a launch may run; 0 is for ever. By default, none where launches are jobs of a queue: it has
    limits of its own, and a node may fetch an image first.
    """
    if options.launch_timeout:
        return parse_duration(options.launch_timeout, "--launch-timeout") or None
    in_queue = launch.on is not None and launch.on != "hosts" and not launch.job_id
    return None if in_queue else LAUNCH_SECONDS


def _starter(
    operations: tuple[str, ...],
    options: CompareSettings,
    settings: RunSettings,
    launch: LaunchSettings,
    *,
    environ: dict[str, str],
    argv: tuple[str, ...],
    planned: Sequence[tuple[Setup, int]],
) -> Starter:
    limit_seconds = _limit_seconds(options, launch)
    if launch.on is not None:
        return setup_series.engine_starter(
            operations, settings, launch, environ, limit_seconds, argv, sys.stderr, planned
        )
    from busbw.launchers.choose import local_request, rank_count
    from busbw.probes.backends import choose_backend

    if left := [name for name in launch.given() if name not in ("env", "env_file", "library_path")]:
        flag = flag_of(left[0])
        raise UsageError(f"{flag} needs an engine", hint="give --on hosts, slurm, kubernetes, pbs or batch")
    backend = choose_backend(settings.backend, settings.nccl or None)
    ranks = rank_count(settings.ranks, backend)
    make_plan(operations, settings, backend, ranks)
    request_for = partial(local_request, backend, settings.world, ranks)
    return setup_series.local_starter(
        operations, settings, backend, ranks, request_for, environ, limit_seconds, argv, sys.stderr
    )


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
        print("# all in one allocation, cancelled at the end:", *job.commands, sep="\n# ")
    for number, order in enumerate(blocks(names, count, seed), 1):
        print(f"# block {number}: {', '.join(order)}")
