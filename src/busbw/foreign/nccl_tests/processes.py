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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from busbw.errors import BusbwError, ExitCode, LauncherMismatch, RankFailed, UsageError
from busbw.foreign.nccl_tests.flags import read_variables
from busbw.rank.world.base import RefusedTogether

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
    """The processes that a launcher started, each with ``each`` ranks; without a launcher this one."""

    launcher: str
    count: int
    each: int

    def __str__(self) -> str:
        return f"{self.count} (started by {self.launcher})" if self.launcher else str(self.count)

    def split(self, expression: str) -> str:
        """A split of processes, as one of their ranks."""
        return f"DIV {self.each} {expression}" if expression and self.each > 1 else expression


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

    Raises BusbwError where they cannot be started: RefusedTogether on all processes, others on the one that
    knows it.
    """
    from busbw.launch.interrupt import Interrupt
    from busbw.launch.processes import pass_on
    from busbw.rank.entry import world_choice
    from busbw.rank.world.meet import meet

    read_variables(os.environ)  # refuses what no rank could do
    _end_on_signals()
    try:
        met = meet(identity, world_choice([line.program]), partial(answer, identity, line))
    except (RankFailed, RefusedTogether) as error:
        error.rank, error.host = None, ""  # the message has it, and it is a process's number
        raise
    commands = rank_commands(met, identity.launcher, line, words)
    if met.rank == 0:
        _say_of_cores(len(commands))
    with Interrupt() as interrupt:
        codes = pass_on(commands, lambda: interrupt.requested, _LEAVE_SECONDS)
    if interrupt.requested:
        return ExitCode.INTERRUPTED
    index, code = worst(codes)
    if code >= 0:
        return code
    rank, name = commands[index].environ["BUSBW_RANK"], signal.Signals(-code).name
    _note(f"rank {rank} on {met.me.host} was ended by {name}")
    return ExitCode.RANK_FAILED


def _end_on_signals() -> None:
    """Signals end this process itself until it has ranks: MPI_Init may wait for ever, and no Python runs."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def answer(identity: Identity, line: Line, world: World) -> bytes:
    """Process 0's to all: where ranks meet. Raises BusbwError."""
    from busbw.foreign.door import in_words_of
    from busbw.foreign.nccl_tests.settings import THEIR_FLAGS, backend_wanted
    from busbw.machine.backends import choose_backend
    from busbw.rank.world.meet import root_for_ranks

    with in_words_of(THEIR_FLAGS):
        backend = choose_backend(*backend_wanted())
    if backend == "mpi":
        o, each = line.options, line.options.ranks_per_process
        raise UsageError(
            f"-t {o.nthreads} -g {o.ngpus} asks for {each} ranks in each of {world.size} processes"
            f" (started by {identity.launcher}), but CPU ranks use MPI, which cannot add ranks after start",
            hint=f"start {world.size * each} processes, each with -t 1 -g 1",
        )
    root = root_for_ranks(world, identity, os.environ)
    return json.dumps({"root": root, "token": secrets.token_hex(16)}).encode()


def rank_commands(met: Met, launcher: str, line: Line, words: Sequence[str]) -> tuple[Command, ...]:
    """What a process starts: the same line, for one rank each, numbered process by process."""
    from busbw.launch.base import Command, rank_variables

    each, count = line.options.ranks_per_process, len(met.members)
    where = json.loads(met.answer)
    own = {"BUSBW_WORLD": "nccl", "BUSBW_TOKEN": where["token"], _VARIABLE: f"{count} {launcher}"}
    argv = (sys.executable, "-m", "busbw", "nccl-tests", *words)
    commands = []
    for index in range(each):
        of_all = (met.rank * each + index, count * each)
        of_host = (met.me.local_rank * each + index, met.here * each)
        environ = {**rank_variables(of_all, of_host, where["root"]), **own}
        commands.append(Command(argv, environ))
    return tuple(commands)


def worst(codes: Mapping[int, int]) -> tuple[int, int]:
    """The bad end that says most, as index and code (negative for a signal, which says more than what other
    ranks make of it); (-1, 0) where there is none.
    """
    bad = [(code > 0, index, code) for index, code in sorted(codes.items()) if code]
    return min(bad, default=(False, -1, 0))[1:]


def failed_alone(identity: Identity, error: BusbwError) -> int:
    """A process other than 0 that did not meet the others says why, unless one beside it does."""
    beside = isinstance(error, LauncherMismatch) and bool(identity.local_rank)
    if not isinstance(error, UsageError | RefusedTogether) and not beside:
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


def _note(text: str) -> None:
    print(f"busbw: {text}", file=sys.stderr, flush=True)


def processes_words(processes: Processes, line: Line) -> str:
    """The shares of a launch, for stderr."""
    o, each = line.options, processes.each
    shares = f"processes {processes} x threads {o.nthreads} x GPUs {o.ngpus}"
    return f"{shares}; each rank is a process of its own here" if each > 1 else shares
