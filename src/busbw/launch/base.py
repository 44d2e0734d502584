"""What every launcher makes from a plan: a value that can be printed, compared and submitted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from busbw.redact import HIDDEN, redact_variables, redact_words


@dataclass(frozen=True)
class Command:
    """One process to start: its words, and the variables it gets beside the inherited ones."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.without_secrets().whole

    @property
    def whole(self) -> str:
        """Text that runs as it is, with the secrets."""
        settings = (f"{name}={_quoted(value)}" for name, value in self.environ.items())
        return " ".join((*settings, *map(_quoted, self.argv)))

    @property
    def hides(self) -> bool:
        """Whether the text without secrets does not run. Any word will do for the key of the channel."""
        own = dict.fromkeys({"BUSBW_TOKEN"} & self.environ.keys(), HIDDEN)
        return self.without_secrets() != replace(self, environ={**self.environ, **own})

    def without_secrets(self) -> Command:
        """As it is shown and kept."""
        argv, environ = redact_words(self.argv, HIDDEN), redact_variables(self.environ, HIDDEN)
        return replace(self, argv=argv, environ=environ)


def _quoted(word: str) -> str:
    return word if word == HIDDEN else shlex.quote(word)


def rank_variables(of_all: tuple[int, int], of_host: tuple[int, int], root: str) -> dict[str, str]:
    """What a rank needs to know that no launcher of MPI starts: its number and how many there are, in all and
    on its host, and where they meet.
    """
    return {
        "BUSBW_LAUNCHER": "busbw",
        "BUSBW_RANK": str(of_all[0]),
        "BUSBW_WORLD_SIZE": str(of_all[1]),
        "BUSBW_LOCAL_RANK": str(of_host[0]),
        "BUSBW_LOCAL_SIZE": str(of_host[1]),
        "BUSBW_ROOT": root,
    }


@dataclass(frozen=True)
class LaunchRequest:
    """Everything that would be started here, and the world that the ranks then form."""

    world: str
    ranks: int
    commands: tuple[Command, ...]

    def given(
        self, under: Mapping[str, str], over: Mapping[str, str], unset: Sequence[str] = ()
    ) -> LaunchRequest:
        """With more variables for all processes, ``under`` and ``over`` what they have, and without others
        that they would inherit.
        """
        taken = tuple(word for name in unset for word in ("-u", name))
        before = ("env", *taken) if taken else ()
        commands = (
            Command((*before, *each.argv), {**under, **each.environ, **over}) for each in self.commands
        )
        return replace(self, commands=tuple(commands))

    @property
    def process_is_rank(self) -> bool:
        """Each command is one rank, in rank order; else a launcher starts them."""
        return self.world != "mpi"

    def __str__(self) -> str:
        return "\n".join(map(str, self.commands))

    @property
    def whole(self) -> str:
        """Text that runs as it is, with the secrets."""
        return "\n".join(command.whole for command in self.commands)
