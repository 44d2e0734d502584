"""The values of an nccom-test command line, checked, with nccom-test's defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import CHECK_MODES, DATA_TYPES, OPERANDS
from busbw.frontdoors.nccom_words import SEE_HELP, Words, tokenise
from busbw.planning.sweep import sizes
from busbw.planning.values import MOST, MOST_SEED, ratios
from busbw.stats.statistic import parse_statistics
from busbw.units import parse_size

DEFAULT_BYTES: Final = 32 * 2**20
DEFAULT_STEPS: Final = 10
ALLOCATE: Final = "alloc"
LAST_PORT: Final = 65535
_UNIT: Final = re.compile(r"(?<=[KMGTkmgt])[iI]?[bB]$")


@dataclass(frozen=True)
class Options:
    """One command line. ``operand`` is the operation as written, empty where streams name theirs,
    ``collective`` what it is here.

    Sizes are bytes. ``check`` is empty, ``random`` or ``all_ones``; ``stats`` the words of the time columns.
    ``values`` are the words of every flag given, by key, for reports.
    """

    operand: str
    nworkers: int
    nnodes: int = 1
    minbytes: int = DEFAULT_BYTES
    maxbytes: int = DEFAULT_BYTES
    stepbytes: int = 0
    stepfactor: float | None = None
    iters: int = 20
    warmup_iters: int = 5
    neff_iters: int | None = None
    neff_warmup_iters: int | None = None
    datatype: str = "uint8"
    check: str = ""
    seed: int | None = None
    unique_buff: bool = False
    coalesced_cc_size_ratio: tuple[int, ...] = ()
    shared_output_buff: bool = False
    variable_size_op_metadata: str = ""
    stats: tuple[str, ...] = ("avg",)
    show_algorithm: bool = False
    show_input_output_size: bool = False
    report_to_json_file: str = ""
    non_interactive: bool = False
    debug: bool = False
    data_parallel_dimension: int | None = None
    custom_replica_groups: str = ""
    custom_src_target_pairs: str = ""
    streams_json: str = ""
    vcpu_pin_mode: bool = False
    hosts: tuple[str, ...] = ()
    hosts_file: str = ""
    mpi_log_dir: str = ""
    slurm_mode: bool = False
    slurm_vcpus_per_node: int | None = None
    slurm_setup_script: str = ""
    slurm_job_id: str = ALLOCATE
    slurm_use_head_node_neuron_bench: bool = False
    data_collector_port: int | None = None
    data_collector_host: str = ""
    sb2sb: bool = False
    input_shape: str = ""
    output_shape: str = ""
    cc_dim: int | None = None
    values: Mapping[str, tuple[str, ...]] | None = None

    @property
    def collective(self) -> str:
        """The catalogue's name of the operation."""
        return OPERANDS[self.operand]

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """The sweep: by the factor where one was given, else by adding. Raises UsageError if it is empty."""
        if self.stepfactor is not None:
            factor = self.stepfactor
            # A factor of 1 has no second size; ``sizes`` would step by 1 byte.
            return sizes(self.minbytes, self.maxbytes if factor > 1 else self.minbytes, 0, factor)
        return sizes(self.minbytes, self.maxbytes, self.step_bytes, 1)

    @property
    def step_bytes(self) -> int:
        """The additive step: -i, else a tenth of the range in whole bytes, at most ten times."""
        if "stepbytes" in (self.values or {}):
            return self.stepbytes
        spread = self.maxbytes - self.minbytes
        step = spread // DEFAULT_STEPS
        return step if step and spread // step <= DEFAULT_STEPS else -(-spread // DEFAULT_STEPS)

    @property
    def calls(self) -> tuple[int, int]:
        """Operations that run in all, and how many of them are measured.

        With -I or -W, -n and -w count within a round: (n + w)(I + W) run, n I are measured.
        """
        rounds = self.rounds
        if rounds is None:
            return self.iters + self.warmup_iters, self.iters
        return (self.iters + self.warmup_iters) * sum(rounds), self.iters * rounds[0]

    @property
    def rounds(self) -> tuple[int, int] | None:
        """Measured and unmeasured rounds; None where neither -I nor -W was given."""
        if self.neff_iters is None and self.neff_warmup_iters is None:
            return None
        return (1 if self.neff_iters is None else self.neff_iters), self.neff_warmup_iters or 0


def parse(words: Sequence[str]) -> Options:
    """The options in a command line without its program. Raises UsageError for everything that cannot be
    meant.
    """
    return read(tokenise(words))


def read(words: Words) -> Options:
    """The options in the words of a command line."""
    values = words.values
    if not words.operands and "streams_json" in values:
        operand = ""  # each stream names its own
    elif len(words.operands) == 1 and words.operands[0] in OPERANDS:
        operand = words.operands[0]
    else:
        raise _no_operation(words.operands)
    if "nworkers" not in values:
        raise UsageError("-r (--nworkers) is missing", hint="give the number of ranks: -r 2")
    fields: dict[str, Any] = {key: _READERS[key](key, given) for key, given in values.items()}
    options = Options(operand, values=dict(values), **fields)
    if options.nworkers % options.nnodes:
        raise UsageError(
            f"-r {options.nworkers} ranks cannot be divided equally among -N {options.nnodes} nodes",
            hint=f"give a multiple of {options.nnodes} ranks",
        )
    options.sizes_bytes  # noqa: B018 (raises for an empty sweep)
    return options


def _no_operation(operands: tuple[str, ...]) -> UsageError:
    hint = f"name one of: {', '.join(OPERANDS)}"
    unknown = [word for word in operands if word not in OPERANDS]
    if not operands:
        return UsageError("no operation given", hint=hint)
    if unknown:
        return UsageError(f"unknown operation {unknown[0]!r}", hint=hint)
    return UsageError(f"several operations given: {' '.join(operands)}", hint="give one; or --streams-json")


def parse_bytes(text: str) -> int:
    """Bytes in nccom-test's spelling: 8, 512KB, 1gb, 2kb; every unit is a power of 1024."""
    return parse_size(_UNIT.sub("", text.strip()))


def _size(key: str, given: tuple[str, ...]) -> int:
    try:
        return parse_bytes(given[0])
    except UsageError as error:
        raise UsageError(f"--{_flag(key)}: {error.message}", hint="write 8, 512KB, 1M or 2gb") from error


def _factor(key: str, given: tuple[str, ...]) -> float:
    """A number, or a size such as 2kb, which nccom-test takes for its 2048."""
    try:
        factor = float(given[0])
    except ValueError:
        factor = float(_size(key, given))
    if not 1 <= factor < float("inf"):
        raise UsageError(f"--stepfactor {given[0]} is no factor from 1 up", hint="give -f 2, or -i BYTES")
    return factor


def _at_least(least: int, most: int = MOST) -> Any:  # noqa: ANN401 (a reader)
    def read_whole(key: str, given: tuple[str, ...]) -> int:
        try:
            number = int(given[0])
        except ValueError as error:
            raise UsageError(f"--{_flag(key)}: not a number: {given[0]!r}", hint=SEE_HELP) from error
        if number < least:
            raise UsageError(f"--{_flag(key)} {number} is too small", hint=f"give {least} or more")
        if number > most:
            raise UsageError(f"--{_flag(key)} is too large", hint=f"give {most} or less")
        return number

    return read_whole


def _one_of(known: tuple[str, ...]) -> Any:  # noqa: ANN401 (a reader)
    def read_word(key: str, given: tuple[str, ...]) -> str:
        if given[0].lower() not in known:
            raise UsageError(
                f"--{_flag(key)}: unknown {given[0]!r}", hint=f"use one of: {', '.join(dict.fromkeys(known))}"
            )
        return given[0].lower()

    return read_word


def _check(_key: str, given: tuple[str, ...]) -> str:
    return given[0] if given else CHECK_MODES[0]


def _switch(_key: str, _given: tuple[str, ...]) -> bool:
    return True


def _text(key: str, given: tuple[str, ...]) -> str:
    if not given[0]:
        raise UsageError(f"--{_flag(key)} is empty", hint=SEE_HELP)
    return given[0]


def _words(_key: str, given: tuple[str, ...]) -> tuple[str, ...]:
    return given


def _statistics(_key: str, given: tuple[str, ...]) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.lower() for text in given for word in text.split(",") if word))
    for word in words:
        if word != "avg" and not word.startswith("p"):
            raise UsageError(f"not a statistic: {word!r}", hint="give avg, or percentiles such as p50 p99")
    parse_statistics(" ".join(words))
    return words


def _ratios(key: str, given: tuple[str, ...]) -> tuple[int, ...]:
    found = ratios(given[0])
    if not all(found):
        raise UsageError(f"--{_flag(key)}: not a list of ratios: {given[0]!r}", hint="write [1,2,1]")
    return found


def _flag(key: str) -> str:
    return key.replace("_", "-")


_READERS: Final[dict[str, Any]] = {
    **dict.fromkeys(("minbytes", "maxbytes", "stepbytes"), _size),
    **dict.fromkeys(
        ("nworkers", "nnodes", "iters", "neff_iters", "data_parallel_dimension", "slurm_vcpus_per_node"),
        _at_least(1),
    ),
    **dict.fromkeys(("warmup_iters", "neff_warmup_iters", "cc_dim"), _at_least(0)),
    "seed": _at_least(0, MOST_SEED),
    **dict.fromkeys(
        (
            *("unique_buff", "shared_output_buff", "show_algorithm", "show_input_output_size", "debug"),
            *("non_interactive", "vcpu_pin_mode", "slurm_mode", "slurm_use_head_node_neuron_bench", "sb2sb"),
        ),
        _switch,
    ),
    **dict.fromkeys(
        (
            *("variable_size_op_metadata", "report_to_json_file", "custom_replica_groups", "hosts_file"),
            *("custom_src_target_pairs", "streams_json", "mpi_log_dir", "slurm_setup_script", "slurm_job_id"),
            *("data_collector_host", "input_shape", "output_shape"),
        ),
        _text,
    ),
    "stepfactor": _factor,
    "datatype": _one_of(DATA_TYPES),
    "check": _check,
    "stats": _statistics,
    "hosts": _words,
    "coalesced_cc_size_ratio": _ratios,
    "data_collector_port": _at_least(1, LAST_PORT),
}


def default_hosts_file(home: Path) -> Path | None:
    """``~/hosts``, which nccom-test reads where no hosts are given; None where there is none."""
    path = home / "hosts"
    return path if path.is_file() else None
