"""The settings of ``busbw compare`` and ``busbw expect``: the rules of their verdicts."""

from pathlib import Path
from typing import Final

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Between, Fraction, Ranged, Seconds

of_compare, of_expect, of_ci = Flags("Comparing", 0), Flags("Expecting", 0), Flags("For CI", 1)
# How long a launch of a setup may run, where nobody says it and no queue limits it.
LAUNCH_SECONDS: Final = 600.0


@settings
class CiSettings:
    """Files for a continuous-integration service, beside what is printed."""

    junit: Path | None = of_ci(None, "Write the verdicts to this file as JUnit XML, a test case a row.")
    benchmark_json: Path | None = of_ci(
        None, "Write the bandwidths to this file for github-action-benchmark (customBiggerIsBetter)."
    )


@settings
class CompareSettings(CiSettings, Ranged):
    """What counts as different, and how setups are launched."""

    ops: str = of_compare("", "Operations to measure with each setup.")
    delta: Fraction = of_compare(
        Fraction("2%"), "Difference that matters; FASTER and SLOWER mean surely more than half of it."
    )
    false_discoveries: Fraction = of_compare(
        Fraction("1%"), "Share of false results among those called FASTER or SLOWER."
    )
    detect: Fraction = of_compare(
        Fraction("5%"), "SAME rules out a larger difference than this (or than --delta); else AMBIGUOUS."
    )
    all: bool = of_compare(False, "Show a row for every size, with its numbers.")
    baseline: str = of_compare("", "Name of the baseline. [default: the first]")
    gate: bool = of_compare(
        False, "Exit code 1 if anything is SLOWER or FAILED, 0 if all is FASTER or SAME, else 3."
    )
    scaling: bool = of_compare(False, "Show bandwidth and percentiles by number of nodes instead.")
    blocks: int = of_compare(12, "Launches of each setup; a block launches every setup once.", Between(1))
    order_seed: int | None = of_compare(None, "Seed of the order in the blocks. [default: random, recorded]")
    one_at_a_time: bool = of_compare(False, "Measure each single change of the setups against the default.")
    launch_timeout: Seconds | None = of_compare(
        None,
        "End a launch after this long and count it as failed; 0: never. [default: 10min; none where launches"
        " are jobs of a queue]",
    )
    save_env: Path | None = of_compare(
        None, "Write the best setup to this file, for `source`, and to FILE.nccl.conf, for NCCL."
    )
    export_setup: str = of_compare("", "Write this setup with --save-env. [default: the best]")


@settings
class ExpectSettings(CiSettings):
    """What a run is held against."""

    reference: tuple[str, ...] = of_expect(
        (), "Reference to compare with: its name or file. May be repeated. [default: all that match]", "-r"
    )
    tolerance: Fraction | None = of_expect(
        None, "How far a run may be below the reference. [default: 10% where that has one launch, else 5%]"
    )
    detect: Fraction | None = of_expect(
        None, "Loss that must not be missed, as 5%; sizes that could miss it are undecided."
    )
    all: bool = of_expect(False, "Show every size, and the limits of the links.")
    same_version: bool = of_expect(False, "Ignore references of other library versions.")
    least: tuple[str, ...] = of_expect(
        (), "Require this bus bandwidth (GB/s) from a size on: 1G=340 or alltoall:1G=40. May be repeated."
    )
    topology: Path | None = of_expect(
        None, "File that NCCL_TOPO_DUMP_FILE wrote: use its links instead of the record's."
    )
    save: str | None = of_expect(None, "Save the run as a reference with this name.")
    replace: bool = of_expect(False, "With --save: replace the reference of this name.")
    list: bool = of_expect(False, "List all references.")
