"""A job on hosts: the process that started it owns its agents, hears them, and ends everything.

Nothing of a job outlives the connections to its hosts, so nothing outlives this process. Another process has
it ended by a file in the run folder, which works from wherever the folder is seen.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from busbw.errors import ExitCode
from busbw.launch.engine import Item, JobState, Output, Phase
from busbw.launch.hosts.agents import Agent, Agents, JobSpec
from busbw.launch.hosts.ssh import SILENCE_SECONDS
from busbw.launch.verdict import RankEnd, SeenOnHosts, name_rank
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


def run(spec: JobSpec, folder: Path) -> Iterator[Item]:
    """The job from waiting for its hosts to its last process; the last item is an ENDED state. Closing the
    iterator ends the job.
    """
    with contextlib.ExitStack() as held:
        for item in _hold(spec, folder, held):
            yield item
            if item is not None and item.phase is Phase.ENDED:
                return
        yield from _Conduct(spec, folder).run()


def _hold(spec: JobSpec, folder: Path, held: contextlib.ExitStack) -> Iterator[JobState | None]:
    """Take the hosts' locks: two jobs at once would measure each other. ENDED where the job is cancelled
    while it waits.
    """
    for path in sorted(spec.locks):
        path.parent.mkdir(parents=True, exist_ok=True)
        owner = held.enter_context(Owner(path.parent, Path(path.name)))
        if owner.take():
            continue
        yield JobState(Phase.PENDING, f"another job of busbw uses {path.name}")
        while not owner.take():
            if read_cancel(folder):
                yield JobState(Phase.ENDED, "cancelled before it started")
                return
            time.sleep(_LOCK_LOOK_SECONDS)
            yield None


def read_cancel(folder: Path) -> str:
    """``end``, ``now``, or nothing."""
    try:
        return (folder / CANCEL_FILE).read_text().strip()
    except OSError:
        return ""


class _Conduct:
    """One job, from connecting to its last process."""

    def __init__(self, spec: JobSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._has_started = False  # the commands were, on all hosts
        self._verdict: JobState | None = None  # the first thing that went wrong
        self._wrong_s: float | None = None
        self._end_s: float | None = None  # when the agents were told to end
        self._ordered = ""
        self._launcher_words: deque[str] = deque(maxlen=_LAUNCHER_WORDS)
        self._rank_words: dict[int, deque[str]] = {}
        self._ends: list[RankEnd] = []  # of ranks that agents watch, in the order in which we heard
        self._seen = SeenOnHosts(
            spec.hosts_by_rank, spec.announces, self._launcher_words, self._rank_words, self._ends
        )

    def run(self) -> Iterator[Item]:
        """See the function of this name."""
        agents = Agents(self._spec, GRACE_SECONDS)
        try:
            for item in agents.follow(_LOOK_SECONDS):
                if not self._has_started and (agents.has_gone or (item is not None and "line" in item[1])):
                    self._has_started = True  # also those that hang before their first word
                    yield JobState(Phase.RUNNING)
                if item is None:
                    yield None
                else:
                    yield from self._take(*item)
                self._decide(agents)
                if self._end_s is not None and time.monotonic() - self._end_s > self._patience():
                    break
        finally:
            agents.close()
        verdict = self._verdict or JobState(Phase.ENDED, code=agents.code)
        yield verdict if verdict.why else name_rank(verdict, self._seen)

    def _patience(self) -> float:
        """What agents get that were told to end. A launcher may give up over a lost host without a word,
        before ssh has noticed: then ssh is waited for, which says which one it is.
        """
        if self._is_unexplained():
            return SILENCE_SECONDS + _DONE_SECONDS
        return _DONE_SECONDS + (GRACE_SECONDS if self._ordered == "end" else 0)

    def _is_unexplained(self) -> bool:
        return self._verdict is not None and not self._verdict.why

    def _take(self, agent: Agent, said: Mapping[str, Any]) -> Iterator[Item]:
        """What an agent said (``launch.agent``), or that it is lost."""
        if "line" in said:
            yield self._output(agent, said)
        elif said.get("exit"):
            self._go_wrong(_of_exit(agent, said, is_busbw=self._spec.announces))
        elif "gone" in said:
            self._ends.append(RankEnd(said["gone"], said["said"], said["swept"]))
        elif "lost" in said:
            yield from self._lose(agent, said["lost"])

    def _lose(self, agent: Agent, words: str) -> Iterator[JobState]:
        """A host that cannot be reached, or cannot any more."""
        if self._ordered and not self._is_unexplained():
            return
        host = agent.spec.host
        if not agent.is_ready:
            hint = f"try: ssh -o BatchMode=yes {host} true"
            yield JobState(Phase.PENDING, f"{host}: {words}", hopeless=True, hint=hint)
            why = f"{host} cannot be reached: {words}"
        else:
            why = f"host {host} is lost: {words}"
            hint = "look whether it is up, and at its network"
        code = self._verdict.code if self._verdict is not None else None
        lost = JobState(Phase.ENDED, why, hint=hint, code=code, host=host)
        self._go_wrong(lost, at_once=True)

    def _go_wrong(self, verdict: JobState, *, at_once: bool = False) -> None:
        """The first that says who is to blame counts; a lost host explains what was seen of its ranks."""
        if self._verdict is None or not self._verdict.why or (verdict.host and verdict.rank is None):
            self._verdict = verdict
        if self._wrong_s is None or at_once:
            self._wrong_s = time.monotonic() - (_LAST_WORDS_SECONDS if at_once else 0)

    def _decide(self, agents: Agents) -> None:
        """Say ``end`` or ``now`` to the agents where it is time for it."""
        wanted = read_cancel(self._folder)
        if wanted and self._verdict is None:
            self._verdict = JobState(Phase.ENDED, "cancelled")
        had_time = self._wrong_s is not None and time.monotonic() - self._wrong_s >= _LAST_WORDS_SECONDS
        if wanted == "now":
            self._order("now", agents)
        elif wanted or agents.all_exited or had_time:
            self._order("end", agents)
        if self._ordered == "end" and agents.all_exited:
            agents.dismiss()

    def _order(self, word: str, agents: Agents) -> None:
        if self._ordered in (word, "now"):
            return
        self._ordered = word
        self._end_s = time.monotonic()
        agents.order(word)

    def _output(self, agent: Agent, said: Mapping[str, Any]) -> Output:
        text, rank, host = said["line"], agent.spec.tasks[said["index"]].rank, agent.spec.host
        if rank is None and self._spec.hosts_by_rank and (match := _TAG.match(text)):
            tagged = int(match[1])
            if tagged < len(self._spec.hosts_by_rank):
                text, rank, host = text[match.end() :], tagged, self._spec.hosts_by_rank[tagged]
        self._remember(text, rank)
        return Output(text, host if rank is None else f"{host} rank {rank}", said["error"])

    def _remember(self, text: str, rank: int | None) -> None:
        """Keep what shows later who died."""
        if rank is None:
            self._launcher_words.append(text)
        elif decode(text) is None:
            self._rank_words.setdefault(rank, deque(maxlen=_RANK_WORDS)).append(text)


def _of_exit(agent: Agent, said: Mapping[str, Any], *, is_busbw: bool) -> JobState:
    """A command that ended badly. A launcher's own end says nothing of who is to blame: its words do. Nor
    does that of a rank of busbw that lost another one: its events do.
    """
    code, host, rank = said["exit"], agent.spec.host, agent.spec.tasks[said["index"]].rank
    if error := said.get("error"):  # it could not start
        return JobState(Phase.ENDED, f"{error} on {host}", code=code, host=host)
    if rank is None or (is_busbw and code == ExitCode.RANK_FAILED):
        return JobState(Phase.ENDED, code=code)
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    why = f"rank {rank} on {host} ended with {how}"
    return JobState(Phase.ENDED, why, code=code, rank=rank, host=host)
