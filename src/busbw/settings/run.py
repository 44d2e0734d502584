"""The settings of ``busbw run``: one model, from which flags, help and the CLI reference are made.

Letters and long names are those of nccl-tests where it has the option. Values stay text until a plan is made
from them, so that the record keeps what the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

SWEEP = Group("Sweep", sort_key=1)
METHOD = Group("Method", sort_key=2)
PLACE = Group("Where", sort_key=3)
OUTPUT = Group("Output", sort_key=4)

BackendName = Literal["auto", "nccl", "mpi", "null"]
WorldName = Literal["auto", "solo", "mpi", "nccl"]
FormatName = Literal["table", "csv", "json", "jsonl"]


@Parameter(name="*")
@dataclass(frozen=True)
class RunSettings:
    """Settings of one run."""

    minbytes: Annotated[
        str, Parameter(name=["--minbytes", "-b"], group=SWEEP, help="First size; K, M, G are powers of 1024.")
    ] = "8"
    maxbytes: Annotated[
        str,
        Parameter(
            name=["--maxbytes", "-e"],
            group=SWEEP,
            help="Last size; also the size of each rank's send and receive buffers.",
        ),
    ] = "64M"
    stepfactor: Annotated[
        float | None,
        Parameter(
            name=["--stepfactor", "-f"], group=SWEEP, help="Factor between sizes; 1 = add -i. [default: 2]"
        ),
    ] = None
    stepbytes: Annotated[
        str | None,
        Parameter(name=["--stepbytes", "-i"], group=SWEEP, help="Bytes between sizes, instead of a factor."),
    ] = None
    datatype: Annotated[
        str,
        Parameter(
            name=["--datatype", "-d"], group=SWEEP, help="Element type, or several separated by commas."
        ),
    ] = "float"
    op: Annotated[
        str, Parameter(name=["--op", "-o"], group=SWEEP, help="Reduction: sum, prod, min, max, or several.")
    ] = "sum"
    root: Annotated[
        int, Parameter(name=["--root", "-r"], group=SWEEP, help="Root of rooted collectives.")
    ] = 0
    iters: Annotated[
        int | None,
        Parameter(
            name=["--iters", "-n"],
            group=METHOD,
            help="Timed calls a case. Without it, sampling goes on until the interval is narrow enough.",
        ),
    ] = None
    warmup_iters: Annotated[
        int | None,
        Parameter(
            name=["--warmup-iters", "-w"], group=METHOD, help="Untimed calls first. [default: 3 and 20 ms]"
        ),
    ] = None
    check: Annotated[
        int, Parameter(name=["--check", "-c"], group=METHOD, help="Checks of the result a case; 0 = none.")
    ] = 1
    precision: Annotated[
        str | None,
        Parameter(
            group=METHOD,
            help="Relative half-width of the interval to reach. [default: 1%; 2.5% below 50 us]",
        ),
    ] = None
    case_time: Annotated[
        str, Parameter(group=METHOD, help="Sample one case for no longer than about this.")
    ] = "500ms"
    hot: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=METHOD,
            help="Use one place of the buffers (data in caches) instead of rotating.",
        ),
    ] = False
    seed: Annotated[
        int | None, Parameter(group=METHOD, help="Seed of the check data. [default: random, recorded]")
    ] = None
    ranks: Annotated[
        int | None,
        Parameter(
            group=PLACE, help="Ranks to start on this host. [default: all visible GPUs, or the cores up to 8]"
        ),
    ] = None
    backend: Annotated[
        BackendName,
        Parameter(group=PLACE, help="auto: nccl where GPUs are visible, else mpi.", show_choices=False),
    ] = "auto"
    world: Annotated[
        WorldName,
        Parameter(
            group=PLACE, help="How ranks find each other: mpi, or nccl (a TCP channel, no MPI needed)."
        ),
    ] = "auto"
    nccl: Annotated[
        str, Parameter(show_default=False, group=PLACE, help="Path of the libnccl.so to measure.")
    ] = ""
    format: Annotated[FormatName, Parameter(group=OUTPUT, help="What is written to standard output.")] = (
        "table"
    )
    dry_run: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=OUTPUT,
            help="Print the plan and what would be started, then stop.",
        ),
    ] = False
