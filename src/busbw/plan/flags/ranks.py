"""Settings of ranks that ``busbw run`` and hunts share: which there are, and how what they find is shown."""

from typing import Final, Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.names import NameSettings
from busbw.plan.flags.values import MOST_SEED, Between

BackendName = Literal["auto", "nccl", "mpi", "null"]
WorldName = Literal["auto", "solo", "mpi", "nccl"]
FormatName = Literal["table", "csv", "json", "jsonl"]

# The groups under which `busbw run --help` lists its flags.
of_sweep = Flags("Sweep", 1)
of_pattern = Flags("Ranks, groups and data", 2)
of_method = Flags("Method", 3)
of_buffers = Flags("Buffers", 4)
of_place = Flags("Where", 5)
of_preflight = Flags("Checked first", 6)
of_output = Flags("Output", 7)
of_busbw = Flags(parse=False)  # what busbw itself says, as in the requests of jobs: no flags

MOST_RANKS: Final = 2**20  # of a world: for more, who exchanges what takes minutes to work out


@settings
class RankSettings(NameSettings):
    """See ``flags.run.RunSettings``."""

    ranks: int | None = of_place(
        None,
        "Ranks to start on this host. [default: one per GPU, or per core up to 8]",
        Between(1, MOST_RANKS),
    )
    backend: BackendName = of_place(
        "auto", "nccl, mpi or null; auto: nccl if GPUs are visible, else mpi.", show_choices=False
    )
    world: WorldName = of_place(
        "auto", "How ranks find each other: mpi, or nccl (a TCP channel, no MPI needed)."
    )
    nccl: str = of_place("", "Path of the libnccl.so to measure.")
    pin: bool = of_place(False, "Pin each rank to its share of the host's usable CPUs.")
    hot: bool = of_buffers(False, "Use the same part of the buffers for every call (data stays in caches).")
    seed: int | None = of_method(
        None, "Seed of the check data. [default: random, recorded]", Between(0, MOST_SEED)
    )
    format: FormatName = of_output("table", "Format of standard output.")
    dry_run: bool = of_output(False, "Print the plan and what would be started; start nothing.")
    show_secrets: bool = of_output(False, "Show secrets in a dry run, so that its text runs unchanged.")
