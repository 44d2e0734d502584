"""nccom-test's command line (Neuron 2.11 to 2.32): one table of its flags, from which argparse and the help
are made.

The operation stands first, in the middle or last; ``--check`` takes a word only where that is a check mode;
lists (``--stats``, ``--hosts``) end at the next flag or at a word that is not theirs.
"""

from __future__ import annotations

import re
import textwrap
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Annotated, Any, Final, NoReturn, get_type_hints

from busbw.errors import UnknownWord, UsageError
from busbw.foreign.nccom.columns import OPERANDS
from busbw.plan.flags.values import ratios
from busbw.plan.swept import sizes
from busbw.stats.statistic import parse_statistics
from busbw.units import parse_size

SEE_HELP: Final = "see `busbw nccom-test --help`"
HELP_FLAGS: Final = ("-h", "--help")
CHECK_MODES: Final = ("random", "all_ones")
DATA_TYPES: Final = (
    *("uint8", "int8", "uint16", "int16", "fp16", "bf16", "uint32", "int32", "fp32"),
    *("fp8", "fp8e4"),
)
ALLOCATE: Final = "alloc"
DEFAULT_BYTES: Final = 32 * 2**20
DEFAULT_STEPS: Final = 10
_UNIT: Final = re.compile(r"(?<=[KMGTkmgt])[iI]?[bB]$")
_STATISTIC: Final = re.compile(r"(avg|p\d+(\.\d+)?)(,(avg|p\d+(\.\d+)?))*", re.IGNORECASE)


# ---- values -------------------------------------------------------------------------------------------


def parse_bytes(text: str) -> int:
    """Bytes in nccom-test's spelling: 8, 512KB, 1gb, 2kb; every unit is a power of 1024."""
    return parse_size(_UNIT.sub("", text.strip()))


def _text(text: str) -> str:
    if not text:
        raise ArgumentTypeError("empty")
    return text


def _factor(text: str) -> float:
    """A number, or a size such as 2kb, which nccom-test takes for its 2048."""
    try:
        factor = float(text)
    except ValueError:
        factor = float(parse_bytes(text))
    if not 1 <= factor < float("inf"):
        raise ArgumentTypeError(f"{text} is no factor from 1 up")
    return factor


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{number} is too small")
    return number


def _data_type(text: str) -> str:
    if text.lower() not in DATA_TYPES:
        raise ArgumentTypeError(f"unknown {text[:40]!r}; use one of: {', '.join(DATA_TYPES)}")
    return text.lower()


# Of a list a reader takes the words that are its own, and gives the rest back as operands.


def _check(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    if words and words[0] in CHECK_MODES:
        return words[0], words[1:]
    return CHECK_MODES[0], words


def _statistics(words: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    own = list(takewhile(_STATISTIC.fullmatch, words))
    if not own:
        raise UsageError(f"not a statistic: {words[0]!r}", hint="give avg, or percentiles such as p50 p99")
    found = tuple(dict.fromkeys(word for text in own for word in text.lower().split(",")))
    parse_statistics(" ".join(found))
    return found, words[len(own) :]


def _hosts(words: Sequence[str]) -> tuple[tuple[str, ...], Sequence[str]]:
    if all(map(_STATISTIC.fullmatch, words)):
        raise UsageError(f"hosts {' '.join(words)}: -s was --stats in Neuron 2.11", hint="write -t")
    return tuple(host for text in words for host in text.split(",") if host), ()


def _ratios(words: Sequence[str]) -> tuple[tuple[int, ...], Sequence[str]]:
    """Up to the bracket: a shell may have split the list."""
    end = next((number for number, word in enumerate(words, 1) if word.endswith("]")), 1)
    found = ratios("".join(words[:end]))
    if not all(found):
        raise UsageError(f"not a list of ratios: {''.join(words[:end])!r}", hint="write [1,2,1]")
    return found, words[end:]


# ---- the table ----------------------------------------------------------------------------------------

EVERYWHERE: Final = "Flags"
LAUNCH: Final = "Hosts and Slurm"
NEURON: Final = "Trainium alone"


@dataclass(frozen=True)
class Flag:
    """How a field of ``Options`` is given. ``read`` is None of a switch; with ``nargs``, as argparse has it,
    it takes the words of a list.
    """

    help: str
    read: Callable[[Any], Any] | None = None
    short: str = ""
    default: str = "none"
    aliases: tuple[str, ...] = ()
    group: str = EVERYWHERE
    nargs: str = ""

    def spellings(self, name: str) -> list[str]:
        """Every way to write it: its letter, its newest long name and earlier ones."""
        names = [f"--{each}" for each in (name.replace("_", "-"), *self.aliases)]
        return [f"-{self.short}", *names] if self.short else names


@dataclass(frozen=True)
class Options:
    """One command line. ``operand`` is the operation as written, empty where streams name theirs.

    Sizes are bytes. ``check`` is empty, ``random`` or ``all_ones``; ``stats`` the words of the time columns.
    """

    operand: str
    nworkers: Annotated[int, Flag("ranks in all", _positive, "r", "required")]
    nnodes: Annotated[int, Flag("nodes that share the ranks equally", _positive, "N", "1")] = 1
    minbytes: Annotated[int, Flag("first size", parse_bytes, "b", "32M")] = DEFAULT_BYTES
    maxbytes: Annotated[int, Flag("last size", parse_bytes, "e", "32M")] = DEFAULT_BYTES
    stepbytes: Annotated[int | None, Flag("bytes between sizes", parse_bytes, "i", "(max - min) / 10")] = None
    stepfactor: Annotated[float | None, Flag("factor between sizes", _factor, "f")] = None
    iters: Annotated[int, Flag("measured operations", int, "n", "20")] = 20
    warmup_iters: Annotated[int, Flag("operations before them, not measured", int, "w", "5")] = 5
    neff_iters: Annotated[int | None, Flag("measured rounds, each of -w and then -n", int, "I")] = None
    neff_warmup_iters: Annotated[int | None, Flag("rounds before them, not measured", int, "W")] = None
    datatype: Annotated[str, Flag("element type", _data_type, "d", "uint8")] = "uint8"
    check: Annotated[
        str, Flag("check the results: random (alone) or all_ones", _check, "c", "off", nargs="*")
    ] = ""
    seed: Annotated[int | None, Flag("seed of the random data", int, default="of its own, logged")] = None
    unique_buff: Annotated[bool, Flag("buffers of its own for every operation")] = False
    coalesced_cc_size_ratio: Annotated[
        tuple[int, ...], Flag("parallel parts of an operation: [1,2,1]", _ratios, nargs="+")
    ] = ()
    shared_output_buff: Annotated[bool, Flag("one output buffer for two cores", group=NEURON)] = False
    variable_size_op_metadata: Annotated[
        str,
        Flag("JSON file of the counts of alltoallv, all_gatherv", _text, aliases=("alltoallv-metadata",)),
    ] = ""
    stats: Annotated[
        tuple[str, ...],
        Flag("times to show: avg, p50, p99, any pNN", _statistics, "t", "avg", nargs="+"),
    ] = ("avg",)
    show_algorithm: Annotated[bool, Flag("a column with the algorithm")] = False
    show_input_output_size: Annotated[bool, Flag("columns with a rank's bytes in and out")] = False
    report_to_json_file: Annotated[str, Flag("file for configuration and results", _text)] = ""
    non_interactive: Annotated[bool, Flag("no progress display")] = False
    debug: Annotated[bool, Flag("what is started and what the ranks print, as it happens")] = False
    data_parallel_dimension: Annotated[int | None, Flag("ranks in each group that runs at once", int)] = None
    custom_replica_groups: Annotated[
        str, Flag("JSON file of the groups that run at once", _text, aliases=("custom-replica-group",))
    ] = ""
    custom_src_target_pairs: Annotated[str, Flag("JSON file of senders and receivers of permute", _text)] = ""
    streams_json: Annotated[str, Flag("JSON file of operations that run at once", _text)] = ""
    vcpu_pin_mode: Annotated[bool, Flag("pin each rank to a core")] = False
    hosts: Annotated[
        tuple[str, ...],
        Flag("hosts to run on", _hosts, "s", "~/hosts with -N", group=LAUNCH, nargs="+"),
    ] = ()
    hosts_file: Annotated[str, Flag("file of hosts, one a line", _text, group=LAUNCH)] = ""
    mpi_log_dir: Annotated[str, Flag("folder for the ranks' logs", _text, group=LAUNCH)] = ""
    slurm_mode: Annotated[bool, Flag("start the ranks by srun", short="S", group=LAUNCH)] = False
    slurm_vcpus_per_node: Annotated[int | None, Flag("CPUs of a node", _positive, "u", group=LAUNCH)] = None
    slurm_setup_script: Annotated[str, Flag("script of every node, or default", _text, group=LAUNCH)] = ""
    slurm_job_id: Annotated[
        str, Flag("allocation to use; alloc makes one", _text, default=ALLOCATE, group=LAUNCH)
    ] = ALLOCATE
    data_collector_port: Annotated[
        int | None, Flag("port where times are collected", int, default="60006", group=LAUNCH)
    ] = None
    data_collector_host: Annotated[str, Flag("host that collects them", _text, group=LAUNCH)] = ""
    slurm_use_head_node_neuron_bench: Annotated[
        bool, Flag("copy the head node's neuron-bench", group=NEURON)
    ] = False
    sb2sb: Annotated[bool, Flag("buffers in on-chip memory (SBUF)", group=NEURON)] = False
    input_shape: Annotated[str, Flag("[step0,step1][elems0,elems1] in SBUF", _text, group=NEURON)] = ""
    output_shape: Annotated[str, Flag("[step0,step1][elems0,elems1] in SBUF", _text, group=NEURON)] = ""
    cc_dim: Annotated[int | None, Flag("dimension of joined tensors", int, default="1", group=NEURON)] = None

    @property
    def collective(self) -> str:
        """The catalogue's name of the operation."""
        return OPERANDS[self.operand]

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """The sweep. Raises UsageError if it is empty."""
        return sizes(self.minbytes, *self.sweep)

    @property
    def sweep(self) -> tuple[int, int, float]:
        """The last size, and the bytes and the factor between sizes: the factor where one was given (1 has no
        second size), else -i, or a tenth of the range in whole bytes, at most ten times.
        """
        if self.stepfactor is not None:
            return (self.maxbytes if self.stepfactor > 1 else self.minbytes), 0, self.stepfactor
        spread, step = self.maxbytes - self.minbytes, self.stepbytes
        if step is None:
            step = spread // DEFAULT_STEPS
            step = step if step and spread // step <= DEFAULT_STEPS else -(-spread // DEFAULT_STEPS)
        return self.maxbytes, step, 1

    @property
    def rounds(self) -> tuple[int | None, int | None]:
        """Measured and unmeasured rounds; None where neither -I nor -W was given."""
        if self.neff_iters is None and self.neff_warmup_iters is None:
            return None, None
        return (1 if self.neff_iters is None else self.neff_iters), self.neff_warmup_iters or 0


FLAGS: Final[Mapping[str, Flag]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}


def flag_name(name: str) -> str:
    """The newest long name of a field's flag."""
    return "--" + name.replace("_", "-")


# ---- command lines ------------------------------------------------------------------------------------


def parse(words: Sequence[str]) -> Options:
    """The options in a command line without its program. Raises UsageError for everything that cannot be
    meant.
    """
    values, rest = split(words)
    unknown = next((word for word in rest if word.startswith("-") and word != "--"), None)
    if unknown is not None:
        raise UsageError(f"unknown flag {unknown}", hint=SEE_HELP)
    operands = [word for word in rest if word != "--"]
    return options_of(_operand(operands, has_streams="streams_json" in values), values)


def split(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The values of the flags that are known, by field, and all other words: operands and newer flags.

    Raises UsageError for a value that its flag cannot have.
    """
    given, rest = _parser().parse_known_args([_with_hyphens(word) for word in words])
    values = vars(given)
    for name, flag in FLAGS.items():
        if not flag.nargs or flag.read is None or name not in values:
            continue
        behind: list[str] = values[name]
        if name == "hosts" and not rest and len(behind) > 1 and behind[-1] in OPERANDS:
            rest.append(behind.pop())  # `--hosts A B allr`: hosts have no other end
        values[name], operands = flag.read(behind)
        rest += operands
    return values, rest


def options_of(operand: str, values: Mapping[str, Any]) -> Options:
    """Options of values by field. Raises UsageError where they contradict each other."""
    if "nworkers" not in values:
        raise UsageError("-r (--nworkers) is missing", hint="give the number of ranks: -r 2")
    options = Options(operand, **values)
    if options.nworkers % options.nnodes:
        raise UsageError(
            f"-r {options.nworkers} ranks cannot be divided equally among -N {options.nnodes} nodes",
            hint=f"give a multiple of {options.nnodes} ranks",
        )
    options.sizes_bytes  # noqa: B018 (raises for an empty sweep)
    return options


def _operand(operands: list[str], *, has_streams: bool) -> str:
    hint = f"name one of: {', '.join(OPERANDS)}"
    unknown = next((word for word in operands if word not in OPERANDS), None)
    if unknown is not None:
        raise UnknownWord(f"unknown operation {unknown!r}", unknown, OPERANDS)
    if len(operands) > 1:
        raise UsageError(f"several operations given: {' '.join(operands)}", hint="give one")
    if not operands and not has_streams:
        raise UsageError("no operation given", hint=hint)
    return operands[0] if operands else ""


def _with_hyphens(word: str) -> str:
    """``--warmup_iters=5`` is ``--warmup-iters=5``."""
    name, joined, value = word.partition("=")
    return name.replace("_", "-") + joined + value if word.startswith("--") else word


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "), hint=SEE_HELP)


@cache
def _parser() -> _Parser:
    """What is not given is not in its namespace: defaults are those of ``Options``."""
    parser = _Parser(
        usage="busbw nccom-test [FLAGS] OPERATION [FLAGS]",
        description=_DESCRIPTION,
        epilog="\n".join([_SIZES, "", "Examples:", *(f"  {line}" for line in EXAMPLES)]),
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, max_help_position=30, width=_COLUMNS),
        argument_default=SUPPRESS,
        add_help=False,
    )
    groups = {title: parser.add_argument_group(title) for title in (EVERYWHERE, LAUNCH, NEURON)}
    for name, flag in FLAGS.items():
        spellings = flag.spellings(name)
        if flag.read is None:
            groups[flag.group].add_argument(*spellings, dest=name, action="store_true", help=flag.help)
            continue
        many: dict[str, Any] = {"nargs": flag.nargs} if flag.nargs else {"type": _reader(flag.read)}
        groups[flag.group].add_argument(
            *spellings, dest=name, metavar="VALUE", help=f"{flag.help} [{flag.default}]", **many
        )
    return parser


def _reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Names the flag in what ``read`` refuses, as argparse does of its own errors alone."""

    def read_one(text: str) -> object:
        try:
            return read(text)
        except UsageError as error:
            raise ArgumentTypeError(error.message) from error
        except ValueError as error:
            raise ArgumentTypeError(f"not a number: {text[:40]!r}") from error

    return read_one


def help_text() -> str:
    """The page of ``--help``."""
    return _parser().format_help()


_COLUMNS: Final = 80
_DESCRIPTION: Final = f"""\
nccom-test's command line. On Trainium and Inferentia the vendor's tool runs,
and its result is kept; elsewhere busbw measures GPUs over NCCL, or CPU ranks
over MPI, and prints nccom-test's table.

{textwrap.fill(f"OPERATION: {', '.join(OPERANDS)}", _COLUMNS)}"""
_SIZES: Final = "Sizes take k, M, G with or without B, in any case, as powers of 1024."
EXAMPLES: Final = (
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
    "busbw nccom-test -r 4 -n 400 --stats avg p50 p99 alltoall",
)
