"""The flags of nccom-test (Neuron 2.11 to 2.32) as a table: parser, help and checks are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Takes(Enum):
    """What follows a flag. Lists end at the next flag, or at a word that cannot belong to them."""

    NOTHING = ""
    ONE = "VALUE"
    CHECK_MODE = "[random|all_ones]"  # nothing, or one of these words
    STATISTICS = "STAT..."  # avg and pNN, as long as they come
    HOSTS = "HOST..."
    RATIOS = "[R,...]"  # up to its closing bracket, which a shell may have put into another word


class Side(Enum):
    """Where a flag has a meaning."""

    EVERYWHERE = "everywhere"
    LAUNCH = "launch"  # where and how ranks are started
    NEURON = "neuron"  # of Trainium's hardware or runtime: for the vendor's tool alone


@dataclass(frozen=True)
class Flag:
    """One row. ``name`` is the newest long name, with hyphens; ``aliases`` are its earlier spellings."""

    name: str
    short: str
    takes: Takes
    default: str
    help: str
    aliases: tuple[str, ...] = ()
    side: Side = Side.EVERYWHERE

    @property
    def key(self) -> str:
        """Its name in JSON files and in ``Options``."""
        return self.name.replace("-", "_")


_SWITCH: Final = "false"
FLAGS: Final = (
    Flag("nworkers", "r", Takes.ONE, "required", "ranks in all"),
    Flag("nnodes", "N", Takes.ONE, "1", "nodes, among which the ranks are divided equally"),
    Flag("minbytes", "b", Takes.ONE, "32M", "first size"),
    Flag("maxbytes", "e", Takes.ONE, "32M", "last size"),
    Flag("stepbytes", "i", Takes.ONE, "(max - min) / 10", "bytes between sizes"),
    Flag("stepfactor", "f", Takes.ONE, "none", "factor between sizes"),
    Flag("iters", "n", Takes.ONE, "20", "measured operations"),
    Flag("warmup-iters", "w", Takes.ONE, "5", "operations before them that are not measured"),
    Flag("neff-iters", "I", Takes.ONE, "none", "measured rounds, each of -w and then -n operations"),
    Flag("neff-warmup-iters", "W", Takes.ONE, "none", "rounds before them that are not measured"),
    Flag("datatype", "d", Takes.ONE, "uint8", "element type"),
    Flag("check", "c", Takes.CHECK_MODE, "off", "check the results; alone: random"),
    Flag("seed", "", Takes.ONE, "of its own, logged", "seed of the random data"),
    Flag("unique-buff", "", Takes.NOTHING, _SWITCH, "buffers of its own for every operation"),
    Flag("coalesced-cc-size-ratio", "", Takes.RATIOS, "none", "parallel parts of an operation"),
    Flag("shared-output-buff", "", Takes.NOTHING, _SWITCH, "one output buffer for two cores"),
    Flag(
        "variable-size-op-metadata",
        "",
        Takes.ONE,
        "none",
        "JSON file of the counts of alltoallv and all_gatherv",
        aliases=("alltoallv-metadata",),
    ),
    Flag("stats", "t", Takes.STATISTICS, "avg", "times to show: avg, p50, p99, any pNN"),
    Flag("show-algorithm", "", Takes.NOTHING, _SWITCH, "a column with the algorithm"),
    Flag("show-input-output-size", "", Takes.NOTHING, _SWITCH, "columns with a rank's bytes in and out"),
    Flag("report-to-json-file", "", Takes.ONE, "none", "write configuration and results to this file"),
    Flag("non-interactive", "", Takes.NOTHING, _SWITCH, "no progress display"),
    Flag("debug", "", Takes.NOTHING, _SWITCH, "what is started and what the ranks print, as it happens"),
    Flag("data-parallel-dimension", "", Takes.ONE, "none", "ranks in each of the groups that run at once"),
    Flag(
        "custom-replica-groups",
        "",
        Takes.ONE,
        "none",
        "JSON file of the groups that run at once",
        aliases=("custom-replica-group",),
    ),
    Flag("custom-src-target-pairs", "", Takes.ONE, "none", "JSON file of who sends to whom, for permute"),
    Flag("streams-json", "", Takes.ONE, "none", "JSON file of operations that run at once"),
    Flag("vcpu-pin-mode", "", Takes.NOTHING, _SWITCH, "pin each rank to a core"),
    Flag("hosts", "s", Takes.HOSTS, "~/hosts with -N", "hosts to run on", side=Side.LAUNCH),
    Flag("hosts-file", "", Takes.ONE, "none", "file of hosts, one a line", side=Side.LAUNCH),
    Flag("mpi-log-dir", "", Takes.ONE, "none", "folder for the ranks' logs", side=Side.LAUNCH),
    Flag("slurm-mode", "S", Takes.NOTHING, _SWITCH, "start the ranks by srun", side=Side.LAUNCH),
    Flag("slurm-vcpus-per-node", "u", Takes.ONE, "the fewest of any", "CPUs of a node", side=Side.LAUNCH),
    Flag("slurm-setup-script", "", Takes.ONE, "none", "script of every node, or default", side=Side.LAUNCH),
    Flag("slurm-job-id", "", Takes.ONE, "alloc", "allocation to use; alloc makes one", side=Side.LAUNCH),
    Flag(
        "slurm-use-head-node-neuron-bench",
        "",
        Takes.NOTHING,
        _SWITCH,
        "copy the head node's neuron-bench",
        side=Side.NEURON,
    ),
    Flag("data-collector-port", "", Takes.ONE, "60006", "port where times are collected", side=Side.LAUNCH),
    Flag("data-collector-host", "", Takes.ONE, "this host", "host that collects them", side=Side.LAUNCH),
    Flag("sb2sb", "", Takes.NOTHING, _SWITCH, "buffers in on-chip memory (SBUF)", side=Side.NEURON),
    Flag("input-shape", "", Takes.ONE, "none", "[step0,step1][elems0,elems1] in SBUF", side=Side.NEURON),
    Flag("output-shape", "", Takes.ONE, "none", "[step0,step1][elems0,elems1] in SBUF", side=Side.NEURON),
    Flag("cc-dim", "", Takes.ONE, "1", "dimension along which tensors are joined", side=Side.NEURON),
)

# Names that nccom-test accepts as its operand, and the collective that each is.
OPERANDS: Final = {
    "all_reduce": "all_reduce",
    "allr": "all_reduce",
    "all_gather": "all_gather",
    "allg": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "redsct": "reduce_scatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoallv",
    "all_gatherv": "all_gatherv",
    "allgv": "all_gatherv",
    "sendrecv": "sendrecv",
    "permute": "permute",
}
CHECK_MODES: Final = ("random", "all_ones")
DATA_TYPES: Final = (
    *("uint8", "int8", "uint16", "int16", "fp16", "bf16", "uint32", "int32", "fp32"),
    *("fp8", "fp8e4"),
)
HELP_FLAGS: Final = ("-h", "--help")


def spelled(flag: Flag) -> str:
    """Every way to write a flag, with what follows it."""
    names = [f"--{name}" for name in (flag.name, *flag.aliases)]
    return ", ".join([*([f"-{flag.short}"] if flag.short else []), *names]) + (
        f" {flag.takes.value}" if flag.takes.value else ""
    )


def help_text() -> str:
    """The page of ``--help``."""
    lines = [
        "Usage: busbw nccom-test [FLAGS] OPERATION [FLAGS]",
        "",
        "nccom-test's command line. On Trainium and Inferentia the vendor's tool runs, and its",
        "result is kept; elsewhere busbw measures GPUs over NCCL, or CPU ranks over MPI, and prints",
        "nccom-test's table.",
        "",
        f"OPERATION: {', '.join(OPERANDS)}",
    ]
    for side, title in (
        (Side.EVERYWHERE, "Flags"),
        (Side.LAUNCH, "Hosts and Slurm"),
        (Side.NEURON, "Trainium alone"),
    ):
        lines += ["", f"{title}:"]
        for flag in FLAGS:
            if flag.side is side:
                lines += [f"  {spelled(flag)}", f"      {flag.help}  [default: {flag.default}]"]
    lines += ["", "Sizes take k, M, G with or without B, in any case, as powers of 1024.", ""]
    lines += ["Examples:", *(f"  {line}" for line in EXAMPLES)]
    return "\n".join(lines)


EXAMPLES: Final = (
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
    "busbw nccom-test -r 4 -n 400 --stats avg p50 p99 alltoall",
)
