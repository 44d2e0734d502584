"""Flags of ``busbw check`` beside those of ``run``."""

from pathlib import Path

from busbw.plan.flags.compare import CiSettings, of_ci
from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.ranks import PreflightSettings, RankSettings

of_check = Flags("Check", 0)


@settings
class CheckSettings(CiSettings):
    """What is measured, what it is held against, and who hears of it."""

    plan: Path | None = of_check(
        None,
        "YAML file with what to measure, as flags of `busbw run`: operations, minbytes, maxbytes,"
        " stepfactor, ...",
    )
    reference: tuple[str, ...] = of_check(
        (),
        "Reference to compare with: its name or file. May be repeated. [default: all that match, else"
        " earlier runs]",
        "-r",
    )
    least: tuple[str, ...] = of_check(
        (), "Require this bus bandwidth (GB/s) from a size on: 1G=340 or alltoall:1G=40. May be repeated."
    )
    prometheus: Path | None = of_ci(
        None, "Write the results to this file (.prom) for node_exporter's textfile collector."
    )


@settings
class CheckRanks(RankSettings, PreflightSettings):
    """The ranks of a check; see ``flags.run.RunSettings``."""
