"""The process that owns a job on hosts: it starts the agents, writes what they tell to the run folder, and
ends everything. Nobody's child and in no terminal's session, it goes on when the front process dies.

    python -m busbw.launchers.keeper RUN_FOLDER < spec

It is told to end by a file in the run folder, which works from wherever the folder is seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from busbw.errors import ExitCode
from busbw.launchers.agents import Agents, Exited, Gone, Happening, Heard, Lost
from busbw.launchers.deaths import Death, read_death
from busbw.launchers.engine import JobState, Phase
from busbw.launchers.first_dead import RankEnd, first_dead
from busbw.launchers.interrupt import Interrupt
from busbw.launchers.keeper_spec import CANCEL_FILE, LOCK_FILE, OUTPUT_FILE, KeeperSpec
from busbw.model.event import EventKind, decode

_LOOK_SECONDS: Final = 0.1
_LOCK_LOOK_SECONDS: Final = 0.2
# After one rank has ended badly, or a host is lost, the others get this long for what they have to say.
_LAST_WORDS_SECONDS: Final = 3.0
# Then they are told to end, and get this long.
GRACE_SECONDS: Final = 5.0
# What ends agents that do not answer, beside the silence that ssh notices.
_DONE_SECONDS: Final = 10.0

# Lines of a launcher, and of each rank, that may say who died.
_LAUNCHER_WORDS: Final = 200
_RANK_WORDS: Final = 30

# `[1,3]<stderr>: text` of Open MPI, `[3] text` of MPICH.
_TAG: Final = re.compile(r"\[(?:\d+,)?(\d+)\](?:<std(?:out|err)>:)? ?")


class Keeper:
    """One job, from connecting to its last process."""

    def __init__(self, folder: Path, spec: KeeperSpec, output: IO[str], interrupt: Interrupt) -> None:
        self._folder = folder
        self._spec = spec
        self._output = output
        self._interrupt = interrupt
        self._began_s = time.monotonic()
        self._has_started = False  # the commands were, on all hosts
        self._verdict: JobState | None = None  # the first thing that went wrong
        self._wrong_s: float | None = None
        self._end_s: float | None = None  # when the agents were told to end
        self._told = ""
        self._processes: dict[tuple[str, int], int] = {}  # host and process id -> rank
        self._launcher_words: deque[str] = deque(maxlen=_LAUNCHER_WORDS)
        self._rank_words: dict[int, deque[str]] = {}
        self._ends: list[RankEnd] = []  # of ranks that agents watch, in the order in which we heard

    def keep(self) -> None:
        """Run the job to its end. The last line of the output is an ENDED state."""
        agents = Agents(self._spec, GRACE_SECONDS)
        try:
            for item in agents.follow(_LOOK_SECONDS):
                self._take(item, agents)
                self._decide(agents)
                if self._end_s is not None and time.monotonic() - self._end_s > self._patience():
                    self._blame_silence(agents)
                    break
        finally:
            agents.close()
        verdict = self._verdict or JobState(Phase.ENDED, code=agents.code)
        self._write_state(verdict if verdict.why else self._name_rank(verdict))

    def _blame_silence(self, agents: Agents) -> None:
        """A launcher may give up over a lost host without a word, before ssh has noticed. The host's agent
        does not take its leave then.
        """
        unnamed = self._verdict is not None and not self._verdict.why
        if unnamed and agents.code and agents.silent:
            host = agents.silent[0]
            self._verdict = JobState(
                Phase.ENDED,
                f"host {host} is lost: it does not answer any more",
                hint="look whether it is up, and at its network",
                code=agents.code,
                host=host,
            )

    def _patience(self) -> float:
        return _DONE_SECONDS + (GRACE_SECONDS if self._told == "end" else 0)

    def _take(self, item: Happening, agents: Agents) -> None:
        if isinstance(item, Heard):
            self._write_line(item)
            self._note_start("")
        elif isinstance(item, Exited):
            if item.code != 0:
                self._go_wrong(_of_exit(item, is_busbw=self._spec.announces))
        elif isinstance(item, Lost):
            self._lose(item)
        elif isinstance(item, Gone):
            self._ends.append(RankEnd(item.rank, item.said, item.swept))
        if not self._has_started and agents.has_gone:  # ranks that hang before their first word run too
            self._note_start("")

    def _lose(self, item: Lost) -> None:
        """A host that cannot be reached, or cannot any more."""
        if self._told:
            return
        if not item.was_ready:
            hint = f"try: {self._spec.try_by_hand.replace('HOST', item.host)}"
            waits = JobState(
                Phase.PENDING, f"{item.host}: {item.why}", hopeless=True, hint=hint, unreachable=True
            )
            self._write_state(waits)
            why = f"{item.host} cannot be reached: {item.why}"
        else:
            why = f"host {item.host} is lost: {item.why}"
            hint = "look whether it is up, and at its network"
        lost = JobState(Phase.ENDED, why, hint=hint, host=item.host, unreachable=True)
        self._go_wrong(lost, at_once=True)

    def _go_wrong(self, verdict: JobState, *, at_once: bool = False) -> None:
        """The first that says who is to blame counts; a lost host explains what was seen of its ranks."""
        if self._verdict is None or not self._verdict.why or (verdict.host and verdict.rank is None):
            self._verdict = verdict
        if self._wrong_s is None or at_once:
            self._wrong_s = time.monotonic() - (_LAST_WORDS_SECONDS if at_once else 0)

    def _decide(self, agents: Agents) -> None:
        """Say ``end`` or ``now`` to the agents where it is time for it."""
        if self._cancelled("end") and self._verdict is None:
            self._verdict = JobState(Phase.ENDED, "cancelled")
        limit_s = self._spec.limit_seconds
        if limit_s and self._verdict is None and time.monotonic() - self._began_s > limit_s:
            self._go_wrong(JobState(Phase.ENDED, f"it had not ended after {limit_s:g} s"), at_once=True)
        had_time = self._wrong_s is not None and time.monotonic() - self._wrong_s >= _LAST_WORDS_SECONDS
        if self._cancelled("now"):
            self._tell("now", agents)
        elif self._cancelled("end") or agents.all_exited or had_time:
            self._tell("end", agents)
        if self._told == "end" and agents.all_exited:
            agents.tell_watchers()

    def _tell(self, word: str, agents: Agents) -> None:
        if self._told in (word, "now"):
            return
        self._told = word
        self._end_s = time.monotonic()
        agents.tell(word)

    def _cancelled(self, word: str) -> bool:
        if self._interrupt.insisted or (word == "end" and self._interrupt.requested):
            return True
        said = read_cancel(self._folder)
        return said in ("now", word)

    def _note_start(self, why: str) -> None:
        if not self._has_started:
            self._has_started = True
            self._write_state(JobState(Phase.RUNNING, why))

    def _write_line(self, item: Heard) -> None:
        text, rank, host = item.text, item.rank, item.host
        if rank is None and self._spec.hosts_by_rank and (match := _TAG.match(text)):
            tagged = int(match[1])
            if tagged < len(self._spec.hosts_by_rank):
                text, rank, host = text[match.end() :], tagged, self._spec.hosts_by_rank[tagged]
        self._remember(text, rank, host)
        source = host if rank is None else f"{host} rank {rank}"
        write_item(self._output, {"text": text, "source": source, "error": item.is_error})

    def _remember(self, text: str, rank: int | None, host: str) -> None:
        """What tells later which rank a launcher means by a process id."""
        if rank is None:
            self._launcher_words.append(text)
        elif (event := decode(text)) is None:
            self._rank_words.setdefault(rank, deque(maxlen=_RANK_WORDS)).append(text)
        elif event["event"] == EventKind.HELLO:
            self._processes[host, int(event["pid"])] = rank

    def _name_rank(self, verdict: JobState) -> JobState:
        """The rank that died under a launcher, and how, as far as that is known for certain."""
        told = tuple(self._launcher_words)
        death = read_death(told)
        if verdict.code and death is not None and not self._spec.announces:
            return _of_command(verdict, death, self._spec.hosts_by_rank)
        if not verdict.code or (death is not None and death.rank is not None):
            return verdict  # all is well; or Open MPI has named it, who alone knows the signal
        hosts = self._spec.hosts_by_rank
        rank = self._named_process(death)
        if rank is not None and death is not None:
            how = _how(death.code or 0)
        else:
            # Hydra may name a process that it killed itself, but not another host than that of the dead.
            near = [rank for rank, host in enumerate(hosts) if death is not None and host == death.host]
            rank = first_dead(near or range(len(hosts)), self._ends, self._rank_words, told)
            how = "ended first, and the launcher ended the others"
        if rank is None:
            return verdict
        why = f"rank {rank} on {hosts[rank]} {how}"
        words = [text.strip() for text in self._rank_words.get(rank, ()) if text.strip()]
        hint = (
            f"its last words: {words[-1]}"
            if words
            else "look at log/ in the run folder, and for that host's OOM killer"
        )
        return replace(verdict, why=why, hint=hint, rank=rank, host=hosts[rank])

    def _named_process(self, death: Death | None) -> int | None:
        """MPICH's hydra names host and process of a rank that died, or of one that it killed then; so the
        rank is named where its host has no other.
        """
        if death is None or death.pid is None or self._spec.hosts_by_rank.count(death.host) != 1:
            return None
        return self._processes.get((death.host, death.pid))

    def _write_state(self, state: JobState) -> None:
        write_state(self._output, state)


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by signal {-code}"
    how = f" with {code} (an exit code, or a signal's number: hydra prints both alike)" if code else ""
    return f"ended{how}"


def _of_command(verdict: JobState, death: Death, hosts: Sequence[str]) -> JobState:
    """The end of a user's program, by its launcher's words: those tell a signal from an exit code, and the
    host. Hydra may mean a process that it ended itself, but then on the host of the one that failed.
    """
    near = [rank for rank, host in enumerate(hosts) if host == death.host]
    rank = near[0] if death.rank is None and len(near) == 1 else death.rank
    if not death.code or death.code == verdict.code:
        return replace(verdict, rank=rank, host=death.host)
    if death.code > 0:  # mpiexec failed over it, before it said which of the two it was
        return replace(verdict, why=_how(death.code), code=death.code, rank=rank, host=death.host)
    others = " (or ended by mpiexec, after another rank there had failed)" if rank is None else ""
    return replace(verdict, why=f"{_how(death.code)}{others}", code=death.code, rank=rank, host=death.host)


def _of_exit(item: Exited, *, is_busbw: bool) -> JobState:
    """A command that ended badly. A launcher's own end says nothing of who is to blame: its words do. Nor
    does that of a rank of busbw that lost another one: its events do.
    """
    if item.error:
        return JobState(Phase.ENDED, f"{item.error} on {item.host}", code=item.code, host=item.host)
    if item.rank is None or (is_busbw and item.code == ExitCode.RANK_FAILED):
        return JobState(Phase.ENDED, code=item.code)
    how = f"exit code {item.code}" if item.code > 0 else f"signal {-item.code}"
    why = f"rank {item.rank} on {item.host} ended with {how}"
    return JobState(Phase.ENDED, why, code=item.code, rank=item.rank, host=item.host)


def write_item(output: IO[str], item: dict[str, object]) -> None:
    """One line, at once: others follow the file."""
    output.write(json.dumps(item) + "\n")
    output.flush()


def write_state(output: IO[str], state: JobState) -> None:
    """A state as a line."""
    names = ("why", "hopeless", "hint", "code", "rank", "host", "unreachable")
    values = {name: getattr(state, name) for name in names}
    write_item(output, {"phase": state.phase.value, **values})


def read_cancel(folder: Path) -> str:
    """``end``, ``now``, or nothing."""
    try:
        return (folder / CANCEL_FILE).read_text().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def held(folder: Path, spec: KeeperSpec, output: IO[str], interrupt: Interrupt) -> Iterator[bool]:
    """Hold the hosts' locks: two jobs at once would measure each other. False where we were told to end
    while waiting.
    """
    with contextlib.ExitStack() as stack:
        for path in sorted(spec.locks):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(Path(path).open("a"))
            said = False
            while not _lock(file):
                if not said:
                    why = f"another job of busbw uses {Path(path).name}"
                    write_state(output, JobState(Phase.PENDING, why))
                    said = True
                if interrupt.requested or read_cancel(folder):
                    yield False
                    return
                time.sleep(_LOCK_LOOK_SECONDS)
        yield True


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_kept(folder: Path) -> bool:
    """Whether a keeper lives: it holds its lock for as long."""
    try:
        with (folder / LOCK_FILE).open("a") as file:
            return not _lock(file)
    except OSError:
        return False


def main(arguments: list[str]) -> int:
    """Keep the job whose spec comes on standard input."""
    folder = Path(arguments[0])
    spec = KeeperSpec.from_json(sys.stdin.read())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with (
        (folder / LOCK_FILE).open("a") as lock,
        (folder / OUTPUT_FILE).open("a") as output,
        Interrupt() as interrupt,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fork():  # who started us learns that all is well by our end; the lock goes on with the child
            os._exit(0)
        with held(folder, spec, output, interrupt) as is_held:
            if is_held:
                Keeper(folder, spec, output, interrupt).keep()
            else:
                write_state(output, JobState(Phase.ENDED, "cancelled before it started"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
