"""Runs a fixed list of launches in the pods of one job: every turn is a fresh start of the ranks, and the
nodes stay the job's. Runs inside each pod: ``python -m busbw.launchers.in_turn``.

The pods meet before each turn, so that none begins one while another is still in the turn before, and are
told at once where it went wrong in one of them: ranks that wait for a dead one are ended, as the end of a job
of their own would have done. Turns are marked in the pod's output by events; one that fails does not end the
list.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TextIO

from busbw.errors import BusbwError, ExitCode, RankFailed
from busbw.launchers.interrupt import as_ctrl_c
from busbw.model.event import EventKind, decode, encode, event
from busbw.world.solo import SoloWorld

if TYPE_CHECKING:
    from busbw.world.base import PeerFailure, World

# The variable that has the plan.
VARIABLE: Final = "BUSBW_TURNS"
DELIVER: Final = "--deliver="
_PLACE: Final = "JOB_COMPLETION_INDEX"
_TOKEN: Final = "BUSBW_TOKEN"
# After the first turn a pod that does not come is one that died, and the job ends for it.
_FOR_EVER_SECONDS: Final = 7 * 24 * 3600.0
# How long ranks may take over their last words once those of another pod ended badly, and to end when told
# to: more than what starts several ranks gives them (launchers.processes).
_LAST_WORDS_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 15.0
_KILLED_SECONDS: Final = 10.0
# What ranks leave behind (a guard with something to say) has this long before it is ended.
_LEFT_SECONDS: Final = 1.0
# A rank that lost another one ends at once: who it lost is heard a moment later.
_SETTLE_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.02
# So often in a row a setup may be ended by the limit; it is not tried again then.
_MOST_LATE: Final = 2
_PR_SET_CHILD_SUBREAPER: Final = 36
_RUN, _SKIP = b"run", b"skip"


@dataclass(frozen=True)
class Start:
    """How the launches of one setup are started, as a pod of their own would have been."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True)
class Turn:
    """One launch: which of the starts, and the run folder that the front process has for it."""

    start: int
    folder: str


@dataclass(frozen=True)
class Plan:
    """What the pods do. ``root`` is the host name of pod 0; ``limit_seconds`` is of each turn."""

    pods: int
    root: str
    connect_seconds: float
    limit_seconds: float | None
    starts: tuple[Start, ...]
    turns: tuple[Turn, ...]

    def to_json(self) -> str:
        """As VARIABLE has it: in lines, since people read it in the job's manifest."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Plan:
        """The inverse of ``to_json``."""
        fields = json.loads(text)
        fields["starts"] = tuple(Start(tuple(one["argv"]), one["environ"]) for one in fields["starts"])
        fields["turns"] = tuple(Turn(**one) for one in fields["turns"])
        return Plan(**fields)


@dataclass(frozen=True)
class End:
    """How a turn ended in one pod: the exit code as a container has it, after how long, and whether that was
    the limit.
    """

    code: int
    seconds: float
    late: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether the other pods' ranks may wait for this one's."""
        return self.code != 0 or self.late


@dataclass(frozen=True)
class Mark:
    """A turn's mark in a pod's output: begin, late (it is being ended for its limit), skip, or end. An end
    has what the pod knows of all pods: pod 0 hears of each, or of the first that went wrong; ``lost`` are
    pods that went without a word.
    """

    turn: int
    what: str
    ends: Mapping[int, End]
    lost: tuple[int, ...] = ()


def read_mark(line: str) -> Mark | None:
    """The mark that a line has; None where it has none."""
    item = decode(line)
    if item is None or item["event"] != EventKind.TURN:
        return None
    ends = {int(pod): End(**end) for pod, end in item["ends"].items()}
    return Mark(int(item["turn"]), str(item["what"]), ends, tuple(item["lost"]))


def _mark(mark: Mark) -> None:
    ends = {str(pod): asdict(end) for pod, end in mark.ends.items()}
    line = encode(event(EventKind.TURN, turn=mark.turn, what=mark.what, ends=ends, lost=mark.lost))
    _say(line, sys.stdout)


def _say(text: str, to: TextIO = sys.stderr) -> None:
    print(text, file=to, flush=True)


def command(plan: Plan, number: int) -> tuple[str, ...]:
    """What a turn executes: its setup's command, with the folder of its own run."""
    turn = plan.turns[number]
    argv = plan.starts[turn.start].argv
    return tuple(f"{DELIVER}{turn.folder}" if word.startswith(DELIVER) else word for word in argv)


def environment(plan: Plan, number: int, own: Mapping[str, str]) -> dict[str, str]:
    """What a turn's command gets, where ``own`` is the pod's: as in a pod of its own. The token, random as it
    is there, is another one in each turn: a rank that outlived its turn is let into no later world.
    """
    found = {name: value for name, value in own.items() if name != VARIABLE}
    found |= plan.starts[plan.turns[number].start].environ
    if token := own.get(_TOKEN):
        found[_TOKEN] = f"{token}-{number}"
    return found


def meet(
    plan: Plan, number: int, place: int, own: Mapping[str, str], tell: Callable[[PeerFailure], None]
) -> World:
    """All pods, once each is ready for this turn. Raises BusbwError where one does not come."""
    if plan.pods == 1:
        return SoloWorld()
    from busbw.world import nccl
    from busbw.world.channel import Timing
    from busbw.world.identity import Identity

    identity = Identity(
        launcher="kubernetes",
        rank=place,
        size=plan.pods,
        local_rank=0,
        local_size=1,
        world="nccl",
        mpi_family=None,
        root_host=plan.root,
        root_port=None,
        token=f"{own.get(_TOKEN) or plan.root} turn {number}",
        token_is_secret=bool(own.get(_TOKEN)),
    )
    seconds = plan.connect_seconds if number == 0 else _FOR_EVER_SECONDS
    return nccl.connect(identity, tell, Timing(connect_s=seconds))


class _Pod:
    """The turns of one pod."""

    def __init__(self, plan: Plan, place: int, own: Mapping[str, str]) -> None:
        self._plan, self._place, self._own = plan, place, own
        self._late: dict[int, int] = {}  # by start: its last turns in a row that the limit ended

    def run(self) -> None:
        """All turns. Raises BusbwError where pods are lost between two."""
        for number, turn in enumerate(self._plan.turns):
            news: SimpleQueue[PeerFailure | int] = SimpleQueue()
            world = meet(self._plan, number, self._place, self._own, news.put)
            try:
                # Pod 0 alone knows of all pods whether a turn was late.
                is_over = self._late.get(turn.start, 0) >= _MOST_LATE
                if world.broadcast((_SKIP if is_over else _RUN) if self._place == 0 else None) == _SKIP:
                    _mark(Mark(number, "skip", {}))
                    continue
                ends = self._turn(number, world, news)
            finally:
                world.close()
            is_late = any(end.late for end in ends.values())
            self._late[turn.start] = self._late.get(turn.start, 0) + 1 if is_late else 0

    def _turn(self, number: int, world: World, news: SimpleQueue[PeerFailure | int]) -> Mapping[int, End]:
        _mark(Mark(number, "begin", {}))
        argv, environ = command(self._plan, number), environment(self._plan, number, self._own)
        own, failures = _watch(number, argv, environ, self._plan.limit_seconds, news)
        ends = {self._place: own}
        if own.is_bad and not failures and self._plan.pods > 1:
            failures += _heard_within(news, _SETTLE_SECONDS)
        with contextlib.suppress(RankFailed):  # whose it was is in the news
            if own.is_bad and not failures:
                world.fail(json.dumps(asdict(own)))
            ends |= {
                pod: End(**json.loads(data))
                for pod, data in enumerate(world.gather(json.dumps(asdict(own)).encode()) or ())
            }
        failures += _heard_within(news, 0.0)
        lost = []
        for failure in failures:
            if (told := _told(failure)) is not None:
                ends[failure.rank] = told
            elif failure.rank != self._place:
                lost.append(failure.rank)
                _say(f"busbw: pod {failure.rank}: {failure.reason}")
        _mark(Mark(number, "end", ends, tuple(lost)))
        return ends


def _heard_within(news: SimpleQueue[PeerFailure | int], seconds: float) -> list[PeerFailure]:
    """The failure in another pod that is known by then; a world tells one at most."""
    give_up_s = time.monotonic() + seconds
    with contextlib.suppress(Empty):
        while True:
            heard = news.get(timeout=max(0.0, give_up_s - time.monotonic()))
            if not isinstance(heard, int):
                return [heard]
    return []


def _told(failure: PeerFailure) -> End | None:
    """How a turn ended in another pod, by its own word; None where it has said none."""
    try:
        return End(**json.loads(failure.reason))
    except (ValueError, TypeError):
        return None


def _watch(
    number: int,
    argv: Sequence[str],
    environ: Mapping[str, str],
    limit_seconds: float | None,
    news: SimpleQueue[PeerFailure | int],
) -> tuple[End, list[PeerFailure]]:
    """Run a turn's command to its end, which comes with the limit at the latest, or a moment after the turn
    has failed in another pod; and what other pods said.
    """
    started_s = time.monotonic()
    due_s = None if limit_seconds is None else started_s + limit_seconds
    failures: list[PeerFailure] = []
    late = False
    try:
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        _say(f'exec: "{argv[0]}": {error.strerror}')
        return End(128, 0.0), failures  # as of a container that could not start
    threading.Thread(target=lambda: news.put(process.wait()), daemon=True).start()
    try:
        while True:
            wait_s = None if due_s is None else max(0.0, due_s - time.monotonic())
            try:
                heard = news.get(timeout=wait_s)
            except Empty:
                late = not failures
                break
            if isinstance(heard, int):
                break
            failures.append(heard)
            if (told := _told(heard)) is not None and told.late:
                late = True
                break
            due_s = time.monotonic() + _LAST_WORDS_SECONDS
        if late:
            _mark(Mark(number, "late", {}))
        seconds = time.monotonic() - started_s
    finally:
        code = _end(process)
    return End(code if code >= 0 else 128 - code, round(seconds, 3), late), failures


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a command with all that it started, so that nothing of a turn is beside the next one."""
    _signal(process, signal.SIGTERM)
    _signal(process, signal.SIGCONT)  # a stopped process would not hear it
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    give_up_s = time.monotonic() + _LEFT_SECONDS
    while _children(process.pid) and time.monotonic() < give_up_s:
        time.sleep(_TICK_SECONDS)
    _signal(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_SECONDS)
    give_up_s = time.monotonic() + _KILLED_SECONDS
    while (left := _children(process.pid)) and time.monotonic() < give_up_s:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_TICK_SECONDS)
    if process.returncode is None:  # it hangs in a driver
        _say(f"busbw: process {process.pid} does not end")
        return -signal.SIGKILL
    return process.returncode


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _children(apart_from: int) -> list[int]:
    """Processes that those which started them left to this one. Ended ones are taken from the table."""
    own, found = str(os.getpid()), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == apart_from:
            continue
        with contextlib.suppress(OSError, ChildProcessError):
            # The state and the parent follow the name, which may hold anything but ends at the last bracket.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if parent != own:
                continue
            if state == "Z":
                os.waitpid(int(entry.name), os.WNOHANG)
            else:
                found.append(int(entry.name))
    return found


def _first_environ() -> dict[str, str]:
    """The environment as the pod has it: Python adds to its own (LC_CTYPE, PEP 538), which a command in a pod
    of its own would not have.
    """
    words = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(word).partition("=")[::2] for word in words if word)


def main() -> int:
    """Run the turns of this pod. The exit code is bad where pods were lost or told to end, not for a turn."""
    own = _first_environ()
    plan = Plan.from_json(own[VARIABLE])
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        with as_ctrl_c():
            _Pod(plan, int(own.get(_PLACE, "0")), own).run()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BusbwError as error:
        _say(f"busbw: {error.message}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
