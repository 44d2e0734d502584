"""Settings of ``busbw run`` about who exchanges what with whom: groups, variable counts, pairs, streams, and
how the data and buffers of a call are made up. Files are read when a plan is made.
"""

from typing import Literal

from busbw.plan.flags.flag import settings
from busbw.plan.flags.ranks import of_buffers, of_method, of_pattern
from busbw.plan.flags.skew import Skew
from busbw.plan.flags.values import Between, Ratios

DataName = Literal["exact", "random", "all_ones"]


@settings
class PatternSettings:
    """Settings of one run; see ``settings.run.RunSettings``."""

    groups: str = of_pattern(
        "",
        "JSON file with replica_groups: [[[0, 1], [2, 3]]]. All groups run at once, each on its own"
        " communicator.",
    )
    group_size: int | None = of_pattern(
        None, "Groups of this many neighbouring ranks: 0 to N-1, N to 2N-1, ..."
    )
    split: str = of_pattern(
        "",
        'Groups by rank number, as NCCL_TESTS_SPLIT: "MOD 4", "DIV 8", "AND 0x7", "OR 0x3"; a mask alone is'
        ' AND. Two in a row: "DIV 4 MOD 2".',
    )
    counts: str = of_pattern(
        "",
        "JSON file with the counts of alltoallv or all_gatherv (metadata or alltoallv_metadata). Without -b"
        " and -e the file's own counts; else they are scaled to each size.",
    )
    matrix: str = of_pattern(
        "", "Text file with bytes from rank (row) to rank (column) for alltoallv, as nccl-tests has it."
    )
    matrix_scale: float = of_pattern(1.0, "Multiply the matrix by this.")
    spread: float | None = of_pattern(
        None,
        "alltoallv: 0 sends all ranks the same, 1 in proportion to the distance in rank numbers, as"
        " nccl-tests does; between 0 and 1 a blend.",
    )
    skew: Skew | None = of_pattern(
        None,
        "Uneven alltoallv, all_gatherv, and the same bytes evenly spread: zipf:S or lognormal:S"
        " [,experts=N][,tokens=N][,topk=N][,draws=N], counts:FILE.jsonl, or how many times the mean the"
        " busiest rank gets (gives).",
    )
    pairs: str = of_pattern(
        "", "JSON file with src_target_pairs: [[[0, 1], [1, 0]]] for permute. Without it, the ring."
    )
    streams: str = of_pattern(
        "",
        "JSON file with streams: different operations at once, each on a communicator of its own. A table"
        " each.",
    )
    data: DataName = of_method(
        "exact",
        "What is moved and checked: exact (bit for bit), random (within a tolerance for floats) or all_ones.",
        show_choices=False,
    )
    save_wrong: bool = of_method(
        False, "Keep the data of a failed check in the run folder: sent, received and expected."
    )
    coalesce: Ratios = of_buffers(
        Ratios(""), "Split every call into parallel parts of these ratios: 1,2,1 makes 4M into 1M, 2M and 1M."
    )
    unique_buffers: bool = of_buffers(
        False, "Give every call its own buffer instead of rotating through the largest size."
    )
    outer_iters: int | None = of_method(
        None, "Repeat the -w and -n calls this often. [default: 1 with --outer-warmup-iters]", Between(1)
    )
    outer_warmup_iters: int | None = of_method(
        None, "Repeat them this often before, untimed. [default: 0 with --outer-iters]", Between(0)
    )
