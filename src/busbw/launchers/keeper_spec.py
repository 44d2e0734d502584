"""What the keeper is told to do: a value that travels over its standard input, so that no secret is on disk
or in a command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

# In the run folder.
OUTPUT_FILE: Final = "log/keeper.jsonl"
TROUBLE_FILE: Final = "log/keeper.txt"
LOCK_FILE: Final = "request/keeper.lock"
CANCEL_FILE: Final = "request/cancel"


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
class KeeperSpec:
    """A whole job. ``hosts_by_rank`` tells who wrote a line that a launcher tagged. ``bundle`` is a file to
    unpack at ``bundle_folder`` on every host. ``locks`` are held while it runs. ``announces``: ranks
    are busbw's and say what goes wrong. ``watch``: where ranks that a launcher starts connect to the agent of
    their host; empty where they do not. ``try_by_hand`` is what a person would try where HOST
    cannot be reached.

    ``sweeps``: agents first end what is left of jobs whose names begin so. Agents that hear nothing for
    ``silence_seconds`` end what they started, and a job that runs for longer than ``limit_seconds`` is ended
    (0: never).
    """

    job: str
    agents: tuple[AgentSpec, ...]
    hosts_by_rank: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    bundle: str = ""
    bundle_folder: str = ""
    announces: bool = True
    watch: str = ""
    try_by_hand: str = "ssh -o BatchMode=yes HOST true"
    sweeps: str = ""
    silence_seconds: float = 0.0
    limit_seconds: float = 0.0

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> KeeperSpec:
        """The inverse of ``to_json``."""
        values: dict[str, Any] = json.loads(text)
        agents = tuple(
            AgentSpec(
                each["host"],
                tuple(each["connect"]),
                tuple(Task(tuple(task["argv"]), task["environ"], task["rank"]) for task in each["tasks"]),
            )
            for each in values["agents"]
        )
        taken = ("agents", "hosts_by_rank", "locks")
        return KeeperSpec(
            agents=agents,
            hosts_by_rank=tuple(values["hosts_by_rank"]),
            locks=tuple(values["locks"]),
            **{name: value for name, value in values.items() if name not in taken},
        )
