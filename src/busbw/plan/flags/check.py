"""Flags of ``busbw check`` beside those of ``run``."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from busbw.plan.flags.compare import CI, CiSettings
from busbw.plan.flags.flag import Group
from busbw.plan.flags.preflight import PreflightSettings
from busbw.plan.flags.ranks import RankSettings

CHECK = Group("Check", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True)
class CheckSettings(CiSettings):
    """What is measured, what it is held against, and who hears of it."""

    plan: Annotated[
        Path | None,
        Parameter(
            group=CHECK,
            help="YAML file with what to measure, as flags of `busbw run`: operations, minbytes, maxbytes,"
            " stepfactor, ...",
        ),
    ] = None
    reference: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--reference", "-r"],
            group=CHECK,
            help="Reference to compare with: its name or file. May be repeated. [default: all that match,"
            " else earlier runs]",
        ),
    ] = ()
    least: Annotated[
        tuple[str, ...],
        Parameter(
            group=CHECK,
            help="Require this bus bandwidth (GB/s) from a size on: 1G=340 or alltoall:1G=40. May be"
            " repeated.",
        ),
    ] = ()
    prometheus: Annotated[
        Path | None,
        Parameter(
            group=CI,
            show_default=False,
            help="Write the results to this file (.prom) for node_exporter's textfile collector.",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class CheckRanks(RankSettings, PreflightSettings):
    """The ranks of a check; see ``flags.run.RunSettings``."""
