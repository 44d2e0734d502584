"""The agents of a job, one on each host: started, fed and heard by the process that owns the job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.launch.base import Command
from busbw.launch.hosts.ssh import agent_text, part
from busbw.launch.processes import Exit, Line, Processes


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


@dataclass
class Agent:
    """A connection to one host."""

    spec: AgentSpec
    is_ready: bool = False  # it hears ranks, and may be told to go
    has_gone: bool = False  # its commands were started
    was_dismissed: bool = False
    is_done: bool = False  # it has swept its host, and said so
    is_over: bool = False  # the connection has ended
    words: str = ""  # why it failed, or the last that the connection itself said
    exits: dict[int, int] = field(default_factory=dict)

    @property
    def has_exited(self) -> bool:
        """All its commands have."""
        return len(self.exits) == len(self.spec.tasks)

    def take(self, line: Line) -> Mapping[str, Any]:
        """What it said with a line, empty where that line is not its own: ssh's, or a login script's."""
        said = {} if line.is_error else _decode(line.text)
        if not said:
            self.words = line.text.strip() or self.words
        self.words = said.get("failed", self.words)
        self.is_ready = self.is_ready or "ready" in said
        self.is_done = self.is_done or "done" in said
        if "exit" in said:
            self.exits[said["index"]] = said["exit"]
        return said


class Agents:
    """Connects to all hosts at once. Commands start when their own agent is ready; with a bundle, when all
    are, since a launcher needs it everywhere.
    """

    def __init__(self, spec: JobSpec, grace_seconds: float) -> None:
        self._spec = spec
        self._agents = [Agent(each) for each in spec.agents]
        self._processes = Processes([Command(each.connect) for each in spec.agents], has_input=True)
        bundle = (part(Path(spec.bundle).read_bytes()),) if spec.bundle else ()
        for index, each in enumerate(spec.agents):
            task = json.dumps(self._task(each, grace_seconds)).encode()
            self._processes.say(index, part(agent_text()), part(task), *bundle)

    @property
    def has_gone(self) -> bool:
        """The commands were started, all of them."""
        return all(agent.has_gone for agent in self._agents if agent.spec.tasks)

    @property
    def all_exited(self) -> bool:
        """Every command has ended, or its host is lost."""
        return all(agent.has_exited or agent.is_over for agent in self._agents)

    @property
    def code(self) -> int | None:
        """The first bad exit code of a command, else 0; None where none was heard of."""
        codes = [code for agent in self._agents for code in agent.exits.values()]
        return next((code for code in codes if code), 0) if codes else None

    def follow(self, idle_seconds: float) -> Iterator[tuple[Agent, Mapping[str, Any]] | None]:
        """What agents say (``launch.agent``), and ``lost``, with why, of one that ended before it had to;
        None at least every ``idle_seconds``. Ends when all connections have.
        """
        for item in self._processes.follow(lambda: idle_seconds):
            if isinstance(item, Line):
                agent = self._agents[item.process]
                yield agent, agent.take(item)
            elif isinstance(item, Exit):
                agent = self._agents[item.process]
                agent.is_over = True
                if not agent.is_done:
                    yield agent, {"lost": agent.words or f"its connection ended ({item.code})"}
            else:
                self._let_go()
                yield None

    def order(self, word: str) -> None:
        """``end`` goes to agents that run something, and the others are dismissed later: they would kill
        ranks that a launcher is about to end in order. ``now`` goes to all.
        """
        for index, agent in enumerate(self._agents):
            if word == "now" or (agent.spec.tasks and not agent.has_exited):
                self._say(index, word)

    def dismiss(self) -> None:
        """Let the agents go whose commands have ended, or that had none."""
        for index, agent in enumerate(self._agents):
            if agent.has_exited and not agent.was_dismissed:
                agent.was_dismissed = True
                self._say(index, "now")

    def close(self) -> None:
        """End what is still connected. An agent whose connection ends sweeps its host."""
        self._processes.end()

    def _task(self, spec: AgentSpec, grace_seconds: float) -> dict[str, Any]:
        return {
            "do": "serve",
            "job": self._spec.job,
            "commands": [{"argv": task.argv, "environ": dict(task.environ)} for task in spec.tasks],
            "grace": grace_seconds,
            "bundle": self._spec.bundle_folder if self._spec.bundle else "",
            "watch": self._spec.watch,
        }

    def _say(self, index: int, word: str) -> None:
        self._processes.say(index, f"{word}\n".encode())

    def _let_go(self) -> None:
        if self._spec.bundle and not all(agent.is_ready for agent in self._agents):
            return
        for index, agent in enumerate(self._agents):
            if agent.is_ready and not agent.has_gone:
                agent.has_gone = True
                self._say(index, "go")


def _decode(line: str) -> Mapping[str, Any]:
    try:
        said = json.loads(line) if line.startswith("{") else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
