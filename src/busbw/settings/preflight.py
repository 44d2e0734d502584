"""Settings of ``busbw run`` about what is checked before anything is measured."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.settings.help_groups import PREFLIGHT

LevelName = Literal["", "only", "deep"]


@Parameter(name="*")
@dataclass(frozen=True)
class PreflightSettings:
    """Settings of one run; see ``settings.run.RunSettings``."""

    preflight: Annotated[
        bool,
        Parameter(
            group=PREFLIGHT,
            help="Compare ranks, versions, variables, GPUs and NICs before anything is measured.",
        ),
    ] = True
    strict: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=PREFLIGHT,
            help="A warning of preflight ends the run, as an error does.",
        ),
    ] = False
    expect_use: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            group=PREFLIGHT,
            help="What NCCL must use: the run ends where it does not, and warns where its log does not tell"
            " (with --strict that ends it too): net=ofi (ib, socket, NAME),"
            " provider=efa (cxi, verbs, of libfabric), gdr=1,"
            " collnet=1, nvls=1, mnnvl=1, gdrcopy=1, tuner=NAME; gpus=1, so that no CPU memory is measured"
            " in their place; nics=8, active fabric ports on each host (0: any number; with --backend mpi"
            " too). May be repeated. Presets say it too.",
        ),
    ] = ()
    stop_after: Annotated[
        LevelName,
        Parameter(show=False, help="Written by `busbw preflight` into jobs: how much to check, then stop."),
    ] = ""
    presets_used: Annotated[
        tuple[str, ...],
        Parameter(show=False, negative="", help="Written by busbw: presets with their dates."),
    ] = ()
    overridden: Annotated[
        tuple[str, ...],
        Parameter(
            show=False, negative="", help="Written by busbw: presets' variables that do not hold, and why."
        ),
    ] = ()
    hunt: Annotated[
        str,
        Parameter(
            show=False,
            help="Written by `busbw isolate`, `pairs` and `rails` into jobs: what to do.",
        ),
    ] = ""
    asked: Annotated[
        str,
        Parameter(show=False, help="Written by busbw into jobs: the ranks and nodes that were asked for."),
    ] = ""
