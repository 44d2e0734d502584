"""Settings of ranks that ``busbw run`` and hunts share: which there are, and how what they find is shown."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.names import NameSettings
from busbw.plan.flags.values import MOST_SEED, Between

BackendName = Literal["auto", "nccl", "mpi", "null"]
WorldName = Literal["auto", "solo", "mpi", "nccl"]
FormatName = Literal["table", "csv", "json", "jsonl"]

# The groups under which `busbw run --help` lists its flags.
SWEEP = Group("Sweep", sort_key=1)
PATTERN = Group("Ranks, groups and data", sort_key=2)
METHOD = Group("Method", sort_key=3)
BUFFERS = Group("Buffers", sort_key=4)
PLACE = Group("Where", sort_key=5)
PREFLIGHT = Group("Checked first", sort_key=6)
OUTPUT = Group("Output", sort_key=7)

# A flag of a group.
of_sweep, of_pattern, of_method, of_buffers, of_place, of_output = (
    partial(Parameter, group=group) for group in (SWEEP, PATTERN, METHOD, BUFFERS, PLACE, OUTPUT)
)

MOST_RANKS: Final = 2**20  # of a world: for more, who exchanges what takes minutes to work out


@Parameter(name="*")
@dataclass(frozen=True)
class RankSettings(NameSettings):
    """See ``flags.run.RunSettings``."""

    ranks: Annotated[
        int | None,
        Between(1, MOST_RANKS),
        of_place(help="Ranks to start on this host. [default: one per GPU, or per core up to 8]"),
    ] = None
    backend: Annotated[
        BackendName,
        of_place(help="nccl, mpi or null; auto: nccl if GPUs are visible, else mpi.", show_choices=False),
    ] = "auto"
    world: Annotated[
        WorldName,
        of_place(help="How ranks find each other: mpi, or nccl (a TCP channel, no MPI needed)."),
    ] = "auto"
    nccl: Annotated[str, of_place(help="Path of the libnccl.so to measure.")] = ""
    pin: Annotated[bool, of_place(help="Pin each rank to its share of the host's usable CPUs.")] = False
    hot: Annotated[
        bool,
        of_buffers(help="Use the same part of the buffers for every call (data stays in caches)."),
    ] = False
    seed: Annotated[
        int | None,
        Between(0, MOST_SEED),
        of_method(help="Seed of the check data. [default: random, recorded]"),
    ] = None
    format: Annotated[FormatName, of_output(help="Format of standard output.")] = "table"
    dry_run: Annotated[bool, of_output(help="Print the plan and what would be started; start nothing.")] = (
        False
    )
    show_secrets: Annotated[
        bool, of_output(help="Show secrets in a dry run, so that its text runs unchanged.")
    ] = False
