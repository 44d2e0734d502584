"""Settings to plan, once the number of ranks is known: of a run, of a hunt, of what is repeated."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from typing import Any, Final

from busbw.errors import UsageError
from busbw.model.arrival import NONE, TRACE, Arrival, delay_ns
from busbw.model.collective import collective
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, METRICS, QUICKEST, RESENT, Hunt, Rules
from busbw.model.plan import CallOptions, Limits, Plan, Preflight, Stream, Timing
from busbw.model.result import FIELD_WORDS
from busbw.model.soak import Soak
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.ranks import MOST_RANKS, Asked
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import MOST_CALLS, Between
from busbw.plan.json_file import named, read_text
from busbw.plan.neighbours import make_neighbours
from busbw.plan.streams import check_streams, make_streams
from busbw.plan.swept import check_sweep, in_one_placement, operation_names, swept

MOST_CALLS_PER_GRAPH: Final = 4096  # a bound of ours: larger graphs take seconds to capture
LATENCY_SAMPLES: Final = 360  # p99 takes 299
# A percentile of one call would take 320 calls more a case, one by one: --stats asks for it.
DEFAULT_COLUMNS: Final = ("imbalance", "n")
# How far apart ranks entered is part of what an isolated call's time means; GPUs' clocks do not show it.
LATENCY_COLUMNS: Final = ("p99", "skew", "imbalance", "n")
# With ranks that are late on purpose: the operation itself, beside the wait for the last one.
ARRIVAL_COLUMNS: Final = ("last", "skew", "imbalance", "n")
# A sample of a stream holds several calls: it has no percentiles of one.
STREAM_COLUMNS: Final = ("overlap", "imbalance", "n")
EVIDENCE: Final = ("counters", "algorithm")
# Settings that are fields of a plan as they are.
_AS_SET: Final = (
    *("data", "save_wrong", "nccl_topology", "pin", "unique_buffers", "tuner_table", "raw_ranks"),
)
# Numbered as nccl-tests' -a.
_AVERAGES: Final = ("rank0", "avg", "min", "max")
# The last four are one loop of all -n calls, and over ranks as -a says.
LOOPS: Final = ("loop", *(f"loop-{name}" for name in _AVERAGES))
_TIMES: Final = {
    "throughput": ("max", "avg", "min", "rank0", *LOOPS),
    "latency": ("max", "avg", "min", "rank0", "last", "span"),
}


def make_plan(operations: tuple[str, ...], settings: RunSettings, backend: str, ranks: int) -> Plan:
    """The plan of a run. Raises UsageError for anything that cannot be meant."""
    Between(1, MOST_RANKS).check("--ranks", ranks)
    if settings.hunt is not None:
        return make_hunt_plan(settings.hunt, settings, backend)
    seed = secrets.randbits(48) if settings.seed is None else settings.seed
    settings = replace(settings, seed=seed)  # of what is drawn for the plan, too
    common = _common(settings, backend, ranks)
    streams: tuple[Stream, ...] = ()
    if settings.streams:
        streams, once = make_streams(operations, settings, backend, ranks)
    else:
        _require_last_arrival(common["timing"], operation_names(operations))
        once = swept(operations, settings, backend, ranks)
    plan = Plan(
        backend=backend,
        cases=once.cases,
        buffer_bytes=once.buffer_bytes,
        # The null backend moves nothing, so there is nothing to check.
        checks=0 if backend == "null" else settings.check,
        seed=seed,
        rotate=not settings.hot,
        nccl_path=settings.nccl,
        groups=once.pattern.groups,
        counts=once.pattern.counts,
        pairs=once.pattern.pairs,
        streams=streams,
        **{name: getattr(settings, name) for name in _AS_SET},
        **common,
    )
    return with_soak(plan, settings)


def _common(settings: RunSettings, backend: str, ranks: int) -> dict[str, Any]:
    """The fields of a plan beside its cases; 0 ``ranks`` where these are not known. Raises UsageError."""
    timing, arrival = _timing(settings, backend), Arrival.of(settings.arrival)
    if arrival.pattern == TRACE:  # with the delays of its file, and named by them
        trace = read_trace(arrival.path, ranks)
        timing = replace(timing, arrival=name_of(trace), trace_ns=trace)
    return {
        "limits": _limits(settings),
        "options": _options(settings, backend),
        "timing": timing,
        "show": _show(settings, timing, backend),
        "preflight": make_preflight(settings),
        "evidence": _evidence(settings),
        "profile": _profile(settings),
        "beside": make_neighbours(settings, backend, ranks),
    }


def _profile(settings: RunSettings) -> str:
    """The profiler to run under. Raises UsageError for what would trust its times."""
    if settings.profile == "none":
        if settings.profile_args:
            raise UsageError("--profile-args needs --profile", hint="add --profile nsys")
        return ""
    for flag, given in (("--expect", bool(settings.expect)), ("--launches", settings.launches > 1)):
        if given:
            raise UsageError(
                f"{flag} needs trustworthy times, and a profiler distorts them",
                hint=f"measure without --profile, or leave {flag} out",
            )
    return settings.profile


def _evidence(settings: RunSettings) -> tuple[str, ...]:
    """The passes behind the timed one. Raises UsageError for those that cannot be."""
    words = dict.fromkeys(word for text in settings.evidence for word in text.lower().split(",") if word)
    for word in words:
        if word not in EVIDENCE:
            raise UsageError(f"unknown evidence {word!r}", hint=f"use {', '.join(EVIDENCE)}")
    if "counters" in words and settings.backend == "null":
        raise UsageError(
            "the null backend moves no data, so links have nothing to count", hint="leave it out"
        )
    if "counters" in words and settings.streams:
        raise UsageError(
            "--evidence counters cannot separate the operations of --streams",
            hint="run the operations one by one",
        )
    return tuple(words)


def check_settings(operations: tuple[str, ...], settings: RunSettings) -> None:
    """A first look at a command line, before machine and ranks are known: a mistake must neither wait for a
    queue nor hide behind the machine. Raises UsageError.
    """
    if settings.hunt is not None:
        check_hunt(settings)
        return
    timing = _timing(settings, settings.backend)
    if settings.streams:
        check_streams(operations, settings)
    else:
        _require_last_arrival(timing, operation_names(operations))
        check_sweep(operations, settings)
    _common(settings, settings.backend, settings.ranks or 0)
    check_soak(settings)


def _limits(settings: RunSettings) -> Limits:
    default = Limits()
    group = settings.agg_iters
    if (settings.iters or 0) * group > MOST_CALLS:
        raise UsageError("-n is too large", hint=f"give {MOST_CALLS // group} or less")
    outer_iters, outer_warmup_iters = _outer(settings)
    precision = None if settings.precision is None else float(settings.precision)
    return Limits(
        outer_iters=outer_iters,
        outer_warmup_iters=outer_warmup_iters,
        calls=None if settings.iters is None else settings.iters * group,
        warmup_calls=None if settings.warmup_iters is None else settings.warmup_iters * group,
        warmup_seconds=None if settings.warmup_time is None else float(settings.warmup_time),
        # In latency mode the samples are the single calls that percentiles are of.
        small_samples=LATENCY_SAMPLES if settings.mode == "latency" else default.small_samples,
        precision=default.precision if precision is None else precision,
        small_precision=default.small_precision if precision is None else precision,
        case_seconds=float(settings.case_time),
        budget_seconds=None if settings.budget is None else float(settings.budget),
    )


def _outer(settings: RunSettings) -> tuple[int, int]:
    """Two-level iterations: how often -w and -n calls are repeated, timed and before that untimed."""
    if settings.outer_iters is None and settings.outer_warmup_iters is None:
        return 0, 0
    if not settings.iters:
        raise UsageError("--outer-iters repeats -n timed calls", hint="give -n (and -w)")
    if settings.warmup_time is not None:
        raise UsageError("--outer-iters repeats -w untimed calls, not a time", hint="leave out --warmup-time")
    if settings.cudagraph:
        raise UsageError("--outer-iters cannot be combined with -G", hint="give one of them")
    return 1 if settings.outer_iters is None else settings.outer_iters, settings.outer_warmup_iters or 0


def _options(settings: RunSettings, backend: str) -> CallOptions:
    options = CallOptions(
        aggregate=settings.agg_iters,
        graph=settings.cudagraph,
        register=settings.local_register,
        unalign=settings.unalign,
        memory=settings.buffers,
        timeout_s=settings.timeout,
    )
    if backend == "mpi":
        for flag, asked, what in (
            ("-m", options.aggregate > 1, "MPI has no groups of collectives"),
            ("-G", options.graph > 0, "CUDA graphs need GPUs"),
            ("-R", options.register > 0, "only NCCL registers buffers"),
            ("--buffers", options.memory != "device", "CPU ranks use host memory"),
            ("--nccl-topology", settings.nccl_topology, "MPI has no topology to keep"),
        ):
            if asked:
                raise UsageError(f"{flag} does not apply to CPU ranks: {what}", hint=f"leave {flag} out")
    if options.graph and (settings.iters or 0) * options.aggregate > MOST_CALLS_PER_GRAPH:
        raise UsageError(
            f"-n {settings.iters} calls are too many for one CUDA graph",
            hint=f"give -n {MOST_CALLS_PER_GRAPH} or fewer, and raise -G",
        )
    if options.memory not in ("device", "nccl") and options.register:
        raise UsageError(
            f"--buffers {options.memory} cannot be registered", hint="leave out -R, or use device memory"
        )
    return options


def _timing(settings: RunSettings, backend: str) -> Timing:
    mode = "latency" if settings.blocking else settings.mode
    time: str = settings.time or "max"
    if settings.average is not None:
        average = _AVERAGES[settings.average]
        if settings.time == "loop":
            average = f"loop-{average}"
        elif settings.time not in (None, average):
            raise UsageError("--time and -a ask for different times", hint="give one of them")
        time = average
    if time not in _TIMES[mode]:
        raise UsageError(
            f"--time {time} does not exist in {mode} mode",
            hint=f"use one of: {', '.join(name for name in _TIMES[mode] if '-' not in name)}"
            + ("" if mode == "latency" else "; last and span need --mode latency"),
        )
    if settings.arrival != NONE and mode != "latency":
        raise UsageError(
            "--arrival needs single calls: back-to-back calls do not arrive separately",
            hint="add --mode latency",
        )
    if mode == "latency" and (settings.cudagraph or settings.agg_iters > 1):
        raise UsageError("latency mode measures single calls, without -G and -m", hint="leave them out")
    if time == "span" and "nccl" in (backend, settings.backend):
        raise UsageError(
            "--time span needs synchronised clocks, and GPU clocks are not", hint="use --time max or last"
        )
    if time == "span" and settings.backend == "null":
        raise UsageError("--time span needs a clock, and the null backend has none", hint="use --backend mpi")
    return Timing(mode=mode, time=time, arrival=str(settings.arrival), barrier=settings.blocking != 2)


def _require_last_arrival(timing: Timing, names: list[str]) -> None:
    """The shortest time is that from the last arrival only where nobody can leave before it."""
    free = [name for name in names if not collective(name).synchronising]
    if timing.time == "last" and free:
        raise UsageError(
            f"--time last means nothing for {free[0]}: a rank can leave it before the last one has entered",
            hint="use --time max, or span on CPU ranks",
        )


def _show(settings: RunSettings, timing: Timing, backend: str) -> tuple[str, ...]:
    """The columns beside time and bandwidth, as words: statistics, fields of a result, and -S and -M."""
    words = [word for text in settings.stats for word in text.lower().replace(",", " ").split()]
    if statistics := [word for word in words if word not in FIELD_WORDS]:
        from busbw.stats.statistic import parse_statistics  # with numpy, which a front process may not need

        parse_statistics(" ".join(statistics), FIELD_WORDS)
    usual: tuple[str, ...] = DEFAULT_COLUMNS
    if settings.streams:
        usual = STREAM_COLUMNS
    elif timing.mode == "latency":
        columns = LATENCY_COLUMNS if timing.arrival == NONE else ARRIVAL_COLUMNS
        usual = tuple(word for word in columns if word != "skew" or backend == "mpi")
    words = words or list(usual)
    words += ["issue"] if settings.report_cputime else []
    words += ["timestamp"] if settings.report_timestamps else []
    words += ["memory"] if settings.memory else []
    return tuple(dict.fromkeys(words))


# ---- hunts --------------------------------------------------------------------------------------------


# Long enough a message that the wire decides, short enough a test that a round takes a moment.
_DEFAULT_SIZE: Final = {"nccl": 64 << 20, "mpi": 4 << 20, "null": 4 << 20}
_ELEMENT_BYTES: Final = 4

# By kind of hunt. Where nothing of the ranks goes over TCP, nothing of theirs is resent.
_METRICS: Final = {
    "isolate": (*METRICS, RESENT),
    "pairs": (BANDWIDTH, LATENCY, BOTH_WAYS),
    "rails": (BANDWIDTH,),
}


def check_hunt(settings: RunSettings) -> None:
    """Raises UsageError for what no hunt can have."""
    if settings.minbytes is not None and settings.minbytes < _ELEMENT_BYTES:
        raise UsageError(f"-b {settings.minbytes.text} is less than an element", hint="give -b 4 or more")
    make_preflight(settings)


def make_hunt_plan(own: HuntSettings, settings: RunSettings, backend: str) -> Plan:
    """The plan of a hunt. Raises UsageError for what cannot be meant."""
    check_hunt(settings)
    asked_bytes = _DEFAULT_SIZE[backend] if settings.minbytes is None else settings.minbytes
    size_bytes = asked_bytes // _ELEMENT_BYTES * _ELEMENT_BYTES
    seed = secrets.randbits(48) if settings.seed is None else settings.seed
    loss, slower = float(own.loss), float(own.slower)  # from which on a part is slow
    floors = Rules().floors | {BANDWIDTH: loss, LATENCY: slower, QUICKEST: slower}
    return Plan(
        backend=backend,
        cases=(),
        buffer_bytes=size_bytes,
        limits=Limits(),
        checks=0,
        seed=seed,
        rotate=not settings.hot,
        nccl_path=settings.nccl,
        # A wait for a GPU gives up by itself, and says for whom.
        options=CallOptions(timeout_s=float(own.round_timeout)),
        pin=settings.pin,
        preflight=make_preflight(settings),
        hunt=Hunt(
            own.kind,
            size_bytes,
            Rules(metrics=_METRICS[own.kind], floors=floors, rounds=own.rounds, seed=seed),
            wait=own.wait,
            timeout_s=float(own.round_timeout),
            nic=own.each_nic,
            halves=own.halves,
        ),
    )


# ---- what is repeated ---------------------------------------------------------------------------------


# So many windows make a level known (``stats.levels``) while a short soak lasts. Where there are several
# cases, each waits for the windows of the others.
_WINDOW_S: Final = 10.0
_SHORTEST_S: Final = 0.25
_OF_SEVERAL_S: Final = 1.0
_LEAST_WINDOWS: Final = 120


def check_soak(settings: RunSettings) -> None:
    """Raises UsageError for what a soak does not do."""
    if not settings.repeats:
        return
    for flag, given in (
        ("--launches", settings.launches > 1),
        ("--profile", settings.profile != "none"),
        ("--outer-iters", settings.outer_iters is not None),
        ("-n 0", settings.iters == 0),
    ):
        if given:
            what = "a soak" if settings.soak is not None else "--cycles"
            raise UsageError(f"{flag} cannot be combined with {what}", hint=f"leave {flag} out")


def with_soak(plan: Plan, settings: RunSettings) -> Plan:
    """The plan, repeated where that is asked for. Raises UsageError where no case is left."""
    if not settings.repeats:
        return plan
    own, cases = settings.soak, plan.cases
    if own is None:
        seconds, window_s = plan.limits.budget_seconds, plan.limits.case_seconds
    else:
        seconds = None if own.time is None else float(own.time)
        cases = in_one_placement(case for case in cases if case.applicable)
        window_s = _WINDOW_S if len(cases) == 1 else _OF_SEVERAL_S
    if not any(case.applicable for case in cases):
        raise UsageError(plan.cases[0].reason, hint="choose another operation, type or number of ranks")
    if seconds is not None:
        window_s = min(window_s, max(_SHORTEST_S, seconds / _LEAST_WINDOWS / len(cases)))
    limits = replace(plan.limits, case_seconds=window_s, budget_seconds=None)
    return replace(
        plan,
        cases=cases,
        limits=limits,
        raw_ranks=0,  # of rank 0 and the slowest: enough to see which call was slow
        soak=Soak(seconds, None if own else settings.cycles or None, settings.keep_going),
    )


# ---- delays of ranks from a file: --arrival trace:FILE ------------------------------------------------


Trace = tuple[tuple[int, ...], ...]
_HINT: Final = "write a line a call, with a delay for every rank: 0 4ms 250us 0"


def read_trace(path: str, ranks: int = 0) -> Trace:
    """A line a call, a delay of every rank, in ns; without ``ranks``, of as many as the first line has.
    Raises UsageError naming the line.
    """
    flag = f"--arrival {TRACE}:{named(path)}"
    rows = []
    for number, line in enumerate(read_text(path, "--arrival", f"{TRACE}:FILE").splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        ranks = ranks or len(words)
        if words and len(words) != ranks:
            raise UsageError(f"{flag}: line {number} has {len(words)} delays for {ranks} ranks", hint=_HINT)
        if words:
            rows.append(tuple(int(delay_ns(word, f"{flag}: line {number}")) for word in words))
    if not rows:
        raise UsageError(f"{flag} is empty", hint=_HINT)
    return tuple(rows)


def name_of(trace: Trace) -> str:
    """What runs with this trace have in common, wherever its file lies."""
    return f"{TRACE}:{hashlib.sha256(repr(trace).encode()).hexdigest()[:8]}"


# ---- what the ranks check first -----------------------------------------------------------------------


# What can be expected of NCCL, and of a node: word -> its values; empty where any name or number will do.
FEATURES: Final = {
    "net": (),
    "provider": (),
    "gdr": ("0", "1"),
    "collnet": ("0", "1"),
    "nvls": ("0", "1"),
    "mnnvl": ("0", "1"),
    "gdrcopy": ("0", "1"),
    "tuner": (),
    "gpus": ("0", "1"),
    "nics": (),
}
# Of a node, whatever is measured there.
_COUNTS: Final = ("nics",)
# Networks that NCCL is known to name so: its own, and those of plugins (aws-ofi-nccl, HPC-X, UCX, Google's).
NETWORKS: Final = ("ib", "socket", "ofi", "libfabric", "aws libfabric", "ucx", "fastsocket", "gib", "spcx")


def make_preflight(settings: RunSettings) -> Preflight:
    """What is checked. Raises UsageError for an expectation that means nothing."""
    if settings.stop_after and not settings.preflight:
        raise UsageError(
            "preflight with --no-preflight does nothing", hint="leave it out, or use `busbw run`"
        )
    asked = settings.asked or Asked()
    expects = _expects(settings.expect_use)
    if settings.backend == "mpi":
        # Who chooses MPI expects nothing of NCCL and GPUs; a preset may have said it. What nodes must have
        # holds whatever is measured there, but no fabric's ports where sockets are meant.
        words = () if "net=socket" in expects else expects
        expects = tuple(word for word in words if word.partition("=")[0] in _COUNTS)
    return Preflight(
        level=(settings.stop_after or "run") if settings.preflight else "off",
        strict=settings.strict,
        ranks=asked.ranks,
        nodes=asked.nodes,
        expects=expects,
        folder=settings.deliver if asked.shared else "",
    )


def _expects(words: tuple[str, ...]) -> tuple[str, ...]:
    """One for each feature, the last of them: flags stand behind a preset's."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in FEATURES or not equals or not value:
            known = ", ".join(FEATURES)
            raise UsageError(f"--expect-use {word!r} is not FEATURE=VALUE", hint=f"use one of: {known}")
        if FEATURES[name] and value not in FEATURES[name]:
            raise UsageError(f"--expect-use {word}: {value!r} is neither 0 nor 1", hint=f"give {name}=1")
        if name in _COUNTS and not value.isdecimal():
            raise UsageError(
                f"--expect-use {word}: {value!r} is not a number", hint=f"give {name}=8, or 0 for any number"
            )
        found[name] = value.lower() if name in ("net", "provider") else value
    return tuple(f"{name}={value}" for name, value in found.items())
