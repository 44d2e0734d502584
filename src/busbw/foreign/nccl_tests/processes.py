"""``-t`` and ``-g`` above 1 under a launcher: each of its processes starts threads x GPUs ranks of its own.

The processes meet once, in the world that their launcher has, and learn from process 0 where their ranks
meet: in the world that needs no MPI, since MPI takes in no process that its launcher did not start. Then a
process only waits for its ranks, passes on what ends it, and leaves with their status.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from busbw.errors import BusbwError, ExitCode, LauncherMismatch, RankFailed, UsageError
from busbw.foreign.nccl_tests.environment import read_variables

if TYPE_CHECKING:
    from busbw.foreign.nccl_tests.flags import Line
    from busbw.launch.base import Command
    from busbw.rank.world.base import World
    from busbw.rank.world.identity import Identity
    from busbw.rank.world.meet import Met

# What a rank that was started here knows of it: the number of processes, and who started those.
_VARIABLE: Final = "BUSBW_PROCESSES"
# How long the others may take to leave by themselves once one has ended badly: they hear of it over their
# channel, and rank 0 closes the record.
_LEAVE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Processes:
    """The processes that a launcher started, each with ``each`` ranks."""

    launcher: str
    count: int
    each: int

    def __str__(self) -> str:
        return f"{self.count} (started by {self.launcher})"

    def split(self, expression: str) -> str:
        """A split of processes, as one of their ranks."""
        return f"DIV {self.each} {expression}" if expression and self.each > 1 else expression


@dataclass(frozen=True)
class Share:
    """Which ranks a process starts: ``each`` of them, as ``local`` of ``here`` processes of its host."""

    process: int
    processes: int
    local: int
    here: int
    each: int

    def variables(self, index: int) -> dict[str, str]:
        """Who the process's rank ``index`` is."""
        return {
            "BUSBW_RANK": str(self.process * self.each + index),
            "BUSBW_WORLD_SIZE": str(self.processes * self.each),
            "BUSBW_LOCAL_RANK": str(self.local * self.each + index),
            "BUSBW_LOCAL_SIZE": str(self.here * self.each),
        }


def of_several(identity: Identity, line: Line) -> tuple[Identity, Processes]:
    """The rank with the launcher's name, and the processes that it belongs to."""
    count, _, launcher = os.environ.get(_VARIABLE, "").partition(" ")
    if identity.launcher != "busbw" or not launcher:
        return identity, Processes(identity.launcher, identity.size or 0, 1)
    found = Processes(launcher, int(count), line.options.ranks_per_process)
    return replace(identity, launcher=launcher), found


def starts_ranks(identity: Identity, line: Line) -> bool:
    """Whether this process of a launcher is to start ranks, instead of being one."""
    was_started_here = identity.launcher == "busbw" and _VARIABLE in os.environ
    return line.options.ranks_per_process > 1 and not was_started_here


def start_ranks(identity: Identity, line: Line, words: Sequence[str]) -> int:
    """Start this process's ranks, and wait for them; gives their exit status. Every process comes here.

    Raises BusbwError where they cannot be started, on process 0 for all; and on the others what only they
    know.
    """
    from busbw.rank.entry import world_choice
    from busbw.rank.process import exit_on_signal
    from busbw.rank.world.meet import meet

    each, stop = line.options.ranks_per_process, Stop()
    read_variables(os.environ)  # refuses what no rank could do
    hear_signals = exit_on_signal(stop.ask)
    refused = Refused(identity, line)
    try:
        met = meet(identity, world_choice([line.program]), b"", refused.or_root)
    except RankFailed as error:
        error.rank = None  # the message has it, and it is a process's number
        raise
    if refused.error is not None:
        raise refused.error
    answer = json.loads(met.answer)
    if "exit_code" in answer:
        return int(answer["exit_code"])  # process 0 says why
    if met.rank == 0:
        _say_of_cores(each)
    share = Share(met.rank, len(met.members), met.me.local_rank, met.here, each)
    commands = rank_commands(share, identity.launcher, answer["root"], answer["token"], words)
    hear_signals()
    index, code = run_here(commands, stop)
    if stop.asked.is_set():
        return ExitCode.INTERRUPTED
    if code >= 0:
        return code
    _say_of_death(share, met, index, -code)
    return ExitCode.RANK_FAILED


def rank_commands(
    share: Share, launcher: str, root: str, token: str, words: Sequence[str]
) -> tuple[Command, ...]:
    """What a process starts: the same line, for one rank each."""
    from busbw.launch.base import Command

    commands = []
    for index in range(share.each):
        environ = {
            **share.variables(index),
            "BUSBW_LAUNCHER": "busbw",
            "BUSBW_WORLD": "nccl",
            "BUSBW_ROOT": root,
            "BUSBW_TOKEN": token,
            _VARIABLE: f"{share.processes} {launcher}",
        }
        argv = (sys.executable, "-m", "busbw", "nccl-tests", *words)
        commands.append(Command(argv, environ))
    return tuple(commands)


class Stop:
    """How the thread that hears signals has the ranks ended, before it ends this process."""

    def __init__(self) -> None:
        self.asked, self.done = threading.Event(), threading.Event()

    def ask(self, received: signal.Signals) -> None:
        """Wait until they are gone."""
        self.asked.set()
        self.done.wait()


def run_here(
    commands: tuple[Command, ...], stop: Stop, leave_seconds: float = _LEAVE_SECONDS
) -> tuple[int, int]:
    """Run commands until all have ended, and pass on what they print. Gives the bad end that says most, as
    index and code (negative for a signal, which says more than what other ranks make of it), or (-1, 0).

    Raises SiteError for one that cannot be started.
    """
    from busbw.launch.processes import pass_on

    try:
        codes = pass_on(commands, stop.asked.is_set, leave_seconds)
    finally:
        stop.done.set()
    bad = [(code > 0, index, code) for index, code in sorted(codes.items()) if code]
    return min(bad, default=(False, -1, 0))[1:]


class Refused:
    """Process 0's answer to all: where ranks meet, or an error that it keeps."""

    def __init__(self, identity: Identity, line: Line) -> None:
        self._identity, self._line = identity, line
        self.error: BusbwError | None = None

    def or_root(self, world: World, _said: list[bytes]) -> bytes:
        from busbw.rank.world.meet import root_for_ranks

        try:
            self._refuse(world.size)
        except BusbwError as error:
            self.error = error
            return json.dumps({"exit_code": int(error.exit_code)}).encode()
        root = root_for_ranks(world, self._identity, os.environ)
        return json.dumps({"root": root, "token": secrets.token_hex(16)}).encode()

    def _refuse(self, processes: int) -> None:
        """Raises BusbwError."""
        from busbw.foreign.door import in_words_of
        from busbw.foreign.nccl_tests.settings import THEIR_FLAGS, backend_wanted
        from busbw.machine.backends import choose_backend

        with in_words_of(THEIR_FLAGS):
            backend = choose_backend(*backend_wanted())
        if backend == "mpi":
            o, each = self._line.options, self._line.options.ranks_per_process
            raise UsageError(
                f"-t {o.nthreads} -g {o.ngpus} asks for {each} ranks in each of {processes} processes"
                f" (started by {self._identity.launcher}), but CPU ranks use MPI, which cannot add ranks"
                " after start",
                hint=f"start {processes * each} processes, each with -t 1 -g 1",
            )


def failed_alone(identity: Identity, error: BusbwError) -> int:
    """A process other than 0 that did not meet the others says why, unless one beside it does."""
    beside = isinstance(error, LauncherMismatch) and bool(identity.local_rank)
    if not isinstance(error, UsageError) and not beside:
        print(f"error: process {identity.rank}: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
    return int(error.exit_code)


def _say_of_cores(each: int) -> None:
    """Launchers bind processes that they take for one rank each."""
    cores = len(os.sched_getaffinity(0))
    if cores < min(each, os.cpu_count() or 1):
        _note(
            f"process 0 may use {cores} of {os.cpu_count()} CPUs, which its {each} ranks share; let the"
            f" launcher bind a process to {each} cores or more"
        )


def _say_of_death(share: Share, met: Met, index: int, number: int) -> None:
    rank = share.variables(index)["BUSBW_RANK"]
    _note(f"rank {rank} on {met.me.host} was ended by {signal.Signals(number).name}")


def _note(text: str) -> None:
    print(f"busbw: {text}", file=sys.stderr, flush=True)


def processes_words(processes: Processes, line: Line) -> str:
    """The shares of a launch, for stderr."""
    if processes.each == 1:
        return f"processes {processes} x threads 1 x GPUs 1"
    o = line.options
    shares = f"processes {processes} x threads {o.nthreads} x GPUs {o.ngpus}"
    return f"{shares}; each rank is a process of its own here"
