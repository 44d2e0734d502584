"""The settings of ``busbw run``: one model, from which flags, help and the CLI reference are made.

Letters and long names are those of nccl-tests where it has the option (``-N`` excepted: nodes, later).
Values stay text until a plan is made from them, so that the record keeps what the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.settings.help_groups import BUFFERS, METHOD, OUTPUT, PLACE, SWEEP
from busbw.settings.pattern import PatternSettings
from busbw.settings.preflight import PreflightSettings

BackendName = Literal["auto", "nccl", "mpi", "null"]
WorldName = Literal["auto", "solo", "mpi", "nccl"]
ModeName = Literal["throughput", "latency"]
TimeName = Literal["max", "avg", "min", "rank0", "last", "span", "loop"]
ArrivalName = Literal["none", "late-one", "uniform", "ramp"]
MemoryName = Literal["device", "nccl", "managed", "host"]
FormatName = Literal["table", "csv", "json", "jsonl"]
ProfileName = Literal["none", "nsys"]


@Parameter(name="*")
@dataclass(frozen=True)
class RunSettings(PreflightSettings, PatternSettings):
    """Settings of one run."""

    minbytes: Annotated[
        str | None,
        Parameter(
            name=["--minbytes", "-b"],
            group=SWEEP,
            help="First size; K, M, G are powers of 1024. Alone, without -e, the only size. [default: 8]",
        ),
    ] = None
    maxbytes: Annotated[
        str | None,
        Parameter(
            name=["--maxbytes", "-e"],
            group=SWEEP,
            help="Last size; also the size of each rank's send and receive buffers. Alone, the only size."
            " [default: 64M]",
        ),
    ] = None
    stepfactor: Annotated[
        float | None,
        Parameter(
            name=["--stepfactor", "-f"],
            group=SWEEP,
            help="Factor between sizes; 1 = step by -i. [default: 2]",
        ),
    ] = None
    stepbytes: Annotated[
        str | None,
        Parameter(
            name=["--stepbytes", "-i"],
            group=SWEEP,
            help="Bytes between sizes, instead of a factor. [default with -f 1: 1M]",
        ),
    ] = None
    datatype: Annotated[
        str,
        Parameter(
            name=["--datatype", "-d"], group=SWEEP, help="Element type, several separated by commas, or all."
        ),
    ] = "float"
    op: Annotated[
        str,
        Parameter(
            name=["--op", "-o"],
            group=SWEEP,
            help="Reduction: sum, prod, min, max, avg, mulsum, several separated by commas, or all.",
        ),
    ] = "sum"
    root: Annotated[
        str,
        Parameter(
            name=["--root", "-r"],
            allow_leading_hyphen=True,
            group=SWEEP,
            help="Root of rooted collectives, several, or all (-1).",
        ),
    ] = "0"
    cycles: Annotated[int, Parameter(group=SWEEP, help="Repeat the whole sweep this often.")] = 1
    iters: Annotated[
        int | None,
        Parameter(
            name=["--iters", "-n"],
            group=METHOD,
            help="Timed calls a case (groups of them with -m); 0 only checks. Without it, sampling goes on"
            " until the interval is narrow enough.",
        ),
    ] = None
    warmup_iters: Annotated[
        int | None,
        Parameter(
            name=["--warmup-iters", "--warmup_iters", "-w"],
            group=METHOD,
            help="Untimed calls first. [default: 3 and 20 ms]",
        ),
    ] = None
    warmup_time: Annotated[
        str | None,
        Parameter(
            group=METHOD,
            help="Untimed calls go on for at least this long, also with -w. [default: 20ms; with -w, 0]",
        ),
    ] = None
    agg_iters: Annotated[
        int,
        Parameter(
            name=["--agg-iters", "--agg_iters", "-m"],
            group=METHOD,
            help="Calls that are issued as one NCCL group; their time is divided by this.",
        ),
    ] = 1
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
    budget: Annotated[
        str | None,
        Parameter(group=METHOD, help="Time for all cases of a launch, shared out over those that are left."),
    ] = None
    mode: Annotated[
        ModeName,
        Parameter(
            group=METHOD,
            help="throughput: back-to-back calls. latency: single calls, each behind a barrier.",
        ),
    ] = "throughput"
    time: Annotated[
        TimeName | None,
        Parameter(
            group=METHOD,
            help="How a sample comes from the ranks' times: max; avg, min, rank0; loop (host time of a loop,"
            " as nccl-tests); in latency mode last (from the last arrival) and span (first entry to last exit"
            " on a synchronised clock). [default: max]",
            show_choices=False,
        ),
    ] = None
    average: Annotated[
        int | None,
        Parameter(
            name=["--average", "-a"],
            group=METHOD,
            help="As --time: 0 rank0, 1 avg, 2 min, 3 max (nccl-tests). With --time loop: of one loop of all"
            " -n calls.",
        ),
    ] = None
    arrival: Annotated[
        ArrivalName,
        Parameter(
            group=METHOD,
            help="Delay ranks on purpose, in latency mode: late-one, uniform or ramp.",
            show_choices=False,
        ),
    ] = "none"
    blocking: Annotated[
        int,
        Parameter(
            name=["--blocking", "-z"],
            group=METHOD,
            help="1, 3: wait and barrier after each call (as --mode latency); 2: wait, no barrier.",
        ),
    ] = 0
    cudagraph: Annotated[
        int,
        Parameter(
            name=["--cudagraph", "-G"],
            group=METHOD,
            help="Capture the calls of a sample in a CUDA graph; with -n N, N calls launched this often.",
        ),
    ] = 0
    launches: Annotated[
        int,
        Parameter(
            group=METHOD,
            help="Start the ranks this often; intervals are then over launches, which differ more than"
            " samples do.",
        ),
    ] = 1
    timeout: Annotated[
        float, Parameter(name=["--timeout", "-T"], group=METHOD, help="Seconds a case may take; 0 = any.")
    ] = 0.0
    seed: Annotated[
        int | None, Parameter(group=METHOD, help="Seed of the check data. [default: random, recorded]")
    ] = None
    hot: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=BUFFERS,
            help="Use one place of the buffers (data in caches) instead of rotating.",
        ),
    ] = False
    unalign: Annotated[
        int,
        Parameter(
            name=["--unalign", "-u"], group=BUFFERS, help="Misalign both buffers by this many elements."
        ),
    ] = 0
    buffers: Annotated[
        MemoryName,
        Parameter(
            group=BUFFERS,
            help="Memory of GPU ranks: device, nccl (ncclMemAlloc, as nccl-tests), managed or host.",
            show_choices=False,
        ),
    ] = "device"
    local_register: Annotated[
        int,
        Parameter(
            name=["--local-register", "--local_register", "-R"],
            group=BUFFERS,
            help="Register the buffers with NCCL: 0 no, 1 locally, 2 as symmetric windows.",
        ),
    ] = 0
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
    parallel_init: Annotated[
        int,
        Parameter(
            name=["--parallel-init", "--parallel_init", "-p"],
            group=PLACE,
            help="Accepted for nccl-tests' users: every GPU has a process of its own, so always in parallel.",
        ),
    ] = 0
    stats: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            show_default=False,
            group=OUTPUT,
            help="The columns, in place of p99, imbalance and n (latency on CPUs: skew too): avg, min, max,"
            " p50, p99, p99.9 (any pNN), cv, imbalance, n, issue, skew, first, in, out, algorithm, channels,"
            " overlap.",
        ),
    ] = ()
    expect: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            group=OUTPUT,
            help="Judge the run: a reference (`busbw expect --list`), a file of them, or a preset. The exit"
            " code is 1 below it, 3 undecided.",
        ),
    ] = ()
    evidence: Annotated[
        tuple[str, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            show_default=False,
            group=OUTPUT,
            help="Untimed passes for `busbw diagnose`: counters (what every link carries during a burst of"
            " the largest size), algorithm (what NCCL says of each case).",
        ),
    ] = ()
    profile: Annotated[
        ProfileName,
        Parameter(
            group=OUTPUT,
            help="nsys: every rank under Nsight Systems, its report in the run folder. No time of such a run"
            " is to be trusted.",
        ),
    ] = "none"
    profile_args: Annotated[
        str,
        Parameter(
            show_default=False,
            group=OUTPUT,
            help="More words for `nsys profile`, with an =: --profile-args='--enable efa_metrics --delay 2'.",
        ),
    ] = ""
    raw_ranks: Annotated[
        int,
        Parameter(
            group=OUTPUT,
            help="Keep every sample of every rank up to so many ranks; beyond, of rank 0 and the slowest 4.",
        ),
    ] = 16
    report_cputime: Annotated[
        int,
        Parameter(
            name=["--report-cputime", "--report_cputime", "-C"],
            group=OUTPUT,
            help="1: a column with the host's time of issuing a call (--stats issue).",
        ),
    ] = 0
    report_timestamps: Annotated[
        int,
        Parameter(
            name=["--report-timestamps", "--report_timestamps", "-S"],
            group=OUTPUT,
            help="1: when each row was finished.",
        ),
    ] = 0
    nccl_topology: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=OUTPUT,
            help="Keep NCCL's topology and graphs as XML, in evidence/ of the run folder.",
        ),
    ] = False
    memory: Annotated[
        int,
        Parameter(name=["--memory", "-M"], group=OUTPUT, help="1: memory used by buffers and communicator."),
    ] = 0
    format: Annotated[FormatName, Parameter(group=OUTPUT, help="What is written to standard output.")] = (
        "table"
    )
    deliver: Annotated[
        str,
        Parameter(show=False, help="Written by busbw into jobs: the front process's run folder."),
    ] = ""
    dry_run: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=OUTPUT,
            help="Print the plan and what would be started, then stop.",
        ),
    ] = False
