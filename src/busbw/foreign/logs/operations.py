"""What every tool calls the operations, types and reductions that we have names for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from busbw.model.collective import COLLECTIVES, VARIABLE
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, DataType

# Not in the catalogue: imported with the log's own numbers.
_FOREIGN: Final = ("alltoallw", "gatherv", "scatterv", "reduce_scatter_block")
# What tools call them beside our own names, without any sign.
_ALIASES: Final = {
    "allr": "all_reduce",
    "allg": "all_gather",
    "redsct": "reduce_scatter",
    "a2a": "alltoall",
    "alltoallpersonalizedexchange": "alltoall",
    "bcast": "broadcast",
    "sendreceive": "sendrecv",
    "alltoallvpersonalizedexchange": "alltoallv",
    "allgv": "all_gatherv",
    "alltoallwpersonalizedexchange": "alltoallw",
}
_NAMES: Final = (*(row.name for row in COLLECTIVES), *_FOREIGN)
_BY_WORD: Final = _ALIASES | {name.replace("_", ""): name for name in _NAMES}
_TEST: Final = re.compile(r"[^a-z0-9]")
# Names of programs: nccl-tests built for MPI adds a suffix, see NAME_SUFFIX in its Makefile.
_PROGRAM: Final = re.compile(r"_perf(?:_\w+)?$")

# busbw / algbw by the number of ranks: twice (n - 1) / n, that, or 1.
FACTORS: Final = {row.name: row.busbw_factor for row in COLLECTIVES if row.sized}
DOUBLE: Final = frozenset(name for name, factor in FACTORS.items() if factor(4) > 1)
SHARED: Final = frozenset(name for name, factor in FACTORS.items() if factor(4) < 1)
PLAIN: Final = frozenset(FACTORS) - DOUBLE - SHARED
REDUCING: Final = frozenset({row.name for row in COLLECTIVES if row.reducing} | {"reduce_scatter_block"})
ROOTED: Final = frozenset(row.name for row in COLLECTIVES if row.rooted)
# Known to reduce nothing, whatever a row says: sendrecv_perf prints the reduction that it was asked for.
MOVING: Final = (SHARED | PLAIN) - REDUCING
# Those that print a buffer of one block for every rank as their size.
BLOCKED: Final = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"})
# Whose algbw is not size / time for every size: rows of these are not judged by it.
UNEVEN: Final = frozenset({*VARIABLE, "alltoallw", "gatherv", "scatterv"})
# Whose bandwidths follow from size, time and ranks. Nothing is said against those of all others.
KNOWN: Final = (DOUBLE | SHARED | PLAIN) - UNEVEN


@lru_cache(1024)
def operation(word: str) -> str:
    """Our name of an operation: all_reduce_perf_mpi, allr, ``All-to-All Personalized Exchange``.

    Empty for any other word.
    """
    plain = _TEST.sub("", _PROGRAM.sub("", word.lower()).removeprefix("osu_"))
    return _BY_WORD.get(plain, "")


# Words of all tools for element types and reductions; none of the latter is one.
_TYPES: Final = {word: row for row in DATA_TYPES for word in (row.name, *row.aliases)}
TYPE_NAMES: Final = {word: row.name for word, row in _TYPES.items()}
TYPE_BYTES: Final = {word: row.size_bytes for word, row in _TYPES.items()}
REDUCTIONS: Final = {"": "", "none": ""} | {
    word: row.name for row in REDUCE_OPS for word in (row.name, *row.aliases)
}


def element_type(word: str) -> DataType | None:
    """The row of an element type; None for a word that we do not know."""
    return _TYPES.get(word)


_IN_PATH: Final = re.compile(
    r"(?<![a-z])((?:all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|broadcast|bcast"
    r"|sendrecv|hypercube|barrier|permute)v?)(?![a-z])"
    r"|(?:^|/)(reduce|gather|scatter)_(?:perf|output)",
    re.IGNORECASE,
)


def operation_in_path(path: str) -> str:
    """The one operation that a path names; empty where it names none or several."""
    names = {operation(match[1] or match[2]) for match in _IN_PATH.finditer(path)}
    return names.pop() if len(names) == 1 else ""
