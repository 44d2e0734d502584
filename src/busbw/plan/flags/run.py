"""The settings of ``busbw run``: one model, from which flags, help and the CLI reference are made.

Letters and long names are those of nccl-tests where it has the option (``-N`` excepted: nodes, later).
Values have their types (``values``), and keep the text that the user wrote for the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from busbw.plan.flags.arrival import ArrivalText
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.pattern import PatternSettings
from busbw.plan.flags.preflight import Asked, PreflightSettings
from busbw.plan.flags.ranks import RankSettings, of_buffers, of_method, of_output, of_place, of_sweep
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


@Parameter(name="*")
@dataclass(frozen=True)
class RunSettings(RankSettings, PreflightSettings, PatternSettings):
    """Settings of one run."""

    parallel_init: Annotated[
        int,
        OneOf((0, 1)),
        of_place(
            name=["--parallel-init", "--parallel_init", "-p"],
            help="Accepted as in nccl-tests, and always on: every GPU has its own process.",
        ),
    ] = 0
    minbytes: Annotated[
        Size | None,
        of_sweep(
            name=["--minbytes", "-b"],
            help="First size; K, M, G are powers of 1024. Alone, without -e, the only size. [default: 8]",
        ),
    ] = None
    maxbytes: Annotated[
        Size | None,
        of_sweep(
            name=["--maxbytes", "-e"],
            help="Last size, and the size of each rank's send and receive buffers. Alone, the only size."
            " [default: 64M]",
        ),
    ] = None
    stepfactor: Annotated[
        float | None,
        of_sweep(name=["--stepfactor", "-f"], help="Factor between sizes; 1 = step by -i. [default: 2]"),
    ] = None
    stepbytes: Annotated[
        Size | None,
        of_sweep(
            name=["--stepbytes", "-i"],
            help="Bytes between sizes, instead of a factor. [default with -f 1: 1M]",
        ),
    ] = None
    datatype: Annotated[
        DataTypes,
        of_sweep(name=["--datatype", "-d"], help="Element type; several with commas, or all."),
    ] = DataTypes("float")
    op: Annotated[
        ReduceOps,
        of_sweep(
            name=["--op", "-o"],
            help="Reduction: sum, prod, min, max, avg, mulsum; several with commas, or all.",
        ),
    ] = ReduceOps("sum")
    root: Annotated[
        Roots,
        of_sweep(
            name=["--root", "-r"],
            allow_leading_hyphen=True,
            help="Root of rooted collectives, several, or all (-1).",
        ),
    ] = Roots("0")
    cycles: Annotated[
        int,
        Between(0),
        of_sweep(help="Sweep so often, as a soak, in windows of --case-time; 0: until --budget or Ctrl-C."),
    ] = 1
    keep_going: Annotated[
        bool, of_sweep(help="Go on after wrong data, which else ends what --cycles repeats.")
    ] = False
    iters: Annotated[
        int | None,
        Between(0, MOST_CALLS),
        of_method(
            name=["--iters", "-n"],
            help="Timed calls for each case (groups of calls with -m); 0 only checks. [default: until the"
            " interval is narrow enough]",
        ),
    ] = None
    warmup_iters: Annotated[
        int | None,
        Between(0),
        of_method(
            name=["--warmup-iters", "--warmup_iters", "-w"],
            help="Untimed calls first. [default: until steady, 20 ms at most]",
        ),
    ] = None
    warmup_time: Annotated[
        Seconds | None,
        of_method(
            help="Make untimed calls for at least this long, also with -w."
            " [default: until steady, 20ms at most; with -w, 0]"
        ),
    ] = None
    agg_iters: Annotated[
        int,
        Between(1),
        of_method(
            name=["--agg-iters", "--agg_iters", "-m"],
            help="Issue this many calls as one NCCL group, and divide the time by it.",
        ),
    ] = 1
    check: Annotated[
        int,
        Between(0),
        of_method(name=["--check", "-c"], help="How often to check the result of each case; 0: never."),
    ] = 1
    precision: Annotated[
        Fraction | None,
        of_method(
            help="Sample until the interval is this narrow (half-width). [default: 1%; 2.5% below 50 us]"
        ),
    ] = None
    case_time: Annotated[
        Seconds, LeavesTime(), of_method(help="Sample each case for about this long at most.")
    ] = Seconds("500ms")
    budget: Annotated[
        Seconds | None, LeavesTime(), of_method(help="Time for all cases of a launch together.")
    ] = None
    mode: Annotated[
        ModeName,
        of_method(help="throughput: back-to-back calls; latency: single calls, each after a barrier."),
    ] = "throughput"
    time: Annotated[
        TimeName | None,
        of_method(
            help="Which of the ranks' times is a sample: max, avg, min, rank0, loop (host time of a loop, as"
            " nccl-tests); in latency mode also last (from the last arrival) and span (first entry to last"
            " exit, synchronised clocks). [default: max]",
            show_choices=False,
        ),
    ] = None
    average: Annotated[
        int | None,
        OneOf((0, 1, 2, 3)),
        of_method(
            name=["--average", "-a"],
            help="--time by nccl-tests' number: 0 rank0, 1 avg, 2 min, 3 max. With --time loop: over one loop"
            " of all -n calls.",
        ),
    ] = None
    arrival: Annotated[
        ArrivalText,
        of_method(
            help="Delay ranks on purpose, in latency mode: late-one:4ms, uniform:0-10ms, ramp:10ms or"
            " trace:FILE (a number alone is seconds); without a time, by up to the time of a call."
        ),
    ] = ArrivalText("none")
    beside: Annotated[
        tuple[str, ...],
        of_method(
            help="Measure each case alone and beside a load, in turn: compute, memory, gemm (cuBLAS) or an"
            " operation. After a colon: share=50% (of a GPU's multiprocessors, of a CPU thread's time); on"
            " GPUs sms=100, length=1ms (of a launch); n=8192 of gemm; of an operation ranks=odd (the others"
            " are measured), size=1M."
            " Out-of-place only, where there is that."
        ),
    ] = ()
    blocking: Annotated[
        int,
        OneOf((0, 1, 2, 3)),
        of_method(
            name=["--blocking", "-z"],
            help="1, 3: wait and barrier after each call (as --mode latency); 2: wait without a barrier.",
        ),
    ] = 0
    cudagraph: Annotated[
        int,
        Between(0),
        of_method(
            name=["--cudagraph", "-G"],
            help="Capture the calls of a sample in a CUDA graph; with -n, launch it this many times.",
        ),
    ] = 0
    launches: Annotated[
        int,
        Between(1),
        of_method(
            help="Start the ranks this many times. Intervals then cover launches, which differ more than"
            " samples do."
        ),
    ] = 1
    timeout: Annotated[
        float,
        Countable(),
        of_method(name=["--timeout", "-T"], help="End a case after this many seconds; 0: never."),
    ] = 0.0
    stall: Annotated[
        SecondsOrOff,
        of_method(
            help="End and explain a run in which nothing moves for so long, or for 20 times a call's time if"
            " that is longer; off: never."
        ),
    ] = SecondsOrOff("30s")
    unalign: Annotated[
        int,
        Between(0),
        of_buffers(name=["--unalign", "-u"], help="Misalign both buffers by this many elements."),
    ] = 0
    buffers: Annotated[
        MemoryName,
        of_buffers(
            help="Memory of GPU ranks: device, nccl (ncclMemAlloc, as nccl-tests), managed or host.",
            show_choices=False,
        ),
    ] = "device"
    local_register: Annotated[
        int,
        OneOf((0, 1, 2)),
        of_buffers(
            name=["--local-register", "--local_register", "-R"],
            help="Register the buffers with NCCL: 0 no, 1 locally, 2 as symmetric windows.",
        ),
    ] = 0
    stats: Annotated[
        tuple[str, ...],
        of_output(
            name=["--stats", "--columns"],
            consume_multiple=True,
            help="Columns of statistics instead of the usual ones: avg, min, max, p50, p99, p99.9 (any pNN),"
            " cv, imbalance, last, n, issue, skew, first, in, out, algorithm, channels, overlap.",
        ),
    ] = ()
    wide: Annotated[bool, of_output(help="All columns on a terminal too, as a pipe gets them.")] = False
    expect: Annotated[
        tuple[str, ...],
        of_output(
            help="Compare the run with this reference (`busbw expect --list`), file or preset. Exit code 1:"
            " below it; 3: undecided."
        ),
    ] = ()
    evidence: Annotated[
        tuple[str, ...],
        of_output(
            consume_multiple=True,
            help="Collect evidence for `busbw diagnose` in untimed passes: counters (bytes on every link"
            " during a burst of the largest size), algorithm (what NCCL chose for each case).",
        ),
    ] = ()
    profile: Annotated[
        ProfileName,
        of_output(
            help="nsys: run every rank under Nsight Systems and keep its report in the run folder. Do not"
            " trust the times of such a run."
        ),
    ] = "none"
    profile_args: Annotated[
        str,
        of_output(
            help="More flags for `nsys profile`, after =: --profile-args='--enable efa_metrics --delay 2'."
        ),
    ] = ""
    raw_ranks: Annotated[
        int,
        Between(0),
        of_output(
            help="Keep the samples of every rank up to this many ranks; above, of rank 0 and the slowest 4."
        ),
    ] = 16
    report_cputime: Annotated[
        int,
        OneOf((0, 1)),
        of_output(
            name=["--report-cputime", "--report_cputime", "-C"],
            help="1: show the host's time for issuing a call (--stats issue).",
        ),
    ] = 0
    report_timestamps: Annotated[
        int,
        OneOf((0, 1)),
        of_output(
            name=["--report-timestamps", "--report_timestamps", "-S"],
            help="1: show when each row was finished.",
        ),
    ] = 0
    nccl_topology: Annotated[
        bool,
        of_output(help="Keep NCCL's topology and graphs as XML, in evidence/ of the run folder."),
    ] = False
    memory: Annotated[
        int,
        OneOf((0, 1)),
        of_output(name=["--memory", "-M"], help="1: show the memory of buffers and communicator."),
    ] = 0
    # What busbw itself says, in the requests of jobs: no flags.
    deliver: Annotated[str, Parameter(parse=False)] = ""  # the front process's run folder
    hunt: Annotated[HuntSettings | None, Parameter(parse=False)] = None  # what to do instead of measuring
    soak: Annotated[SoakSettings | None, Parameter(parse=False)] = None
    asked: Annotated[Asked | None, Parameter(parse=False)] = None
    # Of `busbw tune`: every way in which NCCL can do each case, or what it was found to do best.
    arms: Annotated[bool, Parameter(parse=False)] = False
    arms_out: Annotated[tuple[str, ...], Parameter(parse=False)] = ()  # of them: "all_reduce ring/ll/4"
    tuner_table: Annotated[str, Parameter(parse=False)] = ""

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
