"""Flags of ``busbw soak`` beside those of ``run``."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.preflight import PreflightSettings
from busbw.plan.flags.ranks import METHOD, SWEEP, RankSettings
from busbw.plan.flags.values import (
    Countable,
    DataTypes,
    LeavesTime,
    Ranged,
    ReduceOps,
    Roots,
    Seconds,
    Size,
)

SOAK = Group("Soak", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True)
class SoakSettings(Ranged):
    """One soak."""

    time: Annotated[
        Seconds | None,
        LeavesTime(),
        Parameter(group=SOAK, help="How long: 8h, 30min. [default: until Ctrl-C]"),
    ] = None

    @property
    def text(self) -> str:
        """In one word, as records keep it."""
        return f"time={getattr(self.time, 'text', self.time)}"


@Parameter(name="*")
@dataclass(frozen=True)
class SoakRanks(RankSettings, PreflightSettings):
    """The ranks of a soak, and what they repeat; see ``flags.run.RunSettings``."""

    minbytes: Annotated[
        Size,
        Parameter(name=["--minbytes", "-b"], group=SOAK, help="Size of a message, and of each buffer."),
    ] = Size("64M")
    datatype: Annotated[
        DataTypes, Parameter(name=["--datatype", "-d"], group=SWEEP, help="Element type.")
    ] = DataTypes("float")
    op: Annotated[ReduceOps, Parameter(name=["--op", "-o"], group=SWEEP, help="Reduction.")] = ReduceOps(
        "sum"
    )
    root: Annotated[
        Roots,
        Parameter(
            name=["--root", "-r"], allow_leading_hyphen=True, group=SWEEP, help="Root of rooted collectives."
        ),
    ] = Roots("0")
    keep_going: Annotated[
        bool,
        Parameter(group=SOAK, help="Go on after wrong data, which else ends the soak."),
    ] = False
    timeout: Annotated[
        float,
        Countable(),
        Parameter(
            name=["--timeout", "-T"], group=METHOD, help="A window that takes this many seconds hangs."
        ),
    ] = 600.0
