"""Settings of ranks that ``busbw run`` and hunts share: which there are, what a user calls their run, what is
checked first, and how what they find is shown.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from busbw.errors import UsageError
from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import MOST_SEED, Between, Ranged

BackendName = Literal["auto", "nccl", "mpi", "null"]
WorldName = Literal["auto", "solo", "mpi", "nccl"]
FormatName = Literal["table", "csv", "json", "jsonl"]

# The groups under which `busbw run --help` lists its flags.
of_sweep = Flags("Sweep", 1)
of_pattern = Flags("Ranks, groups and data", 2)
of_method = Flags("Method", 3)
of_buffers = Flags("Buffers", 4)
of_place = Flags("Where", 5)
of_preflight = Flags("Checked first", 6)
of_output = Flags("Output", 7)
of_busbw = Flags(parse=False)  # what busbw itself says, as in the requests of jobs: no flags

MOST_RANKS: Final = 2**20  # of a world: for more, who exchanges what takes minutes to work out


of_name = Flags("Name", 8)
# It becomes part of a folder's name, and must not look like another word of a command line.
_WORD: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)
_TAKEN: Final = ("last",)


class Words:
    """One name, or several: letters, digits and ``. _ + -``."""

    def check(self, flag: str, value: str | tuple[str, ...]) -> None:
        for word in filter(None, (value,) if isinstance(value, str) else value):
            if not _WORD.fullmatch(word) or word in _TAKEN:
                raise UsageError(
                    f"{flag} cannot be {word!r}",
                    hint="use up to 64 letters, digits, and . _ + - (not `last`), as in before-upgrade",
                )


@settings
class NameSettings(Ranged):
    """Kept in the record; the name is also part of the run's id."""

    name: str = of_name(
        "", "Name of the run, as in `busbw show NAME`. If several runs have it, it means the newest.", Words()
    )
    tag: tuple[str, ...] = of_name(
        (), "A word to find the run by with `busbw list --tag`. May be repeated.", Words()
    )


@settings
class RankSettings(NameSettings):
    """See ``flags.run.RunSettings``."""

    ranks: int | None = of_place(
        None,
        "Ranks to start on this host. [default: one per GPU, or per core up to 8]",
        Between(1, MOST_RANKS),
    )
    backend: BackendName = of_place(
        "auto", "nccl, mpi or null; auto: nccl if GPUs are visible, else mpi.", show_choices=False
    )
    world: WorldName = of_place(
        "auto", "How ranks find each other: mpi, or nccl (a TCP channel, no MPI needed)."
    )
    nccl: str = of_place("", "Path of the libnccl.so to measure.")
    pin: bool = of_place(False, "Pin each rank to its share of the host's usable CPUs.")
    hot: bool = of_buffers(False, "Use the same part of the buffers for every call (data stays in caches).")
    seed: int | None = of_method(
        None, "Seed of the check data. [default: random, recorded]", Between(0, MOST_SEED)
    )
    format: FormatName = of_output("table", "Format of standard output.")
    dry_run: bool = of_output(False, "Print the plan and what would be started; start nothing.")
    show_secrets: bool = of_output(False, "Show secrets in a dry run, so that its text runs unchanged.")


of_presets = Flags(show=False)
LevelName = Literal["", "only", "deep"]


@dataclass(frozen=True)
class Asked:
    """The ranks and nodes that a front process asked an engine for, 0 where it left them to that; ``shared``:
    its run folder is on the nodes too.
    """

    ranks: int = 0
    nodes: int = 0
    shared: bool = False

    @property
    def text(self) -> str:
        """In one word, as records keep it."""
        said = {"ranks": self.ranks, "nodes": self.nodes}
        counts = [f"{name}={count}" for name, count in said.items() if count]
        return ",".join([*counts, *(["shared"] if self.shared else [])])


@settings
class PreflightSettings:
    """Settings of one run; see ``settings.run.RunSettings``."""

    preflight: bool = of_preflight(
        True,
        "Compare ranks, versions, variables, GPUs and NICs before anything is measured.",
        negative="--no-preflight",
    )
    strict: bool = of_preflight(False, "End the run after a warning of preflight, as after an error.")
    expect_use: tuple[str, ...] = of_preflight(
        (),
        "End the run unless NCCL uses this, and warn if its log does not show it: net=ofi (ib, socket,"
        " NAME), provider=efa (cxi, verbs), gdr=1, collnet=1, nvls=1, mnnvl=1, gdrcopy=1, tuner=NAME, gpus=1"
        " (not CPU memory), nics=8 (active fabric ports of each host; 0: any). May be repeated.",
    )
    stop_after: LevelName = of_busbw("")  # of `busbw preflight`: how much to check before it stops
    presets_used: tuple[str, ...] = of_presets((), "Written by busbw: presets with their dates.")
    overridden: tuple[str, ...] = of_presets(
        (), "Written by busbw: presets' variables that do not hold, and why."
    )
