"""The flags of nccl-tests 2.19.6: its letters, long names, defaults, number formats and what it says of a
wrong line (read in its src/common.cu).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from busbw.frontdoors.getopt import Flags, Mistake, Operand, tokens

VERSION: Final = "2.19.6"
PROGRAMS: Final = (
    "all_gather_perf",
    "all_reduce_perf",
    "alltoall_perf",
    "alltoallv_perf",
    "broadcast_perf",
    "gather_perf",
    "hypercube_perf",
    "reduce_perf",
    "reduce_scatter_perf",
    "scatter_perf",
    "sendrecv_perf",
)
# As a build for CUDA 11.8 or newer has them; the order is that of `-d all` and `-o all`.
TYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"),
)
OPS: Final = ("sum", "prod", "max", "min", "avg", "mulsum")
ALL: Final = "all"
# Exit statuses: of a line that cannot be meant (main returns -1); testInternalError, testTimeout and
# testNumResults of src/common.h, the last for wrong data and for too little bandwidth.
INVALID: Final = 255
INTERNAL_ERROR: Final = 1
TIMED_OUT: Final = 4
FAILED: Final = 7
# How nccl-tests begins what it says of an alltoallv matrix that needs more.
TOO_LARGE: Final = "maxBytes (-e) must be at least"

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Options:
    """A line of nccl-tests, every option by its long name; sizes in bytes."""

    nthreads: int = 1
    ngpus: int = 1
    minbytes: int = 32 * _MIB
    maxbytes: int = 32 * _MIB
    stepbytes: int = _MIB
    stepfactor: int = 1
    iters: int = 20
    agg_iters: int = 1
    warmup_iters: int = 1
    run_cycles: int = 1
    parallel_init: int = 0
    check: int = 1
    op: str = "sum"
    datatype: str = "float"
    root: int = 0
    blocking: int = 0
    stream_null: int = 0
    timeout: int = 0
    cudagraph: int = 0
    report_cputime: int = 0
    report_timestamps: int = 0
    output_file: str = ""
    average: int = 1
    local_register: int = 0
    cta_policy: int = -1
    device_implementation: int = 0
    device_cta_count: int | None = None
    memory: int = 0
    unalign: int = 0
    per_iter_timing: int = 0
    per_iter_skip: int = 0

    @property
    def ranks_per_process(self) -> int:
        """GPUs that one process of nccl-tests drives."""
        return self.nthreads * self.ngpus


@dataclass(frozen=True)
class Line:
    """A line as read: its options, or the status to leave with at once. ``out`` and ``err`` are what
    nccl-tests prints on the way; ``cut`` says of numbers what it makes of them without a word.
    """

    program: str
    options: Options
    status: int | None = None
    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


LETTERS: Final[Mapping[str, str]] = {
    "nthreads": "t",
    "ngpus": "g",
    "minbytes": "b",
    "maxbytes": "e",
    "stepbytes": "i",
    "stepfactor": "f",
    "iters": "n",
    "agg_iters": "m",
    "warmup_iters": "w",
    "run_cycles": "N",
    "parallel_init": "p",
    "check": "c",
    "op": "o",
    "datatype": "d",
    "root": "r",
    "blocking": "z",
    "stream_null": "y",
    "timeout": "T",
    "cudagraph": "G",
    "report_cputime": "C",
    "report_timestamps": "S",
    "output_file": "J",
    "average": "a",
    "local_register": "R",
    "cta_policy": "x",
    "device_implementation": "D",
    "device_cta_count": "V",
    "memory": "M",
    "unalign": "u",
    "per_iter_timing": "I",
    "per_iter_skip": "K",
    "help": "h",
}
_NAMES: Final = {letter: name for name, letter in LETTERS.items()}
_FLAGS: Final = Flags(LETTERS, frozenset("h"))
_SIZES: Final = ("minbytes", "maxbytes", "stepbytes")
_TEXTS: Final = ("op", "datatype", "output_file")

_BUILT_WITH_MPI: Final = "_mpi"


def find_program(word: str) -> str:
    """The test that a word names, with or without folders before it, or the ending that distributions give
    the build with MPI; empty where it names none.
    """
    name = word.rpartition("/")[2].removesuffix(_BUILT_WITH_MPI)
    return name if name in PROGRAMS else ""


def read(program: str, words: Sequence[str]) -> Line:
    """Read a line as ``program`` would."""
    line = Line(program, Options())
    for token in tokens(words, _FLAGS):
        if isinstance(token, Operand):
            continue  # nccl-tests does not look at them
        if isinstance(token, Mistake):
            out = (*line.out, "invalid option '?'", *_usage(program))
            return replace(line, status=0, out=out, err=(*line.err, f"{program}: {token.message}"))
        if token.letter == "h":
            return replace(line, status=0, out=(*line.out, *_usage(program)))
        line = _set(line, _NAMES[token.letter], token.value)
        if line.status is not None:
            return line
    return _consistent(line)


def _set(line: Line, name: str, text: str) -> Line:
    if name in _SIZES:
        size = parse_size(text)
        if size is None:
            shown = "stepBytes" if name == "stepbytes" else name  # its own spelling
            return replace(line, status=INVALID, err=(*line.err, f"invalid size specified for '{shown}'"))
        value: object = size
    elif name in _TEXTS:
        value, said = _known_word(name, text)
        line = replace(line, out=(*line.out, *said))
    else:
        value = number = c_integer(text)
        if name != "stepfactor":  # the only one of 64 bits
            value = c_int(number)
        if not _INTEGER.fullmatch(text.rstrip()) or value != number or number in _LONG:
            cut = f"-{LETTERS[name]} {text} means {value} to nccl-tests"
            line = replace(line, cut=(*line.cut, cut + ("; -1 is every rank" if name == "root" else "")))
        elif name == "stepfactor" and value < 0:
            line = replace(
                line, cut=(*line.cut, f"-f {text} is a step by -i here, to nccl-tests 2^64 - {-value}")
            )
    return replace(line, options=replace(line.options, **{name: value}))  # type: ignore[arg-type]


def _known_word(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """A type or reduction that it knows, else its default and what it says then."""
    if name == "output_file":
        return text, ()
    what, known, default = ("type", TYPES, "float") if name == "datatype" else ("op", OPS, "sum")
    if text in known or text == ALL:
        return text, ()
    return default, (f"invalid {what} {text}, defaulting to {default} .. ",)


def _consistent(line: Line) -> Line:
    """What nccl-tests says and changes once it has read everything."""
    options, said = line.options, list(line.err)
    if options.minbytes > options.maxbytes:
        sizes = f"{options.minbytes} > {options.maxbytes}"
        said.append(f"invalid sizes for 'minbytes' and 'maxbytes': {sizes}")
        return replace(line, status=INVALID, err=tuple(said))
    for is_wrong, text, changed in _DISABLED:
        if is_wrong(options):
            said.append(text(options))
            options = replace(options, **changed)  # type: ignore[arg-type]
    return replace(line, options=options, err=tuple(said))


# In its order: each looks at what the ones before have left.
_DISABLED: Final[
    tuple[tuple[Callable[[Options], bool], Callable[[Options], str], Mapping[str, int]], ...]
] = (
    (
        lambda o: o.per_iter_timing not in (0, 1),
        lambda o: "per-iteration timing (-I) only supports 0=off or 1=on. Disabling.",
        {"per_iter_timing": 0},
    ),
    (
        lambda o: o.per_iter_timing == 1 and o.cudagraph >= 1,
        lambda o: "per-iteration timing (-I) is incompatible with CUDA graph mode (-G). Disabling.",
        {"per_iter_timing": 0},
    ),
    (
        lambda o: o.blocking == 3 and o.cudagraph >= 1,
        lambda o: "blocking mode (-z 3) is incompatible with CUDA graph mode (-G). Disabling.",
        {"blocking": 0},
    ),
    (
        lambda o: not 0 <= o.per_iter_skip < o.iters,
        lambda o: f"per-iteration skip (-K) must be between 0 and {o.iters - 1}. Disabling.",
        {"per_iter_skip": 0},
    ),
    (
        lambda o: o.per_iter_skip > 0 and not o.per_iter_timing,
        lambda o: "per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.",
        {"per_iter_skip": 0},
    ),
)

# scanf's %lf, decimal, then one letter.
_SIZE: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S?)")
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_INTEGER: Final = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)")
_DECIMAL: Final = re.compile(r"\s*([+-]?)([0-9]+)")
_LARGEST: Final = 1 << 63
_LONG: Final = (-_LARGEST, _LARGEST - 1)  # where C's conversions stop
_ENOUGH_DIGITS: Final = 22  # so many, without zeros before them, reach 2^63 in any base


def parse_size(text: str) -> int | None:
    """Bytes, as its parsesize reads them: a decimal number and one of K, M, G (powers of 1024; what follows
    that letter is not looked at, so ``8KB`` is 8K), cut to whole bytes. None where it refuses.
    """
    match = _SIZE.match(text)
    if match is None or match[2].upper() not in _UNITS:
        return None
    size = float(match[1]) * _UNITS[match[2].upper()]
    return int(size) if 0 <= size < _LARGEST else None


def c_integer(text: str) -> int:
    """C's ``strtol(text, NULL, 0)``: as many digits as there are, 0 where there are none; 0x is hexadecimal
    and a leading 0 octal. It stops at the ends of 64 bits.
    """
    match = _INTEGER.match(text)
    if match is None:
        return 0
    digits = match[2]
    base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
    return _saturated(match[1], digits[2 if base == 16 else 0 :], base)


def c_atoi(text: str) -> int:
    """C's ``atoi``: decimal digits as far as they go, and of the number the lowest 32 bits."""
    match = _DECIMAL.match(text)
    return 0 if match is None else c_int(_saturated(match[1], match[2], 10))


def c_int(number: int) -> int:
    """What is left of a long in an int: its lowest 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


def _saturated(sign: str, digits: str, base: int) -> int:
    number = int(digits.lstrip("0")[:_ENOUGH_DIGITS] or "0", base)
    low, high = _LONG
    return max(-number, low) if sign == "-" else min(number, high)


# How a value is shown in the usage, by long name; no value for the rest.
_HELP: Final[Mapping[str, str]] = {
    "nthreads": "threads a process; ranks = processes x threads x GPUs",
    "ngpus": "GPUs a thread",
    "minbytes": "first size (K, M, G: powers of 1024)",
    "maxbytes": "last size",
    "stepbytes": "bytes between sizes, with -f 1",
    "stepfactor": "factor between sizes",
    "iters": "timed iterations",
    "agg_iters": "operations that are one group",
    "warmup_iters": "untimed iterations",
    "run_cycles": "how often the whole sweep is run",
    "parallel_init": "0/1; every GPU has a process here, so always parallel",
    "check": "checks of each case",
    "op": "/".join((*OPS, ALL)),
    "datatype": "a type, or all",
    "root": "root rank; -1 is every rank",
    "blocking": "0/1/2/3",
    "stream_null": "0/1; accepted",
    "timeout": "seconds",
    "cudagraph": "launches of a CUDA graph",
    "report_cputime": "0/1; issue time in place of the time",
    "report_timestamps": "0/1",
    "output_file": "file to write, .json",
    "average": "0/1/2/3: rank 0, mean, minimum, maximum",
    "local_register": "0/1/2",
    "cta_policy": "0/1/2",
    "device_implementation": "refused: busbw has no device kernels",
    "device_cta_count": "refused, as -D",
    "memory": "0/1",
    "unalign": "index of the first element used",
    "per_iter_timing": "0/1; columns with the spread of single iterations",
    "per_iter_skip": "iterations that -I leaves out of its summary",
}


def _usage(program: str) -> tuple[str, ...]:
    lines = [f"\t[-{LETTERS[name]},--{name} <{meaning}>]" for name, meaning in _HELP.items()]
    return (f"USAGE: {program} ", *lines, "\t[-h,--help]")
