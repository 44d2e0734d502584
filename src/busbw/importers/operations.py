"""What every tool calls the operations that we have names for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAMES: Final = {
    "all_reduce": ("allreduce", "allr"),
    "all_gather": ("allgather", "allg"),
    "reduce_scatter": ("reducescatter", "redsct"),
    "alltoall": ("alltoall", "alltoallpersonalizedexchange", "a2a"),
    "broadcast": ("broadcast", "bcast"),
    "reduce": ("reduce",),
    "gather": ("gather",),
    "scatter": ("scatter",),
    "sendrecv": ("sendrecv", "sendreceive"),
    "hypercube": ("hypercube",),
    "barrier": ("barrier",),
    "alltoallv": ("alltoallv", "alltoallvpersonalizedexchange"),
    "all_gatherv": ("allgatherv", "allgv"),
    "permute": ("permute",),
    # Not in the catalogue: imported with the log's own numbers.
    "alltoallw": ("alltoallw", "alltoallwpersonalizedexchange"),
    "gatherv": ("gatherv",),
    "scatterv": ("scatterv",),
    "reduce_scatter_block": ("reducescatterblock",),
}
# Kinds of collectives that are not the same as the plain one: by the words of MPI, and of OSU's titles.
_KINDS: Final = (
    ("i{}", ("i{}", "nonblocking{}")),
    ("{}_init", ("{}persistent",)),
    ("neighbor_{}", ("neighborhood{}",)),
    ("ineighbor_{}", ("nonblockingneighborhood{}",)),
)
_BY_WORD: Final = {word: name for name, words in _NAMES.items() for word in words} | {
    form.format(word): kind.format(name)
    for name, words in _NAMES.items()
    for kind, forms in _KINDS
    for form in forms
    for word in words
}
_BASES: Final = {kind.format(name): name for name in _NAMES for kind, _ in _KINDS}
_TEST: Final = re.compile(r"[^a-z0-9]")
# Names of programs: nccl-tests built for MPI adds a suffix, see NAME_SUFFIX in its Makefile.
_PROGRAM: Final = re.compile(r"_perf(?:_\w+)?$")

# busbw / algbw by the number of ranks, for those operations whose factor depends on it (nccl-tests' sources).
DOUBLE: Final = frozenset({"all_reduce"})
SHARED: Final = frozenset(
    {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "alltoallv", "all_gatherv"}
)
PLAIN: Final = frozenset({"broadcast", "reduce", "sendrecv", "hypercube", "permute"})
REDUCING: Final = frozenset({"all_reduce", "reduce_scatter", "reduce", "reduce_scatter_block"})
ROOTED: Final = frozenset({"broadcast", "reduce", "gather", "scatter"})
# Known to reduce nothing, whatever a row says: sendrecv_perf prints the reduction that it was asked for.
MOVING: Final = (SHARED | PLAIN) - REDUCING
# Those that print a buffer of one block for every rank as their size.
BLOCKED: Final = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"})
# Whose algbw is not size / time for every size: rows of these are not judged by it.
UNEVEN: Final = frozenset({"alltoallv", "all_gatherv", "alltoallw", "gatherv", "scatterv"})


@lru_cache(1024)
def operation(word: str) -> str:
    """Our name of an operation: all_reduce_perf_mpi, allr, Iallreduce, ``All-to-All Personalized Exchange``.

    Empty for a word that is none.
    """
    plain = _TEST.sub("", _PROGRAM.sub("", word.lower()).removeprefix("osu_"))
    return _BY_WORD.get(plain, "")


def base(name: str) -> str:
    """The plain operation of a non-blocking, persistent or neighbourhood one; the name itself for others."""
    return _BASES.get(name, name)


_IN_PATH: Final = re.compile(
    r"(?<![a-z])(all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|broadcast|bcast"
    r"|sendrecv|hypercube|barrier|permute)(v?)(?![a-z])",
    re.IGNORECASE,
)
_SHORT_IN_PATH: Final = re.compile(r"(?:^|/)(reduce|gather|scatter)_(?:perf|output)", re.IGNORECASE)


def operation_in_path(path: str) -> str:
    """The one operation that a path names; empty where it names none or several."""
    names = {operation("".join(match.groups())) for match in _IN_PATH.finditer(path)}
    names |= {operation(match[1]) for match in _SHORT_IN_PATH.finditer(path)}
    return names.pop() if len(names) == 1 else ""
