"""A job on hosts: the process that started it owns an agent on each host, hears them, and ends everything.

Nothing of a job outlives the connections to its hosts, so nothing outlives this process. Another process has
it ended by a file in the run folder, which works from wherever the folder is seen.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.launch.base import Command
from busbw.launch.engine import Item, JobState, Output, Phase, SeenRanks
from busbw.launch.hosts.ssh import SILENCE_SECONDS, opening, part
from busbw.launch.launcher_words import Death, ranks_on, read_death
from busbw.launch.processes import Exit, Line, Processes
from busbw.model.event import decode
from busbw.record.owner import Owner

# In the run folder: how its job is to end, `end` or `now`.
CANCEL_FILE: Final = Path("request/cancel")

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


@dataclass(frozen=True)
class Task:
    """A command of an agent; ``rank`` None where it starts ranks instead of being one."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    rank: int | None = None


@dataclass(frozen=True)
class AgentSpec:
    """An agent to start on ``host`` with ``connect``, and what it does there: often only to watch."""

    host: str
    connect: tuple[str, ...]
    tasks: tuple[Task, ...] = ()


@dataclass(frozen=True)
class JobSpec:
    """A whole job. ``hosts_by_rank`` says whose a line is that a launcher tagged. ``bundle`` is a file to
    unpack at ``bundle_folder`` on every host. ``locks`` are held while it runs. ``announces``: ranks
    are busbw's and say what goes wrong. ``watch``: where ranks that a launcher starts connect to the agent of
    their host; empty where they do not.
    """

    job: str
    agents: tuple[AgentSpec, ...]
    hosts_by_rank: tuple[str, ...] = ()
    locks: tuple[Path, ...] = ()
    bundle: str = ""
    bundle_folder: str = ""
    announces: bool = True
    watch: str = ""


def run(spec: JobSpec, folder: Path) -> Iterator[Item]:
    """The job from waiting for its hosts to its last process; the last item is an ENDED state. Closing the
    iterator ends the job.
    """
    with contextlib.ExitStack() as held:
        if (yield from _hold(spec, folder, held)):
            yield from _Job(spec, folder).run()


def _hold(spec: JobSpec, folder: Path, held: contextlib.ExitStack) -> Generator[JobState | None, None, bool]:
    """Take the hosts' locks: two jobs at once would measure each other. False where the job is cancelled
    while it waits.
    """
    for path in sorted(spec.locks):
        path.parent.mkdir(parents=True, exist_ok=True)
        owner = held.enter_context(Owner(path.parent, Path(path.name)))
        if owner.take():
            continue
        yield JobState(Phase.PENDING, f"another job of busbw uses {path.name}")
        while not owner.take():
            if _read_cancel(folder):
                yield JobState(Phase.ENDED, "cancelled before it started")
                return False
            time.sleep(_LOCK_LOOK_SECONDS)
            yield None
    return True


def _read_cancel(folder: Path) -> str:
    """``end``, ``now``, or nothing."""
    try:
        return (folder / CANCEL_FILE).read_text().strip()
    except OSError:
        return ""


@dataclass
class _Agent:
    """A connection to one host."""

    index: int  # of its process
    spec: AgentSpec
    told: set[str] = field(default_factory=set)  # go, end, now
    said: set[str] = field(default_factory=set)  # what kinds of things: see ``launch.agent``
    words: str = ""  # why it failed, or the last that the connection itself said
    exits: dict[int, int] = field(default_factory=dict)

    @property
    def has_exited(self) -> bool:
        """All its commands have."""
        return len(self.exits) == len(self.spec.tasks)

    def take(self, item: Line | Exit) -> Mapping[str, Any]:
        """What it said with a line, empty where that line is not its own (ssh's, or a login script's); and
        ``lost``, with why, where its connection ended before it had swept its host.
        """
        if isinstance(item, Exit):
            self.said.add("over")
            return (
                {} if "done" in self.said else {"lost": self.words or f"its connection ended ({item.code})"}
            )
        said: dict[str, Any] = {}
        if item.text.startswith("{") and not item.is_error:
            with contextlib.suppress(ValueError):
                said = json.loads(item.text)
        if not said:
            self.words = item.text.strip() or self.words
        self.words = said.get("failed", self.words)
        self.said |= said.keys()
        if "exit" in said:
            self.exits[said["index"]] = said["exit"]
        return said


class _Job:
    """One job, from connecting to all hosts at once to its last process."""

    def __init__(self, spec: JobSpec, folder: Path) -> None:
        self._spec, self._folder = spec, folder
        self._agents = [_Agent(index, each) for index, each in enumerate(spec.agents)]
        self._wrong: JobState | None = None  # the first thing that went wrong
        self._wrong_s = self._end_s = math.inf  # when that was; when the agents were told to end
        self._ordered = ""
        self._launcher_words: deque[str] = deque(maxlen=_LAUNCHER_WORDS)
        self._rank_words: dict[int, deque[str]] = {}
        # Of the ranks that agents watch, in the order in which we heard: those that ended, or died.
        self._ended, self._died = list[int](), list[int]()
        self._processes = Processes([Command(each.connect) for each in spec.agents], has_input=True)
        bundle = (part(Path(spec.bundle).read_bytes()),) if spec.bundle else ()
        for agent in self._agents:
            self._processes.say(agent.index, opening(self._task(agent.spec)), *bundle)

    def _task(self, spec: AgentSpec) -> dict[str, Any]:
        return {
            "do": "serve",
            "job": self._spec.job,
            "commands": [{"argv": task.argv, "environ": dict(task.environ)} for task in spec.tasks],
            "grace": GRACE_SECONDS,
            "bundle": self._spec.bundle_folder if self._spec.bundle else "",
            "watch": self._spec.watch,
        }

    def run(self) -> Iterator[Item]:
        """See the function of this name."""
        has_started = False  # the commands were: also those that hang before their first word
        try:
            for item in self._processes.follow(lambda: _LOOK_SECONDS):
                found = [None] if item is None else list(self._take(self._agents[item.process], item))
                if item is None:
                    self._let_go()
                has_gone = all("go" in agent.told for agent in self._agents if agent.spec.tasks)
                if not has_started and (has_gone or any(isinstance(each, Output) for each in found)):
                    has_started = True
                    yield JobState(Phase.RUNNING)
                yield from found
                self._decide()
                if time.monotonic() > self._last_s():
                    break
        finally:
            self._processes.end()  # an agent whose connection ends sweeps its host
        yield self._end()

    def _end(self) -> JobState:
        """The first thing that went wrong, else the first bad exit code of a command; and what was seen."""
        codes = [code for agent in self._agents for code in agent.exits.values()]
        code = next((code for code in codes if code), 0) if codes else None
        state = self._wrong or JobState(Phase.ENDED, code=code)
        hosts = self._spec.hosts_by_rank
        death = read_death(self._launcher_words)
        if not self._spec.announces and death is not None and state.code and not state.why:
            state = _of_command(state, death, hosts)
        if not hosts or state.why:  # a lost host, say, explains what was seen of its ranks
            return state
        words = {rank: tuple(lines) for rank, lines in self._rank_words.items()}
        return replace(state, seen=SeenRanks(hosts, words, tuple(self._ended), tuple(self._died)))

    def _last_s(self) -> float:
        """Until when agents are heard that were told to end. A launcher may give up over a lost host without
        a word, before ssh has noticed: then ssh is waited for, which says which one it is.
        """
        grace = GRACE_SECONDS if self._ordered == "end" else 0
        return self._end_s + _DONE_SECONDS + (SILENCE_SECONDS if self._is_unexplained() else grace)

    def _is_unexplained(self) -> bool:
        return self._wrong is not None and not self._wrong.why

    def _take(self, agent: _Agent, item: Line | Exit) -> Iterator[Item]:
        said = agent.take(item)
        if "line" in said:
            yield self._output(agent, said)
        elif said.get("exit"):
            self._go_wrong(_of_exit(agent.spec, said, is_busbw=self._spec.announces))
        elif "gone" in said:
            self._ended.append(said["gone"])
            self._died += [said["gone"]] if said["died"] else []
        elif "lost" in said and (not self._ordered or self._is_unexplained()):
            yield from self._lose(agent, said["lost"])

    def _output(self, agent: _Agent, said: Mapping[str, Any]) -> Output:
        """A line, for whose it is; what may show later who died is kept."""
        text, rank, host = said["line"], agent.spec.tasks[said["index"]].rank, agent.spec.host
        if rank is None and self._spec.hosts_by_rank and (match := _TAG.match(text)):
            tagged = int(match[1])
            if tagged < len(self._spec.hosts_by_rank):
                text, rank, host = text[match.end() :], tagged, self._spec.hosts_by_rank[tagged]
        if rank is None:
            self._launcher_words.append(text)
        elif decode(text) is None:
            self._rank_words.setdefault(rank, deque(maxlen=_RANK_WORDS)).append(text)
        return Output(text, host if rank is None else f"{host} rank {rank}", said["error"])

    def _lose(self, agent: _Agent, words: str) -> Iterator[JobState]:
        """A host that cannot be reached, or cannot any more."""
        host = agent.spec.host
        if "ready" not in agent.said:
            hint = f"try: ssh -o BatchMode=yes {host} true"
            yield JobState(Phase.PENDING, f"{host}: {words}", hopeless=True, hint=hint)
            why = f"{host} cannot be reached: {words}"
        else:
            why = f"host {host} is lost: {words}"
            hint = "look whether it is up, and at its network"
        code = self._wrong.code if self._wrong is not None else None
        self._go_wrong(JobState(Phase.ENDED, why, hint=hint, code=code, host=host), at_once=True)

    def _go_wrong(self, state: JobState, *, at_once: bool = False) -> None:
        """The first that says who is to blame counts; a lost host explains what was seen of its ranks."""
        if self._wrong is None or not self._wrong.why or (state.host and state.rank is None):
            self._wrong = state
        now_s = time.monotonic()
        self._wrong_s = min(self._wrong_s, now_s - (_LAST_WORDS_SECONDS if at_once else 0))

    def _say(self, agent: _Agent, word: str) -> None:
        """Each word once, and none after ``now``."""
        if word not in agent.told and "now" not in agent.told:
            agent.told.add(word)
            self._processes.say(agent.index, f"{word}\n".encode())

    def _let_go(self) -> None:
        """Commands start when their own agent hears ranks; with a bundle, when all do, since a launcher needs
        it everywhere.
        """
        ready = [agent for agent in self._agents if "ready" in agent.said]
        if not self._spec.bundle or len(ready) == len(self._agents):
            for agent in ready:
                self._say(agent, "go")

    def _decide(self) -> None:
        """Say ``end`` or ``now`` to the agents where it is time for it."""
        wanted = _read_cancel(self._folder)
        if wanted and self._wrong is None:
            self._wrong = JobState(Phase.ENDED, "cancelled")
        had_time = time.monotonic() - self._wrong_s >= _LAST_WORDS_SECONDS
        has_ended = all(agent.has_exited or "over" in agent.said for agent in self._agents)  # or is lost
        if wanted == "now":
            self._order("now", self._agents)
        elif wanted or has_ended or had_time:
            # Those that run nothing are dismissed later: they would kill ranks that a launcher is about to
            # end in order.
            self._order("end", [each for each in self._agents if each.spec.tasks and not each.has_exited])
        if self._ordered == "end" and has_ended:
            for agent in self._agents:
                if agent.has_exited:
                    self._say(agent, "now")

    def _order(self, word: str, agents: Sequence[_Agent]) -> None:
        if self._ordered in (word, "now"):
            return
        self._ordered = word
        self._end_s = time.monotonic()
        for agent in agents:
            self._say(agent, word)


def _of_exit(spec: AgentSpec, said: Mapping[str, Any], *, is_busbw: bool) -> JobState:
    """A command that ended badly. A launcher's own end says nothing of who is to blame: its words do. Nor
    does that of a rank of busbw that lost another one: its events do.
    """
    code, host, rank = said["exit"], spec.host, spec.tasks[said["index"]].rank
    if error := said.get("error"):  # it could not start
        return JobState(Phase.ENDED, f"{error} on {host}", code=code, host=host)
    if rank is None or (is_busbw and code == ExitCode.RANK_FAILED):
        return JobState(Phase.ENDED, code=code)
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    why = f"rank {rank} on {host} ended with {how}"
    return JobState(Phase.ENDED, why, code=code, rank=rank, host=host)


def _of_command(state: JobState, death: Death, hosts: Sequence[str]) -> JobState:
    """The end of a user's program, by its launcher's words: those tell a signal from an exit code, and the
    host. Hydra may mean a process that it ended itself, but then on the host of the one that failed.
    """
    near = ranks_on(death.host, dict(enumerate(hosts)))
    rank = near[0] if death.rank is None and len(near) == 1 else death.rank
    code = death.code or death.number
    found = replace(state, rank=rank, host=death.host)
    if not code or code == state.code:
        return found
    is_open = code < 0 and rank is None
    others = " (or ended by mpiexec, after another rank there had failed)" if is_open else ""
    return replace(found, why=death.how + others, code=code)
