"""Settings of ``busbw run`` about what is checked before anything is measured."""

from dataclasses import dataclass
from typing import Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.ranks import of_busbw, of_preflight

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
