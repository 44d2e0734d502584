"""Rank 0's extra duties: write the record and emit the event stream."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw._version import __version__
from busbw.errors import BusbwError, ExitCode
from busbw.model.event import Emit, EventKind, event
from busbw.model.record import SCHEMA_VERSION, Method, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.record.write import RunWriter

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.worker.retain import Kept


@dataclass(frozen=True)
class Request:
    """Which run this is, in plain values: what a front process hands to rank 0, or rank 0 makes for
    itself.
    """

    run_id: str
    folder: str
    argv: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


def now_utc() -> str:
    """ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Lead:
    """Observes the run on rank 0. ``end`` may be called from another thread (a lost peer, a signal): the
    first call wins, and nothing is written or emitted after it.
    """

    def __init__(self, request: Request, plan: Plan, emit: Emit) -> None:
        self._emit = emit
        self._plan = plan
        self._lock = threading.Lock()
        self._ended = False
        self._wrong = 0
        record = RunRecord(
            schema=SCHEMA_VERSION,
            run_id=request.run_id,
            busbw_version=__version__,
            created=now_utc(),
            argv=request.argv,
            settings=request.settings,
            plan=plan,
            status=RunStatus.RUNNING,
        )
        self._writer = RunWriter(Path(request.folder), record)

    def started(self, world: WorldInfo, method: Method) -> None:
        """See Observer."""
        from busbw.probes.machine import read_environment_record, read_machine

        with self._lock:
            if self._ended:
                return
            self._writer.describe(
                world=world, method=method, machine=read_machine(), environment=read_environment_record()
            )
            record = self._writer.record
            self._emit(
                event(
                    EventKind.HEADER,
                    run_id=record.run_id,
                    folder=str(self._writer.folder),
                    busbw_version=__version__,
                    plan=record.plan,
                    world=world,
                    method=method,
                )
            )

    def finished(self, result: CaseResult, kept: Kept) -> None:
        """See Observer."""
        with self._lock:
            if self._ended:
                return
            self._wrong += result.status is Status.WRONG
            self._writer.append(result, kept.samples, kept.digests)
            self._emit(event(EventKind.CASE, result=result))

    def end(self, status: RunStatus, error: BusbwError | None = None, *, peer_lost: bool = False) -> None:
        """Close the record and say so. Later calls do nothing."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if error is not None:
                self._emit(error_event(error, peer_lost=peer_lost))
            text = error.message if error is not None else ""
            self._writer.finish(status, now_utc(), error=text, hint=error.hint if error is not None else "")
            self._emit(
                event(
                    EventKind.END,
                    status=status.value,
                    exit_code=int(self._exit_code(status, error)),
                    wrong_cases=self._wrong,
                    folder=str(self._writer.folder),
                )
            )

    def _exit_code(self, status: RunStatus, error: BusbwError | None) -> ExitCode:
        if error is not None:
            return error.exit_code
        if status is RunStatus.INTERRUPTED:
            return ExitCode.INTERRUPTED
        return ExitCode.BAD_VERDICT if self._wrong else ExitCode.OK


def error_event(error: BusbwError, *, peer_lost: bool = False) -> dict[str, Any]:
    """An error as an event, with its place. ``peer_lost`` marks what another rank can only say from
    outside.
    """
    return event(
        EventKind.ERROR,
        message=error.message,
        hint=error.hint,
        rank=error.rank,
        host=error.host,
        exit_code=int(error.exit_code),
        peer_lost=peer_lost,
    )
