"""The agents of a job, one on each host: started, fed and heard by the keeper."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from busbw.launchers.hosts_ssh import STARTED, agent_text, part
from busbw.launchers.keeper_spec import AgentSpec, KeeperSpec

_CHUNK_BYTES: Final = 1 << 16
_KILL_SECONDS: Final = 2.0
# Of the silence that an agent bears: so often it is told that somebody is here.
_BEATS: Final = 6


@dataclass(frozen=True)
class Heard:
    """A line that a command on ``host`` wrote; ``rank`` where the command is one."""

    host: str
    rank: int | None
    text: str
    is_error: bool


@dataclass(frozen=True)
class Exited:
    """A command that ended: ``code`` is negative for a signal. ``error`` says why it could not start."""

    host: str
    rank: int | None
    code: int
    error: str = ""


@dataclass(frozen=True)
class Gone:
    """A rank of MPI's launcher ended, as its host's agent saw it. ``said``: it took its leave. ``swept``: the
    agent was ending what was left.
    """

    rank: int
    said: bool
    swept: bool


@dataclass(frozen=True)
class Lost:
    """An agent that ended before it was told to; ``was_ready`` where it had begun."""

    host: str
    why: str
    was_ready: bool


Happening = Heard | Exited | Gone | Lost | None


@dataclass
class Agent:
    """A connection to one host."""

    spec: AgentSpec
    process: subprocess.Popen[bytes]
    to_send: memoryview
    is_ready: bool = False
    is_done: bool = False
    is_over: bool = False  # the connection has ended
    has_gone: bool = False
    failed: str = ""
    words: str = ""  # the last that the connection itself said
    exits: dict[int, int] = field(default_factory=dict)
    rest: dict[int, bytes] = field(default_factory=dict)

    @property
    def has_exited(self) -> bool:
        """All its commands have."""
        return len(self.exits) == len(self.spec.tasks)


class Agents:
    """Connects to all hosts at once. Commands start when their own agent is ready; with a bundle, when all
    are, since a launcher needs it everywhere, and so where agents first end what is left.
    """

    def __init__(self, spec: KeeperSpec, grace_seconds: float) -> None:
        self._spec = spec
        self._grace_seconds = grace_seconds
        self._selector = selectors.DefaultSelector()
        self._beat_s = time.monotonic()
        bundle = Path(spec.bundle).read_bytes() if spec.bundle else b""
        self._agents = [self._start(each, bundle) for each in spec.agents]

    @property
    def has_gone(self) -> bool:
        """The commands were started, all of them."""
        return all(agent.has_gone for agent in self._agents if agent.spec.tasks)

    @property
    def all_exited(self) -> bool:
        """Every command has ended, or its host is lost."""
        return all(agent.has_exited or agent.is_over for agent in self._agents)

    @property
    def silent(self) -> tuple[str, ...]:
        """Hosts whose agents were told to leave and are still connected."""
        return tuple(agent.spec.host for agent in self._agents if agent.is_done and not agent.is_over)

    @property
    def code(self) -> int | None:
        """The first bad exit code of a command, else 0; None where none was heard of."""
        codes = [code for agent in self._agents for code in agent.exits.values()]
        return next((code for code in codes if code), 0) if codes else None

    def follow(self, idle_seconds: float) -> Iterator[Happening]:
        """What happens, None at least every ``idle_seconds``; ends when all connections have."""
        while not all(agent.is_over for agent in self._agents):
            for key, events in self._selector.select(idle_seconds):
                if events & selectors.EVENT_WRITE:
                    self._send(key.data)
                else:
                    yield from self._read(key.fd, key.data)
            self._let_go()
            self._beat()
            for agent in self._agents:
                if not agent.is_over and agent.process.poll() is not None:
                    yield from self._bury(agent)
            yield None

    def tell(self, word: str) -> None:
        """``end`` goes to agents that run something, and the others follow (``tell_watchers``): they would
        kill ranks that a launcher is about to end in order. ``now`` goes to all.
        """
        for agent in self._agents:
            if word == "now" or (agent.spec.tasks and not agent.has_exited):
                self._say(agent, word)

    def tell_watchers(self) -> None:
        """Let the agents go whose commands have ended, or that had none."""
        for agent in self._agents:
            if agent.has_exited and not agent.is_done:
                agent.is_done = True
                self._say(agent, "now")

    def close(self) -> None:
        """End what is still connected. An agent whose connection ends sweeps its host."""
        for agent in self._agents:
            _close(agent.process.stdin)
        deadline = time.monotonic() + _KILL_SECONDS
        for agent in self._agents:
            while agent.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(agent.process.pid, signal.SIGKILL)
            agent.process.wait()
            _close(agent.process.stdout)
            _close(agent.process.stderr)
        self._selector.close()

    def _start(self, spec: AgentSpec, bundle: bytes) -> Agent:
        tasks = [{"argv": task.argv, "environ": dict(task.environ)} for task in spec.tasks]
        task: dict[str, Any] = {"do": "serve", "job": self._spec.job, "commands": tasks}
        task |= {"grace": self._grace_seconds, "bundle": self._spec.bundle_folder if bundle else ""}
        task |= {"watch": self._spec.watch, "sweeps": self._spec.sweeps}
        task["silence"] = self._spec.silence_seconds
        data = part(agent_text()) + part(json.dumps(task).encode()) + (part(bundle) if bundle else b"")
        process = subprocess.Popen(
            spec.connect,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        agent = Agent(spec, process, memoryview(data))
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            agent.rest[pipe.fileno()] = b""
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, agent)
        os.set_blocking(_stdin(agent), False)
        self._selector.register(_stdin(agent), selectors.EVENT_WRITE, agent)
        return agent

    def _send(self, agent: Agent) -> None:
        try:
            sent = os.write(_stdin(agent), agent.to_send[:_CHUNK_BYTES])
        except BlockingIOError:
            return
        except OSError:  # it has ended; its exit tells why
            sent = len(agent.to_send)
        agent.to_send = agent.to_send[sent:]
        if not agent.to_send:
            self._selector.unregister(_stdin(agent))

    def _say(self, agent: Agent, word: str) -> None:
        with contextlib.suppress(OSError):
            os.write(_stdin(agent), f"{word}\n".encode())

    def _beat(self) -> None:
        """Let the agents hear that we are here, where they want to."""
        silence_s, now_s = self._spec.silence_seconds, time.monotonic()
        if silence_s and now_s - self._beat_s > silence_s / _BEATS:
            self._beat_s = now_s
            for agent in self._agents:
                if agent.is_ready:
                    self._say(agent, "here")

    def _let_go(self) -> None:
        waits_for_all = bool(self._spec.bundle or self._spec.sweeps)  # which all need, or have done, by then
        everybody = all(agent.is_ready for agent in self._agents)
        for agent in self._agents:
            if agent.is_ready and not agent.has_gone and (everybody or not waits_for_all):
                agent.has_gone = True
                self._say(agent, "go")

    def _read(self, fd: int, agent: Agent) -> Iterator[Heard | Exited | Gone]:
        while True:
            try:
                data = os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(fd)
            *lines, agent.rest[fd] = (agent.rest[fd] + data).split(b"\n")
            for line in lines:
                yield from self._hear(line.decode(errors="replace"), agent)
            if not data:
                return

    def _hear(self, line: str, agent: Agent) -> Iterator[Heard | Exited | Gone]:
        said = _decode(line)
        if said is None:
            if line != STARTED:
                agent.words = line.strip() or agent.words
            return
        if "line" in said:
            rank = agent.spec.tasks[said["index"]].rank
            yield Heard(agent.spec.host, rank, said["line"], said["error"])
        elif "exit" in said:
            agent.exits[said["index"]] = said["exit"]
            rank = agent.spec.tasks[said["index"]].rank
            yield Exited(agent.spec.host, rank, said["exit"], said.get("error", ""))
        elif "gone" in said:
            yield Gone(said["gone"], said["said"], said["swept"])
        elif "ready" in said:
            agent.is_ready = True
        elif "failed" in said:
            agent.failed = said["failed"]
        elif "done" in said and agent.is_ready and not agent.failed:
            agent.is_done = True

    def _bury(self, agent: Agent) -> Iterator[Heard | Exited | Gone | Lost]:
        for fd in list(agent.rest):
            if fd in self._selector.get_map():
                yield from self._read(fd, agent)
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        with contextlib.suppress(KeyError):
            self._selector.unregister(_stdin(agent))
        agent.is_over = True
        if not agent.is_done:
            why = agent.failed or agent.words or f"its connection ended ({agent.process.returncode})"
            yield Lost(agent.spec.host, why, agent.is_ready)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _stdin(agent: Agent) -> int:
    assert agent.process.stdin is not None
    return agent.process.stdin.fileno()


def _decode(line: str) -> Mapping[str, Any] | None:
    """What an agent said, None for a line of somebody else (a login script, ssh)."""
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
