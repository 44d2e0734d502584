"""What every launcher makes from a plan: a value that can be printed, compared and submitted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.probes.redact import redact


@dataclass(frozen=True)
class Command:
    """One process to start: its words, and the variables it gets beside the inherited ones."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    # Names of variables whose values are not shown, beside those that look like secrets.
    secret: frozenset[str] = frozenset()

    def __str__(self) -> str:
        settings = (
            f"{name}={'...' if name in self.secret or redact(name, value) != value else shlex.quote(value)}"
            for name, value in self.environ.items()
        )
        return " ".join((*settings, shlex.join(self.argv)))


@dataclass(frozen=True)
class LaunchRequest:
    """Everything that would be started, and the world that the ranks then form."""

    launcher: str
    world: str
    ranks: int
    commands: tuple[Command, ...]

    @property
    def process_is_rank(self) -> bool:
        """Each command is one rank, in rank order; else a launcher starts them."""
        return self.world != "mpi"

    def __str__(self) -> str:
        return "\n".join(str(command) for command in self.commands)
