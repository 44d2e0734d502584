"""Settings of ``busbw run`` about who exchanges what with whom: groups, variable counts, pairs, streams, and
how the data and buffers of a call are made up. Values stay text until a plan is made from them.
"""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.settings.help_groups import BUFFERS, METHOD, PATTERN, PLACE

DataName = Literal["exact", "random", "all_ones"]


@Parameter(name="*")
@dataclass(frozen=True)
class PatternSettings:
    """Settings of one run; see ``settings.run.RunSettings``."""

    groups: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help="JSON file with replica_groups: [[[0, 1], [2, 3]]]. Every group has a communicator of its"
            " own, all run at once; ranks in no group sit out.",
        ),
    ] = ""
    group_size: Annotated[
        int | None,
        Parameter(
            name=["--group-size"],
            group=PATTERN,
            help="Groups of so many neighbouring ranks: 0 to N-1, N to 2N-1, ...",
        ),
    ] = None
    split: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help='Groups by rank number, as NCCL_TESTS_SPLIT: "MOD 4", "DIV 8", "AND 0x7", "OR 0x3"; a mask'
            ' alone is AND. Two in a row: "DIV 4 MOD 2".',
        ),
    ] = ""
    counts: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help="JSON file with the counts of alltoallv or all_gatherv (metadata or alltoallv_metadata)."
            " Without -b and -e the file's own counts; else they are scaled to each size.",
        ),
    ] = ""
    matrix: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help="Text file with bytes from rank (row) to rank (column) for alltoallv, as nccl-tests has it.",
        ),
    ] = ""
    matrix_scale: Annotated[
        float, Parameter(name=["--matrix-scale"], group=PATTERN, help="Multiply the matrix by this.")
    ] = 1.0
    spread: Annotated[
        float | None,
        Parameter(
            group=PATTERN,
            help="alltoallv: 0 sends all ranks the same, 1 in proportion to the distance in rank numbers, as"
            " nccl-tests does; between 0 and 1 a blend.",
        ),
    ] = None
    skew: Annotated[
        float | None,
        Parameter(
            group=PATTERN,
            help="alltoallv, all_gatherv: the busiest rank gets (gives) this many times the mean, the others"
            " geometrically less; 1 is even.",
        ),
    ] = None
    pairs: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help="JSON file with src_target_pairs: [[[0, 1], [1, 0]]] for permute. Without it, the ring.",
        ),
    ] = ""
    streams: Annotated[
        str,
        Parameter(
            show_default=False,
            group=PATTERN,
            help="JSON file with streams: different operations at once, each on a communicator of its own."
            " A table each.",
        ),
    ] = ""
    data: Annotated[
        DataName,
        Parameter(
            group=METHOD,
            help="What is moved and checked: exact (bit for bit), random (within a tolerance for floats) or"
            " all_ones.",
            show_choices=False,
        ),
    ] = "exact"
    save_wrong: Annotated[
        bool,
        Parameter(
            name=["--save-wrong"],
            negative="",
            show_default=False,
            group=METHOD,
            help="Keep what a failed check found, sent, received and expected, in the run folder.",
        ),
    ] = False
    coalesce: Annotated[
        str,
        Parameter(
            show_default=False,
            group=BUFFERS,
            help="Split every call into parallel parts of these ratios: 1,2,1 makes 4M into 1M, 2M and 1M.",
        ),
    ] = ""
    unique_buffers: Annotated[
        bool,
        Parameter(
            name=["--unique-buffers"],
            negative="",
            show_default=False,
            group=BUFFERS,
            help="A buffer of its own for every call of -w and -n, instead of rotating through the largest"
            " size.",
        ),
    ] = False
    shared_output: Annotated[
        bool,
        Parameter(
            name=["--shared-output"],
            negative="",
            show_default=False,
            group=BUFFERS,
            help="One output buffer for two cores of one memory: only of Neuron devices, refused elsewhere.",
        ),
    ] = False
    pin: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=PLACE,
            help="Pin each rank to its share of the CPUs that its host's ranks may use.",
        ),
    ] = False
    outer_iters: Annotated[
        int | None,
        Parameter(
            name=["--outer-iters"],
            group=METHOD,
            help="Repeat -w untimed and -n timed calls this often. [default: 1 with --outer-warmup-iters]",
        ),
    ] = None
    outer_warmup_iters: Annotated[
        int | None,
        Parameter(
            name=["--outer-warmup-iters"],
            group=METHOD,
            help="Repetitions of -w and -n calls before, untimed. [default: 0 with --outer-iters]",
        ),
    ] = None
