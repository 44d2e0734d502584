"""Launches of setups on engines, each one a job (or a step) of its own there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw import job_session, job_submit
from busbw.errors import ExitCode, SiteError, UsageError
from busbw.job_allocation import refuse_over
from busbw.launchers.engine import Engine, Job, JobRequest, Work, load
from busbw.launchers.keep_nodes import on_nodes_of
from busbw.launchers.variables import library_folders
from busbw.model.event import Event
from busbw.planning.setups import Setup
from busbw.probes.environment import with_given
from busbw.record import folder as folders
from busbw.settings.words import to_words

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

# Front process's own words, and what a launch of a setup decides.
_OWN: Final = ("format", "dry_run", "launches", "ranks", "deliver", "presets_used", "overridden")

# What a launch that nobody ends gets beyond its limit.
_LATER_SECONDS: Final = 60.0

# Starts one launch and waits for its end: (setup, nodes or 0, run folder, hear) -> exit code. Raises
# BusbwError for a launch that cannot be started.
Starter = Callable[[Setup, int, Path, Callable[[Event], None]], ExitCode]


@dataclass(frozen=True)
class Launching:
    """What all launches of a series on an engine share. ``environ`` goes over every setup's own (``--env``),
    ``limit_seconds`` is of each.
    """

    operations: tuple[str, ...]
    settings: RunSettings
    launch: LaunchSettings
    environ: Mapping[str, str]
    limit_seconds: float | None
    argv: tuple[str, ...]
    err: TextIO

    @cached_property
    def engine(self) -> Engine:
        """Of all launches."""
        return load(str(self.launch.on))

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What the engine must know of its cluster, asked once."""
        return self.engine.inquire(self.launch)

    def settings_of(self, setup: Setup) -> RunSettings:
        """With the setup's flags."""
        return replace(self.settings, **setup.flags)

    def job_of(self, setup: Setup, nodes: int, folder: Path, launch: LaunchSettings, run_id: str = "") -> Job:
        """A launch as a job, on that many nodes (0: as ``launch`` says); ``run_id`` is the folder's name if
        it is not given.
        """
        own = self.settings_of(setup)
        words = ("run", *self.operations, *to_words(own, _OWN), "--format=jsonl", f"--deliver={folder}")
        prepend = prepended(setup, self.launch, self.environ)
        return Job(
            run_id=run_id or folder.name,
            folder=str(folder),
            work=Work(words),
            launch=replace(launch, nodes=str(nodes)) if nodes else launch,
            environ=with_given({**setup.environ, **self.environ}, also=prepend),
            prepend=prepend,
            backend=own.backend,
            world=own.world,
            ranks=own.ranks,
        )

    @property
    def last_limit_seconds(self) -> float:
        """After which a launch ends where the front process, which ends it earlier, is gone; 0 is never."""
        return self.limit_seconds + _LATER_SECONDS if self.limit_seconds else 0.0

    def planned(self, setups: Sequence[Setup], counts: Sequence[int]) -> list[JobRequest]:
        """Every setup's launch on each of ``counts`` nodes, as a job of its own. Raises UsageError for one
        that the engine cannot start: a series must not end in the middle for what is known before.
        """
        for setup in setups:
            if setup.unset:
                raise UsageError(
                    f"setup {setup.name} unsets {', '.join(setup.unset)}, which --on {self.launch.on} cannot",
                    hint="let it extend a setup without the variables, or set them to what they should be",
                )
        folder = folders.environ_home() / "LAUNCH"
        jobs = (self.job_of(setup, count, folder, self.launch) for setup in setups for count in counts)
        return [self.engine.request(job, self.facts) for job in jobs]

    def follow(
        self, setup: Setup, job: Job, request: JobRequest, hear: Callable[[Event], None], wait: str
    ) -> tuple[job_session.Following, ExitCode]:
        """Submit a launch and follow it to its end; it is given up where it has not started by ``wait``."""
        handle = job_submit.submit(job, request, self.argv, self.settings_of(setup))
        following = job_session.start_following(
            handle, Path(job.folder), hear, self.err, wait=wait, limit_seconds=self.limit_seconds
        )
        return following, job_session.follow(following)

    def say(self, text: str) -> None:
        """Tell the user, where there still is one."""
        with contextlib.suppress(OSError):
            print(text, file=self.err, flush=True)


def prepended(setup: Setup, launch: LaunchSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The setup's own, before those of --library-path; --env says a variable whole."""
    found = library_folders(launch.library_path, {**setup.environ, **environ})
    for name, own in setup.prepend.items():
        found[name] = ":".join(filter(None, (own, found.get(name, ""))))
    return {name: own for name, own in found.items() if name not in environ}


def engine_starter(shared: Launching, setups: Sequence[Setup], counts: Sequence[int]) -> Starter:
    """Launches that are jobs of their own: on the same nodes where the engine is told them (--job-id,
    --hosts), or can be told those of the first launch that measured. Raises UsageError where the engine
    cannot start a setup on one of ``counts`` nodes. A launch that failed raises AllocationOver where its
    allocation has ended.
    """
    launch = shared.launch
    kept: dict[int, LaunchSettings] = {}  # by number of nodes

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        job = shared.job_of(setup, nodes, folder, kept.get(nodes, launch))
        try:
            request = shared.engine.request(job, shared.facts)
            _, code = shared.follow(setup, job, request, hear, launch.wait)
        except SiteError:
            refuse_over(launch.job_id)
            raise
        if code not in (ExitCode.OK, ExitCode.BAD_VERDICT):
            refuse_over(launch.job_id)
        if nodes not in kept and code is ExitCode.OK:
            kept[nodes] = on_nodes_of(folder, launch, shared.err)
        return code

    shared.planned(setups, counts)
    return start
