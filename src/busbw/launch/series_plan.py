"""What the launches of a series are, and two ways to start one: on this host, or as a run of its own.

The third way, all of them inside one job of an engine, is ``series_job``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TextIO, cast

from busbw.errors import ExitCode, UsageError
from busbw.launch import follow, here, submit
from busbw.launch.base import LaunchRequest
from busbw.launch.engine import Facts, Job, SeriesEngine, Work, load
from busbw.launch.local import local_request, rank_count
from busbw.launch.series import Starter
from busbw.launch.variables import library_folders
from busbw.machine.backends import NCCL_VARIABLE, choose_backend
from busbw.machine.environment import given_here, with_given
from busbw.model.event import Event
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan
from busbw.plan.request import rank_words
from busbw.plan.setups import Setup, variables
from busbw.record import folder as folders
from busbw.redact import HIDDEN, redact_variables


@dataclass(frozen=True)
class SeriesPlan:
    """Launches of ``setups``, each on every one of ``counts`` nodes (0: as ``launch`` says, or this host).

    ``environ`` goes over every setup's own (``--env``), ``limit_seconds`` is of each launch.
    """

    setups: Sequence[Setup]
    counts: Sequence[int]
    operations: tuple[str, ...]
    settings: RunSettings
    launch: LaunchSettings
    environ: Mapping[str, str]
    limit_seconds: float | None
    argv: tuple[str, ...]
    err: TextIO

    @cached_property
    def engine(self) -> SeriesEngine:
        """Of all launches; which may do no more than an Engine."""
        return cast("SeriesEngine", load(str(self.launch.on)))

    @cached_property
    def facts(self) -> Facts:
        """What the engine must know of its cluster, asked once."""
        return self.engine.inquire(self.launch, dry=self.settings.dry_run)

    def without_secrets(self) -> SeriesPlan:
        """As a dry run shows it."""
        setups = (
            replace(
                setup,
                environ=redact_variables(setup.environ, HIDDEN),
                prepend=redact_variables(setup.prepend, HIDDEN),
            )
            for setup in self.setups
        )
        return replace(self, setups=tuple(setups), environ=redact_variables(self.environ, HIDDEN))

    def settings_of(self, setup: Setup) -> RunSettings:
        """With the setup's flags."""
        return replace(self.settings, **setup.flags)

    def job_of(self, setup: Setup, nodes: int, folder: Path, run_id: str = "") -> Job:
        """A launch as a job; ``run_id`` is the folder's name if it is not given."""
        own = self.settings_of(setup)
        prepend = prepended(setup, self.launch, self.environ)
        return Job(
            run_id=run_id or folder.name,
            folder=str(folder),
            work=Work(rank_words(self.operations, own, folder)),
            launch=replace(self.launch, nodes=str(nodes)) if nodes else self.launch,
            environ=with_given({**setup.environ, **self.environ}, also=prepend),
            prepend=prepend,
            backend=own.backend,
            world=own.world,
            ranks=own.ranks,
        )

    def check(self) -> None:
        """Raises UsageError for a launch that the engine cannot start: a series must not end in the middle
        for what is known before.
        """
        for setup in self.setups:
            if setup.unset:
                raise UsageError(
                    f"setup {setup.name} unsets {', '.join(setup.unset)}, which --on {self.launch.on} cannot",
                    hint="extend a setup without these variables, or set them",
                )
        folder = folders.environ_home() / "LAUNCH"
        for setup in self.setups:
            for count in self.counts:
                self.engine.request(self.job_of(setup, count, folder), self.facts)

    def say(self, text: str) -> None:
        """Print for the user, where there still is one."""
        with contextlib.suppress(OSError):
            print(text, file=self.err, flush=True)


def prepended(setup: Setup, launch: LaunchSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The setup's own, before those of --library-path; --env says a variable whole."""
    found = library_folders(launch.library_path, {**setup.environ, **environ})
    for name, own in setup.prepend.items():
        found[name] = ":".join(filter(None, (own, found.get(name, ""))))
    return {name: own for name, own in found.items() if name not in environ}


def hosts_starter(plan: SeriesPlan) -> Starter:
    """Launches that are runs of their own, on the same hosts."""

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        job = plan.job_of(setup, nodes, folder)
        request = plan.engine.request(job, plan.facts)
        handle = submit.submit(job, request, plan.argv, plan.settings_of(setup))
        following = follow.Following(
            handle, folder, hear, plan.err, wait=plan.launch.wait, limit_seconds=plan.limit_seconds
        )
        return following.follow()

    return start


def here_starter(plan: SeriesPlan) -> Starter:
    """Launches on this host."""
    backend = choose_backend(plan.settings.backend, plan.settings.nccl or None)
    for setup in plan.setups:  # before the first launch
        own = plan.settings_of(setup)
        given = {**setup.environ, **plan.environ}.get(NCCL_VARIABLE)
        choose_backend(own.backend, own.nccl or given)
    ranks = rank_count(plan.settings.ranks, backend)
    request_for = partial(local_request, backend, plan.settings.world, ranks)

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        del nodes
        own = plan.settings_of(setup)
        made = make_plan(plan.operations, own, backend, ranks)
        # The inherited environment is read at each launch: what extends it must not see an earlier setup.
        asked = with_given({**variables(setup, os.environ), **plan.environ}, also=given_here(os.environ))

        def request(request_file: str) -> LaunchRequest:
            return request_for(request_file).given(asked, {}, setup.unset)

        limit_seconds = plan.limit_seconds
        return here.measure(
            made, own, plan.argv, request, hear, plan.err, folder=folder, limit_seconds=limit_seconds
        )

    return start
