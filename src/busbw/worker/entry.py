"""A rank's life from environment to exit code, the same under every launcher.

Rank 0 brings a Director, which makes the plan once the world is known and emits what happens; every other rank
waits for the plan, so it needs no settings, no command line and no display.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, RankFailed
from busbw.model.event import Emit
from busbw.model.plan import Plan
from busbw.model.record import RunStatus
from busbw.worker.agree import RefusedTogether
from busbw.worker.lead import Lead, Request, error_event
from busbw.worker.main import run
from busbw.worker.signals import exit_on_signal
from busbw.world.base import PeerFailure, World
from busbw.world.select import WorldChoice, create

if TYPE_CHECKING:
    from busbw.world.identity import Identity


@dataclass(frozen=True)
class Director:
    """What rank 0 knows that the others do not. ``plan`` is called with the number of ranks."""

    request: Callable[[], Request]
    plan: Callable[[int], Plan]
    emit: Emit


class _Rank:
    """The failure paths of one rank; the main path is ``live``."""

    def __init__(self, director: Director | None, emit_own: Emit) -> None:
        self.director = director
        self.lead: Lead | None = None
        self._emit_own = emit_own
        self.leaving = False  # this rank failed itself and has said why

    def peer_lost(self, failure: PeerFailure) -> None:
        """Called from the world's thread or from ``World.fail``: rank 0 tells, everybody leaves."""
        error = RankFailed(
            str(failure),
            hint="look at that rank's output in the run folder",
            rank=failure.rank,
            host=failure.host,
        )
        if not self.leaving:
            self.tell(error, peer_lost=True)
        os._exit(ExitCode.RANK_FAILED)

    def interrupted(self, received: signal.Signals) -> None:
        """The user or the launcher ends the job."""
        if self.lead is not None:
            self.lead.end(RunStatus.INTERRUPTED)

    def tell(self, error: BusbwError, *, peer_lost: bool = False) -> None:
        """Rank 0 closes the record with the error; before there is a record, or on other ranks, the error is
        emitted on its own where this rank is the only one to know it.
        """
        if self.lead is not None:
            self.lead.end(RunStatus.FAILED, error, peer_lost=peer_lost)
        elif self.director is not None:
            self.director.emit(error_event(error, peer_lost=peer_lost))

    def tell_own(self, error: BusbwError) -> None:
        """An error that only this rank knows, on whatever rank it is."""
        if self.director is not None:
            self.tell(error)
        else:
            self._emit_own(error_event(error))

    def live(self, identity: Identity | None, choice: WorldChoice) -> ExitCode:
        """Join, measure, leave."""
        world = create(identity, choice, self.peer_lost)
        try:
            plan = self._plan(world)
            if plan is None:
                return ExitCode.USAGE
            outcome = run(world, plan, self.lead)
        except RefusedTogether as error:
            self.tell(error)
            world.close()
            return error.exit_code
        except BusbwError as error:
            self._leave_alone(world, error)
        except Exception as error:  # a defect of ours must not leave the other ranks waiting
            self._leave_alone(world, RankFailed(f"unexpected {type(error).__name__}: {error}"), cause=error)
        if self.lead is not None:
            self.lead.end(RunStatus.COMPLETE)
        world.close()
        return ExitCode.BAD_VERDICT if outcome.wrong_cases else ExitCode.OK

    def _plan(self, world: World) -> Plan | None:
        """The plan, from rank 0 to all; None on the other ranks when rank 0 could not make one."""
        message = None
        refused: BusbwError | None = None
        if self.director is not None:
            try:
                plan = self.director.plan(world.size)
                self.lead = Lead(self.director.request(), plan, self.director.emit)
                message = json.dumps({"plan": plan.to_json()}).encode()
            except BusbwError as error:
                refused, message = error, json.dumps({"plan": None}).encode()
        told = json.loads(world.broadcast(message))
        if refused is not None:
            raise RefusedTogether(
                refused.message, hint=refused.hint, exit_code=refused.exit_code, rank=0, host=""
            ) from refused
        return None if told["plan"] is None else Plan.from_json(told["plan"])

    def _leave_alone(self, world: World, error: BusbwError, cause: Exception | None = None) -> None:
        """This rank failed by itself: say it with rank and host, then take the others down."""
        member = world.members[world.rank]
        error.rank, error.host = world.rank, member.host
        if cause is not None and os.environ.get("BUSBW_TRACEBACK"):
            import traceback

            traceback.print_exception(cause)
        if world.kind != "nccl" or world.rank == 0:
            self.tell_own(error)
            self.leaving = True
        world.fail(error.message)


def live(
    identity: Identity | None, choice: WorldChoice, director: Director | None, emit_own: Emit
) -> ExitCode:
    """Run this process as a rank. ``director`` on rank 0 only; ``emit_own`` tells what only this rank knows."""
    rank = _Rank(director, emit_own)
    exit_on_signal(rank.interrupted)
    try:
        return rank.live(identity, choice)
    except BusbwError as error:  # before there was a world: every rank knows its own reason
        if identity is not None and error.rank is None:
            error.rank = identity.rank
        rank.tell_own(error)
        return error.exit_code
