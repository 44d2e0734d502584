"""The settings of ``busbw compare`` and ``busbw expect``: the rules of their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Group, Parameter

COMPARE = Group("Comparing", sort_key=0)
# How long a launch of a setup may run, where nobody says it and no queue limits it.
LAUNCH_SECONDS: Final = 600.0
EXPECT = Group("Expecting", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True)
class CompareSettings:
    """What counts as different, and how setups are launched."""

    ops: Annotated[
        str, Parameter(group=COMPARE, show_default=False, help="Operations to measure with each setup.")
    ] = ""
    delta: Annotated[
        str,
        Parameter(
            group=COMPARE,
            help="A relative difference that matters: SAME is within it, FASTER and SLOWER beyond its half.",
        ),
    ] = "2%"
    false_discoveries: Annotated[
        str, Parameter(group=COMPARE, help="Share of false ones among those called FASTER or SLOWER.")
    ] = "1%"
    launch_spread: Annotated[
        str,
        Parameter(
            group=COMPARE,
            show_default=False,
            help="Standard deviation between launches at different times, where you know it: then launches"
            " that were not in turn can be compared.",
        ),
    ] = ""
    baseline: Annotated[
        str, Parameter(group=COMPARE, show_default=False, help="Name of the baseline. [default: the first]")
    ] = ""
    gate: Annotated[
        bool,
        Parameter(
            group=COMPARE,
            negative="",
            show_default=False,
            help="Exit code 1 where something is SLOWER or FAILED, 0 where all is FASTER or SAME, else 3.",
        ),
    ] = False
    scaling: Annotated[
        bool,
        Parameter(
            group=COMPARE,
            negative="",
            show_default=False,
            help="Show bandwidth and percentiles against the number of nodes instead.",
        ),
    ] = False
    blocks: Annotated[
        int, Parameter(group=COMPARE, help="Launches of each setup: each block has every setup once.")
    ] = 12
    order_seed: Annotated[
        int | None,
        Parameter(group=COMPARE, help="Seed of the order in the blocks. [default: random, recorded]"),
    ] = None
    one_at_a_time: Annotated[
        bool,
        Parameter(
            group=COMPARE,
            negative="",
            show_default=False,
            help="Measure every single change of the setups against the default alone.",
        ),
    ] = False
    launch_timeout: Annotated[
        str,
        Parameter(
            group=COMPARE,
            show_default=False,
            help="End a launch that runs for longer, and count it as failed; 0 for none."
            " [default: 10min; none where launches are jobs of a queue]",
        ),
    ] = ""
    save_env: Annotated[
        Path | None,
        Parameter(
            group=COMPARE,
            show_default=False,
            help="Write the best setup to this file for `source`, and what NCCL reads itself beside it as"
            " FILE.nccl.conf.",
        ),
    ] = None
    export_setup: Annotated[
        str,
        Parameter(
            group=COMPARE, show_default=False, help="Write this setup with --save-env. [default: the best]"
        ),
    ] = ""


@Parameter(name="*")
@dataclass(frozen=True)
class ExpectSettings:
    """What a run is held against."""

    reference: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--reference", "-r"],
            group=EXPECT,
            negative="",
            show_default=False,
            help="Name of a reference, or a file of them; may be repeated. [default: all that match]",
        ),
    ] = ()
    tolerance: Annotated[
        str,
        Parameter(
            group=EXPECT,
            show_default=False,
            help="How far below a run may be. [default: 10% of one launch, 5% of several launches]",
        ),
    ] = ""
    same_version: Annotated[
        bool,
        Parameter(
            group=EXPECT,
            negative="",
            show_default=False,
            help="Leave out references of another version of the library.",
        ),
    ] = False
    least: Annotated[
        tuple[str, ...],
        Parameter(
            group=EXPECT,
            negative="",
            show_default=False,
            help="A bus bandwidth (GB/s) to reach from a size on, as 1G=340 or alltoall:1G=40; may be"
            " repeated.",
        ),
    ] = ()
    topology: Annotated[
        Path | None,
        Parameter(
            group=EXPECT,
            show_default=False,
            help="File of NCCL_TOPO_DUMP_FILE: links as NCCL saw them, instead of the record's.",
        ),
    ] = None
    save: Annotated[
        str | None,
        Parameter(group=EXPECT, show_default=False, help="Keep the run as a reference of this name."),
    ] = None
    replace: Annotated[
        bool,
        Parameter(
            group=EXPECT,
            negative="",
            show_default=False,
            help="With --save: also in place of one that has more launches, or sizes that the run lacks.",
        ),
    ] = False
    list: Annotated[
        bool,
        Parameter(group=EXPECT, negative="", show_default=False, help="List the references that there are."),
    ] = False
