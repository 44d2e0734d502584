"""A rank's life from environment to exit code, the same under every launcher.

Rank 0 brings a Director, which makes the plan once the world is known; every other rank waits for the plan,
so it needs no settings, no command line and no display.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from busbw.errors import BusbwError, ExitCode, LauncherMismatch, RankFailed, of_system
from busbw.model.event import Emit, Event, error_event
from busbw.model.hunt import BY_NIC
from busbw.model.plan import Plan
from busbw.model.progress import Phase
from busbw.model.record import RunStatus
from busbw.rank import progress
from busbw.rank.main import run
from busbw.rank.process import Deadline, emit, exit_on_signal
from busbw.rank.profile import option
from busbw.rank.rank0 import Lead, Request
from busbw.rank.watcher import begin, exit_code, say_hello
from busbw.rank.world.base import PeerFailure, RefusedTogether, World, of_rank_0
from busbw.rank.world.select import WorldChoice, create
from busbw.rank.world.watched import Watched

if TYPE_CHECKING:
    from busbw.rank.world.identity import Identity


# How long rank 0 may take to close the record of a run that all ranks leave at about the same time.
_TELLING_SECONDS: Final = 2.0
# MPICH reads a message of a process on the same host from that one's memory. The kernel takes that away first
# from a process that dies: on a busy host long before its connections, by which others learn of its death.
_PARTNER_GONE: Final = re.compile(r"process_vm_(?:readv|writev) failed \(errno 3\)")
# With this flag a front process, maybe far away, reads what the ranks print.
DELIVER: Final = "--deliver="
_WORLDS: Final = ("auto", "solo", "mpi", "nccl")


@dataclass(frozen=True)
class Director:
    """What rank 0 knows that the others do not. ``plan`` is called with the number of ranks.

    ``closes_record``: where rank 0 is killed, its host's watcher closes the record, since no front process on
    this host does.
    """

    request: Callable[[], Request]
    plan: Callable[[int], Plan]
    closes_record: bool = True


class _Rank:
    """The failure paths of one rank; the main path is ``live``."""

    def __init__(
        self, director: Director | None, report: Emit, rank: int, watched: Watched | None = None
    ) -> None:
        self.director = director
        self._watched = watched
        self._rank = rank
        self.lead: Lead | None = None
        self._report = report
        self._leaving = False  # this rank failed itself
        self._interrupted = False

    def peer_lost(self, failure: PeerFailure) -> None:
        """Called from the world's thread when another rank is lost: rank 0 reports it, and all leave."""
        if self._leaving:
            return  # the world's own way out follows: MPI has to abort, or the other ranks wait for ever
        if self._interrupted or signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
            return  # the job is ended, and the other rank heard it first
        reason, _, hint = failure.reason.partition("\n")
        hint = hint or "look at that rank's output"
        text = str(replace(failure, reason=reason))
        error = RankFailed(text, hint=hint, rank=failure.rank, host=failure.host)
        self.tell(error, peer_lost=True, own=failure.rank == 0 and self._rank == 1)  # rank 0 cannot
        self._say_goodbye()
        os._exit(ExitCode.RANK_FAILED)

    def _stop_waiting(self, world: World, error: BusbwError) -> None:
        """Every rank that can, says that it waits, and leaves: a rank that says nothing hangs."""
        own = world.members[world.rank]
        error.rank, error.host = own.rank, own.host
        if self.lead is not None:
            self.lead.end(RunStatus.FAILED, error, waits=True)
        else:
            self._report({**error_event(error, peer_lost=True), "waits": True})
        progress.leave()
        time.sleep(_TELLING_SECONDS)  # a launcher ends all ranks with the first: rank 0 closes the record
        os._exit(ExitCode.RANK_FAILED)

    def interrupted(self, received: signal.Signals) -> None:
        """The user or the launcher ends the job."""
        self._interrupted = True
        self._say_goodbye()  # at once: SIGKILL may follow
        if self.lead is not None:
            self.lead.end(RunStatus.INTERRUPTED)

    def _say_goodbye(self) -> None:
        """This rank is not the one that ends the others."""
        if self._watched is not None:
            self._watched.leave()

    def tell(self, error: BusbwError, *, peer_lost: bool = False, own: bool = False) -> None:
        """Rank 0 closes the record with the error, or reports it before there is one; another rank reports
        its ``own``, which it alone knows.
        """
        if self._leaving:
            return  # said already
        if self.lead is not None:
            self.lead.end(RunStatus.FAILED, error, peer_lost=peer_lost)
        elif own or self.director is not None:
            self._report(error_event(error, peer_lost=peer_lost))

    def live(self, identity: Identity | None, choice: WorldChoice) -> ExitCode:
        """Join, measure, leave."""
        hear_signals = exit_on_signal(self.interrupted)
        progress.phase(Phase.JOINING)
        world = create(identity, choice, self.peer_lost)
        progress.note(ranks=world.size)
        hear_signals()
        try:
            plan = self._plan(world)
            deadline = Deadline(plan.options.timeout_s, partial(self._stop_waiting, world))
            code = run(world, plan, self.lead, deadline)
        except RefusedTogether as error:
            self.tell(error)
            world.close()
            return error.exit_code
        except BusbwError as error:
            self._leave_alone(world, error)
        except Exception as error:  # noqa: BLE001  # a defect of ours must not leave the other ranks waiting
            if os.environ.get("BUSBW_TRACEBACK"):
                import traceback

                traceback.print_exception(error)
            self._leave_alone(world, _failed(error))
        if self.lead is not None:
            self.lead.end(RunStatus.COMPLETE)
        world.close()
        return code

    def _plan(self, world: World) -> Plan:
        """The plan, from rank 0 to all; there the record is opened. Raises RefusedTogether on all ranks when
        rank 0 could not make one.
        """
        message: dict[str, str | int] | None = None
        if self.director is not None:
            try:
                plan, request = self.director.plan(world.size), self.director.request()
                if self.director.closes_record:
                    progress.note(folder=request.folder)
                self.lead = Lead(request, plan, self._report)
                message = {"plan": plan.to_json()}
            except BusbwError as error:
                message = {"error": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
        told = of_rank_0(world, message)
        if "error" in told:
            code = ExitCode(told["exit_code"])
            raise RefusedTogether(told["error"], hint=told["hint"], exit_code=code)
        return Plan.from_json(told["plan"])

    def _leave_alone(self, world: World, error: BusbwError) -> NoReturn:
        """This rank failed by itself: say it with rank and host, then take the others down."""
        error.rank, error.host = world.rank, world.members[world.rank].host
        is_witness = _PARTNER_GONE.search(error.message) is not None
        if is_witness:  # the launcher, which may know of it later, says which rank it lost, and ends this one
            time.sleep(_TELLING_SECONDS)
        if world.kind != "nccl" or world.rank == 0:
            self.tell(error, peer_lost=is_witness, own=True)
        self._leaving = True
        # Over the TCP channel rank 0 hears it and reports it; the hint travels on a line of its own.
        world.fail(f"{error.message}\n{error.hint}" if error.hint else error.message)


def _failed(error: Exception) -> RankFailed:
    if isinstance(error, OSError) and error.filename:
        refused = of_system(error)
        return RankFailed(refused.message, hint=refused.hint)
    return RankFailed(f"unexpected {type(error).__name__}: {error}")


def live(
    identity: Identity | None,
    choice: WorldChoice,
    director: Director | None,
    report: Emit,
    watched: Watched | None = None,
) -> ExitCode:
    """Run this process as a rank. ``director`` on rank 0 only; ``report`` is called with what happens, on
    other ranks with what only they know; ``watched`` is informed that it leaves. ``process.block`` has been
    called, before anything that may have started threads.
    """
    rank = _Rank(director, report, identity.rank if identity is not None else 0, watched)
    try:
        if nic := os.environ.get(BY_NIC):
            from busbw.rank.hunt.nic import check_nic

            check_nic(nic, socket.gethostname())
        code = rank.live(identity, choice)
    except BusbwError as error:  # before there was a world: every rank knows its own reason
        if identity is not None and error.rank is None:
            error.rank = identity.rank
        # Ranks of one host are started alike, so one of them says for all why they form no world.
        is_known = isinstance(error, LauncherMismatch) and identity is not None and bool(identity.local_rank)
        if not is_known:
            rank.tell(error, own=True)
        code = error.exit_code
    progress.end()
    if watched is not None:
        watched.leave()
    return code


def follow(identity: Identity, arguments: list[str], report: Emit) -> int:
    """Live as a rank other than 0 that a launcher of the user's started: no settings, no display, one line if
    it fails alone. The exit code is the same as rank 0's. ``report`` is for the watcher of this host, where
    no front process hears it.
    """
    stall_s = progress.stall_seconds(option(arguments, "--stall") or os.environ.get(progress.VARIABLE, ""))
    if not any(word.startswith(DELIVER) for word in arguments):
        begin(identity, stall_s, report)
        return int(live(identity, world_choice(arguments), None, _print_error))
    begin(identity, stall_s, emit)
    watched = say_hello(identity.rank)
    return exit_code(int(live(identity, world_choice(arguments), None, emit, watched)))


def world_choice(arguments: list[str]) -> WorldChoice:
    """The one setting that must be known before rank 0 can send the others: how ranks find each other."""
    chosen = option(arguments, "--world") or os.environ.get("BUSBW_WORLD", "auto")
    return chosen if chosen in _WORLDS else "auto"  # type: ignore[return-value]  # rank 0 refuses the rest


def _print_error(item: Event) -> None:
    if item.get("waits"):
        return  # as all do: rank 0 says it once
    place = f"rank {item['rank']}" + (f" on {item['host']}" if item["host"] else "")
    hint = f"\nhint: {item['hint']}" if item["hint"] else ""
    print(f"error: {place}: {item['message']}{hint}", file=sys.stderr)  # noqa: T201
