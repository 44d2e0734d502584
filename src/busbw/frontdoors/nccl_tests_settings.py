"""A line of nccl-tests as settings of a run of busbw, and what must be said about the difference."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from busbw.errors import UsageError
from busbw.frontdoors.nccl_tests_environment import Variables
from busbw.frontdoors.nccl_tests_flags import ALL, OPS, TYPES, Line, Options
from busbw.model.collective import collective
from busbw.model.datatype import data_type
from busbw.model.plan import RAW_RANKS
from busbw.model.sample import SAMPLE_DTYPE
from busbw.model.support import unsupported
from busbw.planning.make import MOST_CALLS_PER_GRAPH
from busbw.settings.run import RunSettings

# nccl-tests warms up all sizes, by doubling, before its first row. -w calls of one small size alone would
# leave connections, caches and the GPU's clock cold: 17 instead of 10 us in the first row on 4 x H200.
WARMUP_TIME: Final = "20ms"
# The wait for -I's pass is bounded by -n, not by time.
_NO_LIMIT: Final = "24h"
# Native settings that errors name, and what a user of nccl-tests gives instead.
THEIR_FLAGS: Final = {
    "--ranks": "-g",
    "--nccl": "BUSBW_NCCL",
    "--cycles": "-N",
    "--split": "NCCL_TESTS_SPLIT",
    "--matrix": "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
    "--matrix-scale": "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
    "--spread": "NCCL_TESTS_ALLTOALLV_SPREAD",
    "--time": "-a",
}
# What the samples of all ranks of a case may take on rank 0 where -I -J asks for them: 100 iterations of
# 16,000 ranks.
_MOST_RAW_BYTES: Final = 64 << 20
# Percentiles by nearest rank: below this p99 is the largest sample.
P99_SAMPLES: Final = 100


def operation(program: str) -> str:
    """The collective that a test measures."""
    return program.removesuffix("_perf")


def backend_wanted() -> tuple[str, str]:
    """What ``busbw run`` takes from these variables too: there is no flag for them here, nor for the world,
    which ``world_choice`` reads.
    """
    return os.environ.get("BUSBW_BACKEND", "auto"), os.environ.get("BUSBW_NCCL", "")


def run_settings(line: Line, variables: Variables, backend: str, nccl_path: str = "") -> RunSettings:
    """The settings that measure what the line asks for. Raises UsageError for what busbw does not have."""
    options = line.options
    _refuse(options)
    isolated = options.blocking != 0
    name = operation(line.program)
    return RunSettings(
        **_sizes(line, variables),  # type: ignore[arg-type]
        datatype=_types(options, name, backend),
        op=",".join(OPS) if options.op == ALL else options.op,
        root=str(options.root),
        cycles=options.run_cycles,
        iters=options.iters,
        warmup_iters=options.warmup_iters,
        warmup_time=WARMUP_TIME,
        agg_iters=options.agg_iters,
        check=options.check,
        case_time=_NO_LIMIT,
        time=None if isolated else "loop",
        average=options.average,
        blocking=options.blocking,
        cudagraph=options.cudagraph,
        timeout=float(options.timeout),
        unalign=options.unalign,
        # ncclMemAlloc, as nccl-tests since NCCL 2.19; CPU ranks have host memory only.
        buffers="nccl" if backend == "nccl" else "device",
        local_register=options.local_register,
        parallel_init=options.parallel_init,
        nccl=nccl_path,
        stats=("p99",) if options.per_iter_timing or options.report_cputime else ("n",),
        report_timestamps=_flag(options.report_timestamps),
        memory=_flag(options.memory),
        raw_ranks=raw_ranks(options),
        split=variables.split,
        **_pattern(name, variables),  # type: ignore[arg-type]
    )


def raw_ranks(options: Options) -> int:
    """Up to how many ranks every rank's iterations are kept: they are columns of -I's file only."""
    if not (options.per_iter_timing and options.output_file):
        return RAW_RANKS
    return max(RAW_RANKS, _MOST_RAW_BYTES // (SAMPLE_DTYPE.itemsize * max(1, options.iters)))


def _flag(value: int) -> int:
    return 1 if value else 0


def _refuse(options: Options) -> None:
    if options.device_implementation or options.device_cta_count is not None:
        flag = "-D" if options.device_implementation else "-V"
        raise UsageError(
            f"{flag} runs device kernels of nccl-tests (NCCL's device API), which busbw does not have",
            hint="leave it out to measure NCCL's own collectives",
        )
    if options.run_cycles == 0:
        raise UsageError(
            "-N 0 never ends, and a record needs an end", hint="give the number of cycles: -N 1000"
        )
    if options.cudagraph and options.iters * options.agg_iters > MOST_CALLS_PER_GRAPH:
        raise UsageError(
            f"-n {options.iters} -m {options.agg_iters} is one CUDA graph of"
            f" {options.iters * options.agg_iters} calls, and graphs hold {MOST_CALLS_PER_GRAPH} here",
            hint="lower -n, and raise -G",
        )


def _sizes(line: Line, variables: Variables) -> dict[str, str | float | None]:
    """A matrix has its own bytes; without a factor above 1 sizes grow by -i."""
    options = line.options
    if operation(line.program) == "alltoallv" and variables.matrix:
        return {}
    if options.stepfactor > 1:
        if options.minbytes == 0:
            raise UsageError("-b 0 with a factor never grows", hint="start at -b 1, or step with -i")
        step: dict[str, str | float | None] = {"stepfactor": float(options.stepfactor)}
    else:
        step = {"stepfactor": 1.0, "stepbytes": str(options.stepbytes)}
    return {"minbytes": str(options.minbytes), "maxbytes": str(options.maxbytes), **step}


def _types(options: Options, name: str, backend: str) -> str:
    """``all`` leaves out what the backend does not have, as nccl-tests does on older GPUs."""
    if options.datatype != ALL:
        return options.datatype
    row = collective(name)
    return ",".join(word for word in TYPES if not unsupported(backend, row, data_type(word)))


def _pattern(name: str, variables: Variables) -> Mapping[str, str | float]:
    if name != "alltoallv":
        return {}
    if variables.matrix:
        return {"matrix": variables.matrix, "matrix_scale": variables.matrix_scale}
    return {"spread": variables.spread}


def remarks(line: Line, variables: Variables, backend: str) -> list[str]:
    """What a reader of nccl-tests must know about this run, a line each, for stderr."""
    options = line.options
    samples = options.iters - options.per_iter_skip
    said: list[tuple[bool, str]] = [
        (backend == "mpi", "no GPU here: CPU ranks over MPI, in host memory"),
        (
            bool(options.per_iter_timing) and not options.blocking,
            "-I: i_* are of a second pass of single iterations, after the loop that `time` is of",
        ),
        (
            bool(options.per_iter_timing) and samples < P99_SAMPLES,
            f"-I: i_p99 of {samples} samples is the largest of them, from {P99_SAMPLES} on it can differ",
        ),
        (bool(options.report_cputime) and backend == "mpi", "-C: MPI calls block, so cputime is the time"),
        (
            bool(options.report_cputime) and backend == "nccl",
            "-C: cputime is of a second pass of single iterations",
        ),
        (options.blocking == 1, "-z 1: the barrier is outside the time (nccl-tests: inside)"),
        (
            options.blocking != 0 and options.average == 2,
            "-z with -a 2: the mean of each call's minimum over ranks",
        ),
        (
            bool(options.output_file) and not options.output_file.lower().endswith(".json"),
            f"-J {options.output_file}: only a name that ends in .json is written",
        ),
        (bool(options.stream_null), "-y: measured on a stream of its own, the only one of the process"),
        (
            bool(variables.split),
            f"split {variables.split}, by rank: one row, groups are in the record",
        ),
        (
            variables.device is not None and backend != "nccl",
            "NCCL_TESTS_DEVICE: not looked at, CPU ranks have no device",
        ),
    ]
    return [*line.cut, *(text for applies, text in said if applies)]
