"""The settings of ``busbw compare`` and ``busbw expect``: the rules of their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Fraction, Ranged, Seconds

COMPARE = Group("Comparing", sort_key=0)
# How long a launch of a setup may run, where nobody says it and no queue limits it.
LAUNCH_SECONDS: Final = 600.0
EXPECT = Group("Expecting", sort_key=0)
CI = Group("For CI", sort_key=1)


@Parameter(name="*")
@dataclass(frozen=True)
class CiSettings:
    """Files for a continuous-integration service, beside what is printed."""

    junit: Annotated[
        Path | None,
        Parameter(
            group=CI,
            show_default=False,
            help="Write the verdicts to this file as JUnit XML, a test case a row.",
        ),
    ] = None
    benchmark_json: Annotated[
        Path | None,
        Parameter(
            group=CI,
            show_default=False,
            help="Write the bandwidths to this file for github-action-benchmark (customBiggerIsBetter).",
        ),
    ] = None


@Parameter(name="*", group=COMPARE)
@dataclass(frozen=True)
class CompareSettings(CiSettings, Ranged):
    """What counts as different, and how setups are launched."""

    ops: Annotated[str, Parameter(help="Operations to measure with each setup.")] = ""
    delta: Annotated[
        Fraction,
        Parameter(help="Difference that matters; FASTER and SLOWER mean surely more than half of it."),
    ] = Fraction("2%")
    false_discoveries: Annotated[
        Fraction, Parameter(help="Share of false results among those called FASTER or SLOWER.")
    ] = Fraction("1%")
    detect: Annotated[
        Fraction,
        Parameter(help="SAME rules out a larger difference than this (or than --delta); else AMBIGUOUS."),
    ] = Fraction("5%")
    all: Annotated[bool, Parameter(help="Show a row for every size, with its numbers.")] = False
    baseline: Annotated[str, Parameter(help="Name of the baseline. [default: the first]")] = ""
    gate: Annotated[
        bool,
        Parameter(help="Exit code 1 if anything is SLOWER or FAILED, 0 if all is FASTER or SAME, else 3."),
    ] = False
    scaling: Annotated[bool, Parameter(help="Show bandwidth and percentiles by number of nodes instead.")] = (
        False
    )
    blocks: Annotated[
        int, Between(1), Parameter(help="Launches of each setup; a block launches every setup once.")
    ] = 12
    order_seed: Annotated[
        int | None, Parameter(help="Seed of the order in the blocks. [default: random, recorded]")
    ] = None
    one_at_a_time: Annotated[
        bool, Parameter(help="Measure each single change of the setups against the default.")
    ] = False
    launch_timeout: Annotated[
        Seconds | None,
        Parameter(
            help="End a launch after this long and count it as failed; 0: never."
            " [default: 10min; none where launches are jobs of a queue]"
        ),
    ] = None
    save_env: Annotated[
        Path | None,
        Parameter(help="Write the best setup to this file, for `source`, and to FILE.nccl.conf, for NCCL."),
    ] = None
    export_setup: Annotated[str, Parameter(help="Write this setup with --save-env. [default: the best]")] = ""


@Parameter(name="*", group=EXPECT)
@dataclass(frozen=True)
class ExpectSettings(CiSettings):
    """What a run is held against."""

    reference: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--reference", "-r"],
            help="Reference to compare with: its name or file. May be repeated. [default: all that match]",
        ),
    ] = ()
    tolerance: Annotated[
        Fraction | None,
        Parameter(
            help="How far a run may be below the reference. [default: 10% where that has one launch, else 5%]"
        ),
    ] = None
    detect: Annotated[
        Fraction | None,
        Parameter(help="Loss that must not be missed, as 5%; sizes that could miss it are undecided."),
    ] = None
    all: Annotated[bool, Parameter(help="Show every size, and the limits of the links.")] = False
    same_version: Annotated[bool, Parameter(help="Ignore references of other library versions.")] = False
    least: Annotated[
        tuple[str, ...],
        Parameter(
            help="Require this bus bandwidth (GB/s) from a size on: 1G=340 or alltoall:1G=40. May be"
            " repeated."
        ),
    ] = ()
    topology: Annotated[
        Path | None,
        Parameter(help="File that NCCL_TOPO_DUMP_FILE wrote: use its links instead of the record's."),
    ] = None
    save: Annotated[str | None, Parameter(help="Save the run as a reference with this name.")] = None
    replace: Annotated[bool, Parameter(help="With --save: replace the reference of this name.")] = False
    list: Annotated[bool, Parameter(help="List all references.")] = False
