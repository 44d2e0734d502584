"""What a line of nccl-tests 2.19.6 says: flags with letters, long names, defaults and number formats, and the
variables NCCL_TESTS_* beside them (src/common.cu, src/alltoallv.cu).
"""

from __future__ import annotations

import getopt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, get_type_hints

from busbw.errors import UsageError
from busbw.units import parse_size

VERSION: Final = "2.19.6"
PROGRAMS: Final = (
    *("all_gather_perf", "all_reduce_perf", "alltoall_perf", "alltoallv_perf", "broadcast_perf"),
    *("gather_perf", "hypercube_perf", "reduce_perf", "reduce_scatter_perf", "scatter_perf"),
    "sendrecv_perf",
)
# As a build for CUDA 11.8 or newer has them; the order is that of `-d all` and `-o all`.
TYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"),
)
OPS: Final = ("sum", "prod", "max", "min", "avg", "mulsum")
ALL: Final = "all"
# Exit statuses: testTimeout and testNumResults of src/common.h, the latter for wrong data and for too little
# bandwidth.
TIMED_OUT: Final = 4
FAILED: Final = 7

_MIB: Final = 1 << 20
_BUILT_WITH_MPI: Final = "_mpi"


def _size(text: str) -> int:
    """Bytes; K, M and G are powers of 1024, and what follows them is not looked at: ``8KB`` is 8K."""
    return parse_size(text.strip().rstrip("iIbB"))


def _integer(text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise UsageError(f"not a whole number: {text[:20]!r}", hint="give a whole number") from error
    if abs(number) >= 2**31:
        raise UsageError(f"{text[:20]} is too large", hint="give less than 2^31")
    return number


def _word_of(known: Sequence[str], text: str) -> str:
    if text not in (*known, ALL):
        raise UsageError(f"unknown word {text[:20]!r}", hint=f"use one of: {', '.join((*known, ALL))}")
    return text


@dataclass(frozen=True)
class Flag:
    """How an option is given: its letter, what the usage says of it, and how its value is read."""

    letter: str
    help: str
    read: Any = _integer


@dataclass(frozen=True)
class Options:
    """A line of nccl-tests, every option by its long name; sizes in bytes."""

    nthreads: Annotated[int, Flag("t", "threads; ranks = processes x threads x GPUs a thread")] = 1
    ngpus: Annotated[int, Flag("g", "GPUs a thread")] = 1
    minbytes: Annotated[int, Flag("b", "first size (K, M, G: powers of 1024)", _size)] = 32 * _MIB
    maxbytes: Annotated[int, Flag("e", "last size", _size)] = 32 * _MIB
    stepbytes: Annotated[int, Flag("i", "bytes between sizes, with -f 1", _size)] = _MIB
    stepfactor: Annotated[int, Flag("f", "factor between sizes")] = 1
    iters: Annotated[int, Flag("n", "timed iterations")] = 20
    agg_iters: Annotated[int, Flag("m", "operations that are one group")] = 1
    warmup_iters: Annotated[int, Flag("w", "untimed iterations")] = 1
    run_cycles: Annotated[int, Flag("N", "how often the whole sweep is run; 0: until Ctrl-C")] = 1
    parallel_init: Annotated[int, Flag("p", "0/1; each GPU has a process here: always parallel")] = 0
    check: Annotated[int, Flag("c", "checks of each case")] = 1
    op: Annotated[str, Flag("o", "/".join((*OPS, ALL)), partial(_word_of, OPS))] = "sum"
    datatype: Annotated[str, Flag("d", "a type, or all", partial(_word_of, TYPES))] = "float"
    root: Annotated[int, Flag("r", "root rank; -1 is every rank")] = 0
    blocking: Annotated[int, Flag("z", "0/1/2/3")] = 0
    stream_null: Annotated[int, Flag("y", "0/1; accepted")] = 0
    timeout: Annotated[int, Flag("T", "seconds")] = 0
    cudagraph: Annotated[int, Flag("G", "launches of a CUDA graph")] = 0
    report_cputime: Annotated[int, Flag("C", "refused: busbw run -C 1 has it")] = 0
    report_timestamps: Annotated[int, Flag("S", "0/1")] = 0
    output_file: Annotated[str, Flag("J", "file to write, .json", str)] = ""
    average: Annotated[int, Flag("a", "0/1/2/3: rank 0, mean, minimum, maximum")] = 1
    local_register: Annotated[int, Flag("R", "0/1/2")] = 0
    cta_policy: Annotated[int, Flag("x", "refused: set NCCL_CTA_POLICY")] = -1
    device_implementation: Annotated[int, Flag("D", "refused: busbw has no device kernels")] = 0
    device_cta_count: Annotated[int, Flag("V", "refused, as -D")] = 0
    memory: Annotated[int, Flag("M", "0/1")] = 0
    unalign: Annotated[int, Flag("u", "index of the first element used")] = 0
    per_iter_timing: Annotated[int, Flag("I", "0/1; columns with the spread of single calls")] = 0
    per_iter_skip: Annotated[int, Flag("K", "iterations that -I leaves out of its summary")] = 0

    @property
    def ranks_per_process(self) -> int:
        """GPUs that one process of nccl-tests drives."""
        return self.nthreads * self.ngpus

    @property
    def step(self) -> tuple[int, str]:
        """How to come from one size to the next, and by what: bytes, where no factor is above 1."""
        return (self.stepfactor, "factor") if self.stepfactor > 1 else (self.stepbytes, "bytes")


FLAGS: Final[Mapping[str, Flag]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Options, include_extras=True).items()
}
_SHORTS: Final = "h" + "".join(f"{flag.letter}:" for flag in FLAGS.values())
_LONGS: Final = ["help", *(f"{name}=" for name in FLAGS)]
_NAMES: Final = {
    spelling: name for name, flag in FLAGS.items() for spelling in (f"-{flag.letter}", f"--{name}")
}


@dataclass(frozen=True)
class Line:
    """A line as read. ``wants_help``: its options do not matter."""

    program: str
    options: Options
    wants_help: bool = False


def find_program(word: str) -> str:
    """The test that a word names, with or without folders before it, or the ending that distributions give
    the build with MPI; empty where it names none.
    """
    name = word.rpartition("/")[2].removesuffix(_BUILT_WITH_MPI)
    return name if name in PROGRAMS else ""


def read(program: str, words: Sequence[str]) -> Line:
    """Read a line as ``program`` would, which looks at no operands. Raises UsageError for what cannot be
    meant.
    """
    try:
        given, _ = getopt.gnu_getopt(list(words), _SHORTS, _LONGS)
    except getopt.GetoptError as error:
        raise UsageError(f"{program}: {error.msg}", hint=f"see busbw nccl-tests {program} -h") from error
    line = Line(program, Options())
    values: dict[str, Any] = {}
    for spelling, text in given:
        if spelling in ("-h", "--help"):
            return replace(line, wants_help=True)
        name = _NAMES[spelling]
        try:
            values[name] = FLAGS[name].read(text)
        except UsageError as error:
            raise UsageError(f"-{FLAGS[name].letter}: {error.message}", hint=error.hint) from error
    options = Options(**values)
    _refuse_contradictions(options)
    return replace(line, options=options)


def _refuse_contradictions(o: Options) -> None:
    if o.ranks_per_process < 1:
        raise UsageError(f"-t {o.nthreads} -g {o.ngpus} starts no rank", hint="give 1 or more")
    if o.per_iter_timing not in (0, 1):
        raise UsageError(f"-I {o.per_iter_timing} is unknown", hint="give -I 1, or leave it out")
    if o.cudagraph and (o.per_iter_timing or o.blocking):
        raise UsageError(
            "-G excludes -I and -z: a CUDA graph has no single calls", hint="leave -G out, or -I and -z"
        )
    if o.per_iter_skip and (not o.per_iter_timing or not 0 <= o.per_iter_skip < o.iters):
        raise UsageError(
            f"-K {o.per_iter_skip} leaves no iteration of -I", hint="give -I 1, and -K from 0 to below -n"
        )


def usage(program: str) -> str:
    """What ``-h`` prints."""
    lines = [f"\t[-{flag.letter},--{name} <{flag.help}>]" for name, flag in FLAGS.items()]
    return "\n".join((f"USAGE: {program} ", *lines, "\t[-h,--help]"))


# ---- variables ----------------------------------------------------------------------------------------

_DEVICE: Final = "NCCL_TESTS_DEVICE"
_WORDS: Final = {"&": "AND", "|": "OR", "%": "MOD", "/": "DIV"}


@dataclass(frozen=True)
class Variables:
    """What the variables ask for. ``min_bandwidth`` in GB/s, the average must reach 0.9 of it; ``split`` an
    expression as ``busbw run --split`` takes it. The last four are alltoallv_perf's.
    """

    min_bandwidth: float | None = None
    split: str = ""
    matrix: str = ""
    matrix_scale: float = 1.0
    spread: float = 1.0
    print_summary: bool = False


def read_variables(environ: Mapping[str, str]) -> Variables:
    """Read them. Raises UsageError if a value is not a number, for which nccl-tests silently takes another
    one, and for NCCL_TESTS_DEVICE, which busbw does not support.
    """
    if environ.get(_DEVICE, "-1").strip() != "-1":
        raise UsageError(f"{_DEVICE} is not supported", hint="choose GPUs with CUDA_VISIBLE_DEVICES")
    return Variables(
        min_bandwidth=_number(environ, "NCCL_TESTS_MIN_BW"),
        split=_split(environ),
        matrix=environ.get("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", ""),
        matrix_scale=_number(environ, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1.0) or 0.0,
        spread=_number(environ, "NCCL_TESTS_ALLTOALLV_SPREAD", 1.0) or 0.0,
        print_summary=bool(_number(environ, "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY")),
    )


def _number(environ: Mapping[str, str], name: str, default: float | None = None) -> float | None:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{name}={text!r} is not a number", hint=f"unset {name}, or give a number")
    return value


def _split(environ: Mapping[str, str]) -> str:
    """The mask wins over the expression; it is hexadecimal with or without 0x."""
    mask = environ.get("NCCL_TESTS_SPLIT_MASK")
    if mask is not None:
        return f"AND 0x{mask.strip().lower().removeprefix('0x')}"
    text = environ.get("NCCL_TESTS_SPLIT", "")
    for symbol, word in _WORDS.items():
        text = text.replace(symbol, f"{word} ")
    return text
