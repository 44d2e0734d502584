"""Rank 0's extra duties: write the record and emit the event stream."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from busbw._version import __version__
from busbw.errors import BusbwError, ExitCode
from busbw.model.case import Case
from busbw.model.event import Emit, EventKind, error_event, event, now_utc
from busbw.model.finding import Finding
from busbw.model.hunt import RoundResult
from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, HostInfo, Method, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.soak import SOAK_CHECK
from busbw.model.traffic import Burst
from busbw.record.folder import ROUNDS_FILE
from busbw.record.results import append_line
from busbw.record.write import RunWriter

if TYPE_CHECKING:
    from busbw.hunt.field import Field
    from busbw.rank.retain import Kept
    from busbw.rank.soak_log import State

# Enough to even out a case that does not apply or takes long, few enough to follow growing sizes.
_RECENT: Final = 8
WRONG_FOLDER: Final = "wrong"  # what failed checks found (--save-wrong)


@dataclass(frozen=True)
class Request:
    """Which run this is, in plain values: a front process hands it to rank 0, or rank 0 makes it."""

    run_id: str
    folder: str
    argv: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


class _Pace:
    """Cases done and time left, in cases' worth of passes. The passes ahead are taken to be like the last
    ones: sizes grow, and with them the time of a case.
    """

    def __init__(self, total: int, now_s: float) -> None:
        self._total = total
        self._finished = 0
        self._shares: dict[int, float] = {}  # of cases that have had passes
        self._work = 0.0
        self._start_s = now_s
        self._recent: deque[tuple[float, float]] = deque([(now_s, 0.0)], maxlen=_RECENT + 1)

    def after(self, result: CaseResult, now_s: float, *, final: bool) -> dict[str, int | float]:
        """The fields of a progress event after a pass of a case, or its end."""
        share = 1.0 if final else min(1.0, len(result.pass_samples) / result.passes)
        self._work += share - self._shares.get(result.case, 0.0)
        self._shares[result.case] = share
        if final:
            self._finished += 1
        if self._work > self._recent[-1][1]:
            self._recent.append((now_s, self._work))
        return self.fields(now_s)

    def fields(self, now_s: float) -> dict[str, int | float]:
        """Those of a progress event."""
        (then_s, before), (last_s, after) = self._recent[0], self._recent[-1]
        a_case_s = (last_s - then_s) / (after - before) if after > before else 0.0
        return {
            "done": self._finished,
            "total": self._total,
            "elapsed_s": round(now_s - self._start_s, 3),
            "eta_s": round(a_case_s * (self._total - self._work), 3),
        }


def _begun_reading() -> Callable[[], dict[str, Any]]:
    """Begin to read this host: the driver has much to say of many GPUs, and the ranks connect meanwhile. The
    result waits for the end.
    """
    found: list[dict[str, Any]] = []

    def read() -> None:
        from busbw.machine.machine import read_hardware

        found.append(read_hardware())

    thread = threading.Thread(target=read, name="busbw-machine", daemon=True)
    thread.start()

    def result() -> dict[str, Any]:
        thread.join()
        if not found:
            read()  # it failed: here the error is seen
        return found[0]

    return result


P = ParamSpec("P")


def _unless_ended(act: Callable[Concatenate[Lead, P], None]) -> Callable[Concatenate[Lead, P], None]:
    """One thread at a time, and nothing once the record is closed."""

    @wraps(act)
    def method(lead: Lead, /, *args: P.args, **fields: P.kwargs) -> None:
        with lead._lock:
            if not lead._ended:
                act(lead, *args, **fields)

    return method


class Lead:
    """Observes the run on rank 0. ``end`` may be called from another thread (a lost peer, a signal): the
    first call wins, and nothing is written or emitted after it.
    """

    def __init__(self, request: Request, plan: Plan, emit: Emit) -> None:
        self._emit = emit
        self._plan = plan
        self._lock = threading.Lock()
        self._ended = False
        self._verdict = ExitCode.OK  # of a hunt or a soak
        self._cut_short: Callable[[], State] | None = None  # of a soak
        self._cases = Counter[Status]()
        self._pace = _Pace(len(plan.cases), time.monotonic())
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
        self._hardware = _begun_reading()

    @_unless_ended
    def found(self, findings: tuple[Finding, ...]) -> None:
        """What was noticed, the worst first."""
        self._writer.describe(findings=(*self._writer.record.findings, *findings))
        for finding in findings:
            self._emit(event(EventKind.FINDING, finding=finding))

    def started(self, world: WorldInfo, method: Method) -> None:
        """Everybody is there and connected."""
        from busbw.machine.machine import read_environment_record, with_libraries

        machine = with_libraries(self._hardware())
        environment = read_environment_record()
        self._started({"world": world, "method": method, "machine": machine, "environment": environment})

    @_unless_ended
    def _started(self, told: dict[str, Any]) -> None:
        self._writer.describe(**told)
        record = self._writer.record
        self._pace = _Pace(len(record.plan.cases), time.monotonic())
        run = {"run_id": record.run_id, "folder": str(self._writer.folder), "busbw_version": __version__}
        self._emit(event(EventKind.HEADER, **run, plan=record.plan, **told))

    @_unless_ended
    def passed(self, result: CaseResult) -> None:
        """What is known of a case so far; ``finished`` follows, unless the run ends before."""
        self._writer.note(result)
        self._emit(event(EventKind.PASS, result=result))
        self._emit(event(EventKind.PROGRESS, **self._pace.after(result, time.monotonic(), final=False)))

    @_unless_ended
    def visits(self, case: Case) -> None:
        """The arm of a race that comes next: ranks that die in it can say no more."""
        self._emit(event(EventKind.PROGRESS, **self._pace.fields(time.monotonic()), case=case.index))

    @_unless_ended
    def finished(self, result: CaseResult, kept: Kept) -> None:
        self._cases[result.status] += 1
        result = replace(result, finished=now_utc())
        self._writer.append(result, kept.samples, kept.digests)
        self._emit(event(EventKind.CASE, result=result))
        self._emit(event(EventKind.PROGRESS, **self._pace.after(result, time.monotonic(), final=True)))

    def soaking(self, cut_short: Callable[[], State]) -> None:
        """A soak begins. ``cut_short``: what it comes to where it ends in a window; any thread may ask."""
        self._cut_short = cut_short

    @_unless_ended
    def soaked(
        self, window: CaseResult, notes: tuple[str, ...], elapsed_s: float, state: State | None
    ) -> None:
        """A window is over; its ``notes`` are for people. ``state`` is what the soak comes to so far, once a
        second at most: what a kill leaves is so much older than the newest window.
        """
        if state is not None:
            self._verdict = state.code
            self._store_soak(state)
        said = {"elapsed_s": round(elapsed_s, 3), "notes": list(notes)}
        self._emit(event(EventKind.WINDOW, result=window, **said))

    def _store_soak(self, state: State) -> None:
        """All of it: launchers may kill this process without a word."""
        others = (each for each in self._writer.record.findings if each.check != SOAK_CHECK)
        results = tuple(replace(result, finished=now_utc()) for result in state.results)
        self._writer.describe(soak=state.fields, results=results, findings=(*others, *state.findings))
        for result in results:
            self._writer.hold(result)

    @_unless_ended
    def carried(self, burst: Burst) -> None:
        """What links carried in an untimed burst."""
        self._writer.describe(bursts=(*self._writer.record.bursts, burst))

    @_unless_ended
    def tested(self, field: Field, found: RoundResult) -> None:
        """A round of a hunt was run."""
        told = {"kind": field.kind, "names": field.names, **asdict(found)}
        append_line(self._writer.folder / ROUNDS_FILE, told)
        self._emit(event(EventKind.ROUND, tested=told))

    def switches(self, places: Sequence[HostInfo]) -> dict[str, str]:
        return lowest_switches(self._writer.record.settings, places)

    def judged(self, verdict: dict[str, Any], findings: tuple[Finding, ...], code: ExitCode) -> None:
        self.found(findings)
        self._judged({**verdict, "exit_code": int(code)}, code)

    @_unless_ended
    def _judged(self, told: dict[str, Any], code: ExitCode) -> None:
        self._verdict = code
        self._writer.describe(hunt=told)
        self._emit(event(EventKind.VERDICT, hunt=told))

    def saved(self, name: str, content: bytes) -> None:
        """A file of what a failed check found; into wrong/ of the run folder."""
        folder = self._writer.folder / WRONG_FOLDER
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    @property
    def folder(self) -> Path:
        return self._writer.folder

    @_unless_ended
    def used(self, memory_bytes: dict[str, int]) -> None:
        """What the run took of memory: the most of any rank."""
        if memory_bytes:
            self._writer.describe(memory_bytes=memory_bytes)
            self._emit(event(EventKind.MEMORY, most_bytes=memory_bytes))

    @_unless_ended
    def end(
        self,
        status: RunStatus,
        error: BusbwError | None = None,
        *,
        peer_lost: bool = False,
        waits: bool = False,
    ) -> None:
        """Close the record and say so. ``waits``: this rank waits for others. Later calls do nothing."""
        self._ended = True
        if self._cut_short is not None and status is not RunStatus.COMPLETE:
            self._store_soak(self._cut_short())
        for result in self._writer.unfinished:
            self._cases[result.status] += 1
            self._emit(event(EventKind.CASE, result=result))
        if error is not None:
            said = error_event(error, peer_lost=peer_lost or waits)
            self._emit({**said, "waits": True} if waits else said)
        text, hint = ("", "") if error is None else (error.message, error.hint)
        self._writer.finish(status, now_utc(), error=text, hint=hint)
        fields = {"status": status.value, "exit_code": int(self._exit_code(status, error))}
        wrong, folder = self._cases[Status.WRONG], str(self._writer.folder)
        self._emit(event(EventKind.END, **fields, wrong_cases=wrong, folder=folder))

    def _exit_code(self, status: RunStatus, error: BusbwError | None) -> ExitCode:
        if error is not None:
            return error.exit_code
        if status is RunStatus.INTERRUPTED:
            return ExitCode.INTERRUPTED
        if self._cases[Status.WRONG]:
            return ExitCode.BAD_VERDICT
        if self._cases[Status.NOT_RUN] and not self._cases[Status.GOOD]:
            return ExitCode.UNDECIDED  # the budget ended before the first case
        return self._verdict


def lowest_switches(settings: Mapping[str, Any], places: Sequence[HostInfo]) -> dict[str, str]:
    """The lowest switch of each host: what --topology came to, else Slurm's address of the node."""
    order = settings.get("rank_order") or {}
    told = {str(each["host"]): tuple(each["switches"]) for each in order.get("hosts", ())}
    found: dict[str, str] = {}
    for place in places:
        names = (place.host, place.slurm_node, place.kubernetes_node)
        own = next(
            (told[name] for name in names if told.get(name)), tuple(place.slurm_topology.split(".")[:-1])
        )
        if own:
            found[place.host] = "/".join(own)
    return found
