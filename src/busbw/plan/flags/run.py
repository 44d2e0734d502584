"""The settings of ``busbw run``: one model, from which flags, help and the CLI reference are made.

Letters and long names are those of nccl-tests where it has the option (``-N`` excepted: nodes, later).
Values have their types (``values``), and keep the text that the user wrote for the record.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from busbw.plan.flags.arrival import ArrivalText
from busbw.plan.flags.flag import settings
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.pattern import PatternSettings
from busbw.plan.flags.ranks import (
    Asked,
    PreflightSettings,
    RankSettings,
    of_buffers,
    of_busbw,
    of_method,
    of_output,
    of_place,
    of_sweep,
)
from busbw.plan.flags.soak import SoakSettings
from busbw.plan.flags.values import (
    MOST_CALLS,
    Between,
    Countable,
    DataTypes,
    Fraction,
    LeavesTime,
    OneOf,
    ReduceOps,
    Roots,
    Seconds,
    SecondsOrOff,
    Size,
    as_written,
)

ModeName = Literal["throughput", "latency"]
TimeName = Literal["max", "avg", "min", "rank0", "last", "span", "loop"]
MemoryName = Literal["device", "nccl", "managed", "host"]
ProfileName = Literal["none", "nsys"]
_MOST_NAMED: Final = 4  # operations that a run's id lists


@settings
class RunSettings(RankSettings, PreflightSettings, PatternSettings):
    """Settings of one run."""

    parallel_init: int = of_place(
        0,
        "Accepted as in nccl-tests, and always on: every GPU has its own process.",
        "--parallel_init -p",
        OneOf((0, 1)),
    )
    minbytes: Size | None = of_sweep(
        None, "First size; K, M, G are powers of 1024. Alone, without -e, the only size. [default: 8]", "-b"
    )
    maxbytes: Size | None = of_sweep(
        None,
        "Last size, and the size of each rank's send and receive buffers. Alone, the only size. [default:"
        " 64M]",
        "-e",
    )
    stepfactor: float | None = of_sweep(None, "Factor between sizes; 1 = step by -i. [default: 2]", "-f")
    stepbytes: Size | None = of_sweep(
        None, "Bytes between sizes, instead of a factor. [default with -f 1: 1M]", "-i"
    )
    datatype: DataTypes = of_sweep(DataTypes("float"), "Element type; several with commas, or all.", "-d")
    op: ReduceOps = of_sweep(
        ReduceOps("sum"), "Reduction: sum, prod, min, max, avg, mulsum; several with commas, or all.", "-o"
    )
    root: Roots = of_sweep(
        Roots("0"), "Root of rooted collectives, several, or all (-1).", "-r", allow_leading_hyphen=True
    )
    cycles: int = of_sweep(
        1, "Sweep so often, as a soak, in windows of --case-time; 0: until --budget or Ctrl-C.", Between(0)
    )
    keep_going: bool = of_sweep(False, "Go on after wrong data, which else ends what --cycles repeats.")
    iters: int | None = of_method(
        None,
        "Timed calls for each case (groups of calls with -m); 0 only checks. [default: until the interval is"
        " narrow enough]",
        "-n",
        Between(0, MOST_CALLS),
    )
    warmup_iters: int | None = of_method(
        None,
        "Untimed calls first. [default: until steady, 20 ms at most]",
        "--warmup_iters -w",
        Between(0),
    )
    warmup_time: Seconds | None = of_method(
        None,
        "Make untimed calls for at least this long, also with -w. [default: until steady, 20ms at most; with"
        " -w, 0]",
    )
    agg_iters: int = of_method(
        1,
        "Issue this many calls as one NCCL group, and divide the time by it.",
        "--agg_iters -m",
        Between(1),
    )
    check: int = of_method(1, "How often to check the result of each case; 0: never.", "-c", Between(0))
    precision: Fraction | None = of_method(
        None, "Sample until the interval is this narrow (half-width). [default: 1%; 2.5% below 50 us]"
    )
    case_time: Seconds = of_method(
        Seconds("500ms"), "Sample each case for about this long at most.", LeavesTime()
    )
    budget: Seconds | None = of_method(None, "Time for all cases of a launch together.", LeavesTime())
    mode: ModeName = of_method(
        "throughput", "throughput: back-to-back calls; latency: single calls, each after a barrier."
    )
    time: TimeName | None = of_method(
        None,
        "Which of the ranks' times is a sample: max, avg, min, rank0, loop (host time of a loop, as"
        " nccl-tests); in latency mode also last (from the last arrival) and span (first entry to last exit,"
        " synchronised clocks). [default: max]",
        show_choices=False,
    )
    average: int | None = of_method(
        None,
        "--time by nccl-tests' number: 0 rank0, 1 avg, 2 min, 3 max. With --time loop: over one loop of all"
        " -n calls.",
        "-a",
        OneOf((0, 1, 2, 3)),
    )
    arrival: ArrivalText = of_method(
        ArrivalText("none"),
        "Delay ranks on purpose, in latency mode: late-one:4ms, uniform:0-10ms, ramp:10ms or trace:FILE (a"
        " number alone is seconds); without a time, by up to the time of a call.",
    )
    beside: tuple[str, ...] = of_method(
        (),
        "Measure each case alone and beside a load, in turn: compute, memory, gemm (cuBLAS) or an operation."
        " After a colon: share=50% (of a GPU's multiprocessors, of a CPU thread's time); on GPUs sms=100,"
        " length=1ms (of a launch); n=8192 of gemm; of an operation ranks=odd (the others are measured),"
        " size=1M. Out-of-place only, where there is that.",
    )
    blocking: int = of_method(
        0,
        "1, 3: wait and barrier after each call (as --mode latency); 2: wait without a barrier.",
        "-z",
        OneOf((0, 1, 2, 3)),
    )
    cudagraph: int = of_method(
        0,
        "Capture the calls of a sample in a CUDA graph; with -n, launch it this many times.",
        "-G",
        Between(0),
    )
    launches: int = of_method(
        1,
        "Start the ranks this many times. Intervals then cover launches, which differ more than samples do.",
        Between(1),
    )
    timeout: float = of_method(0.0, "End a case after this many seconds; 0: never.", "-T", Countable())
    stall: SecondsOrOff = of_method(
        SecondsOrOff("30s"),
        "End and explain a run in which nothing moves for so long, or for 20 times a call's time if that is"
        " longer; off: never.",
    )
    unalign: int = of_buffers(0, "Misalign both buffers by this many elements.", "-u", Between(0))
    buffers: MemoryName = of_buffers(
        "device",
        "Memory of GPU ranks: device, nccl (ncclMemAlloc, as nccl-tests), managed or host.",
        show_choices=False,
    )
    local_register: int = of_buffers(
        0,
        "Register the buffers with NCCL: 0 no, 1 locally, 2 as symmetric windows.",
        "--local_register -R",
        OneOf((0, 1, 2)),
    )
    stats: tuple[str, ...] = of_output(
        (),
        "Columns of statistics instead of the usual ones: avg, min, max, p50, p99, p99.9 (any pNN), cv,"
        " imbalance, last, n, issue, skew, first, in, out, algorithm, channels, overlap.",
        "--columns",
        consume_multiple=True,
    )
    wide: bool = of_output(False, "All columns on a terminal too, as a pipe gets them.")
    expect: tuple[str, ...] = of_output(
        (),
        "Compare the run with this reference (`busbw expect --list`), file or preset. Exit code 1: below it;"
        " 3: undecided.",
    )
    evidence: tuple[str, ...] = of_output(
        (),
        "Collect evidence for `busbw diagnose` in untimed passes: counters (bytes on every link during a"
        " burst of the largest size), algorithm (what NCCL chose for each case).",
        consume_multiple=True,
    )
    profile: ProfileName = of_output(
        "none",
        "nsys: run every rank under Nsight Systems and keep its report in the run folder. Do not trust the"
        " times of such a run.",
    )
    profile_args: str = of_output(
        "", "More flags for `nsys profile`, after =: --profile-args='--enable efa_metrics --delay 2'."
    )
    raw_ranks: int = of_output(
        16,
        "Keep the samples of every rank up to this many ranks; above, of rank 0 and the slowest 4.",
        Between(0),
    )
    report_cputime: int = of_output(
        0,
        "1: show the host's time for issuing a call (--stats issue).",
        "--report_cputime -C",
        OneOf((0, 1)),
    )
    report_timestamps: int = of_output(
        0, "1: show when each row was finished.", "--report_timestamps", "-S", OneOf((0, 1))
    )
    nccl_topology: bool = of_output(
        False, "Keep NCCL's topology and graphs as XML, in evidence/ of the run folder."
    )
    memory: int = of_output(0, "1: show the memory of buffers and communicator.", "-M", OneOf((0, 1)))
    # What busbw itself says, in the requests of jobs: no flags.
    deliver: str = of_busbw("")
    hunt: HuntSettings | None = of_busbw(None)
    soak: SoakSettings | None = of_busbw(None)
    asked: Asked | None = of_busbw(None)
    # Of `busbw tune`: every way in which NCCL can do each case, or what it was found to do best.
    arms: bool = of_busbw(False)
    arms_out: tuple[str, ...] = of_busbw(())
    tuner_table: str = of_busbw("")

    @property
    def repeats(self) -> bool:
        """Whether the cases are measured again and again."""
        return self.soak is not None or self.cycles != 1

    def label(self, operations: Iterable[str]) -> str:
        """The middle of the run's id: the user's own name, else what it does."""
        names = tuple(dict.fromkeys(operations))
        many = f"{names[0]}+{len(names) - 1}-more" if len(names) > _MOST_NAMED else ""
        does = self.hunt.kind if self.hunt is not None else "preflight" if self.stop_after else ""
        does = does or ("soak" if self.soak is not None else "")
        return self.name or does or many or "+".join(names) or "streams"

    def written(self) -> dict[str, Any]:
        """As records keep settings: plain JSON values, and texts as users wrote them."""
        unsaid = {"hunt": "", "asked": "", "soak": ""}  # as in records of earlier versions
        return {
            name: unsaid[name] if value is None and name in unsaid else value
            for name, value in as_written(self).items()
        }
