"""A line of nccl-tests as settings of a run of busbw, the largest size that fits, and what must be said about
the difference.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

from busbw.errors import UsageError
from busbw.foreign.nccl_tests.flags import ALL, OPS, TYPES, Line, Options, Variables
from busbw.machine.gpus import read_gpus
from busbw.machine.host import available_memory_bytes, read_memory
from busbw.model.collective import collective, unsupported
from busbw.model.datatype import data_type
from busbw.model.plan import RAW_RANKS
from busbw.model.sample import SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import DataTypes, ReduceOps, Roots, Seconds, Size
from busbw.rank.backends.host_memory import largest_buffer_bytes

# nccl-tests warms up all sizes, by doubling, before its first row. -w calls of one small size alone would
# leave connections, caches and the GPU's clock cold: 17 instead of 10 us in the first row on 4 x H200.
WARMUP_TIME: Final = Seconds("20ms")
# The wait for -I's pass is bounded by -n, not by time.
_NO_LIMIT: Final = Seconds("24h")
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
# Flags that busbw does not follow, and what to do instead.
_REFUSED: Final = {
    "device_implementation": (
        "-D: busbw has no device kernels",
        "leave it out to measure NCCL's collectives",
    ),
    "device_cta_count": ("-V: busbw has no device kernels", "leave it out to measure NCCL's collectives"),
    "report_cputime": (
        "-C is not supported: it replaces the time by that of the host",
        "use `busbw run -C 1`, which adds a column",
    ),
    "cta_policy": ("-x is not supported", "set NCCL_CTA_POLICY to its value instead"),
}
_GIB: Final = 1 << 30


def operation(program: str) -> str:
    """The collective that a test measures."""
    return program.removesuffix("_perf")


def has_matrix(line: Line, variables: Variables) -> bool:
    """Whether the bytes come from a traffic matrix, which has its own sizes."""
    return operation(line.program) == "alltoallv" and bool(variables.matrix)


def backend_wanted() -> tuple[str, str]:
    """What ``busbw run`` takes from these variables too: there is no flag for them here, nor for the world,
    which ``world_choice`` reads.
    """
    return os.environ.get("BUSBW_BACKEND", "auto"), os.environ.get("BUSBW_NCCL", "")


def run_settings(line: Line, variables: Variables, backend: str, nccl_path: str = "") -> RunSettings:
    """The settings that measure what the line asks for. Raises UsageError for what busbw does not have."""
    options, plain = line.options, Options()
    for refused, (what, instead) in _REFUSED.items():
        if getattr(options, refused) != getattr(plain, refused):
            raise UsageError(what, hint=instead)
    if options.run_cycles != 1 and options.per_iter_timing:
        raise UsageError(
            "-I keeps every iteration, and -N keeps what its cycles come to", hint="leave one of them out"
        )
    return RunSettings(
        **_sizes_and_pattern(line, variables),
        datatype=DataTypes(_types(line, backend)),
        op=ReduceOps(",".join(OPS) if options.op == ALL else options.op),
        root=Roots(str(options.root)),
        cycles=options.run_cycles,
        keep_going=True,
        iters=options.iters,
        warmup_iters=options.warmup_iters,
        warmup_time=WARMUP_TIME,
        agg_iters=options.agg_iters,
        check=options.check,
        case_time=_NO_LIMIT,
        time=None if options.blocking else "loop",
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
        stats=("p99",) if options.per_iter_timing else ("n",),
        report_timestamps=int(options.report_timestamps != 0),
        memory=int(options.memory != 0),
        raw_ranks=raw_ranks(options),
        split=variables.split,
    )


def raw_ranks(options: Options) -> int:
    """Up to how many ranks every rank's iterations are kept: they are columns of -I's file only."""
    if not (options.per_iter_timing and options.output_file):
        return RAW_RANKS
    return max(RAW_RANKS, _MOST_RAW_BYTES // (SAMPLE_DTYPE.itemsize * max(1, options.iters)))


def _sizes_and_pattern(line: Line, variables: Variables) -> dict[str, Any]:
    """Without a factor above 1 sizes grow by -i."""
    if has_matrix(line, variables):
        return {"matrix": variables.matrix, "matrix_scale": variables.matrix_scale}
    options = line.options
    found = {"minbytes": Size(options.minbytes), "maxbytes": Size(options.maxbytes)}
    by_factor = {"stepfactor": float(max(1, options.stepfactor))}
    by_bytes = {"stepbytes": Size(options.stepbytes)} if options.stepfactor <= 1 else {}
    spread = {"spread": variables.spread} if operation(line.program) == "alltoallv" else {}
    return {**found, **by_factor, **by_bytes, **spread}


def _types(line: Line, backend: str) -> str:
    """``all`` leaves out what the backend does not have, as nccl-tests does on older GPUs."""
    if line.options.datatype != ALL:
        return line.options.datatype
    row = collective(operation(line.program))
    return ",".join(word for word in TYPES if not unsupported(backend, row, data_type(word)))


def remarks(line: Line, variables: Variables, backend: str) -> list[str]:
    """What a reader of nccl-tests must know about this run, a line each, for stderr."""
    o, said = line.options, []
    samples = o.iters - o.per_iter_skip
    if backend == "mpi":
        said.append("no GPU here: CPU ranks over MPI, in host memory")
    if o.per_iter_timing and not o.blocking:
        columns = "the i_* columns come from a second pass of single iterations"
        said.append(f"-I: {columns}, `time` from the loop before")
    if o.per_iter_timing and samples < P99_SAMPLES:
        said.append(f"-I: with {samples} samples i_p99 is the largest of them; give -n {P99_SAMPLES} or more")
    if o.blocking == 1:
        said.append("-z 1: the time does not include the barrier (in nccl-tests it does)")
    if o.blocking and o.average == 2:
        said.append("-z with -a 2: the time is the mean of each call's minimum over ranks")
    if o.output_file and not o.output_file.lower().endswith(".json"):
        said.append(f"-J {o.output_file} writes nothing: the name must end in .json")
    if o.stream_null:
        said.append("-y: busbw measures on a stream of its own")
    if variables.split:
        said.append(
            f"split {variables.split}: the table has one row for all groups, the record has each group"
        )
    return said


# ---- sizes that fit -----------------------------------------------------------------------------------


def largest_size(backend: str, check: int, ranks_here: int | None) -> int | None:
    """Bytes that -e may have at most on this host with ``ranks_here`` ranks; None if it is not known."""
    if backend == "nccl":
        gpus = read_gpus().gpus
        return largest_on_gpu(min(gpu.memory_bytes for gpu in gpus), check) if gpus else None
    if backend != "mpi" or not ranks_here:
        return None
    available = available_memory_bytes(read_memory()).size_bytes
    return None if available is None else largest_buffer_bytes(available, ranks_here)


def largest_on_gpu(memory_bytes: int, check: int) -> int:
    """nccl-tests 2.19.6's rule for the smallest GPU (src/common.cu, run): less 1 GiB for each 16 GiB that are
    installed, 4 at most, and 1 more, what is left is for two buffers, with -c for three.

    The check here needs no third one, but the same line measures the same sizes.
    """
    reserve = min(-(-memory_bytes // (16 * _GIB)), 4) * _GIB
    return max(0, memory_bytes - reserve - _GIB) // (3 if check else 2)


def lowered(line: Line, largest: int | None) -> Line:
    """The line with sizes up to ``largest`` bytes: nccl-tests lowers -e before it allocates. Where nothing
    fits it stays, and the run says why.
    """
    options = line.options
    if not largest or options.maxbytes <= largest:
        return line
    smallest = min(options.minbytes, largest)
    return replace(line, options=replace(options, minbytes=smallest, maxbytes=largest))
