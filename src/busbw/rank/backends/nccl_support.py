"""What a copy of NCCL on a GPU can do, and what it does instead: rules over names and version numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.machine.native.nccl import FLOAT8_VERSION, NcclLibrary
from busbw.model.case import Case
from busbw.model.collective import unsupported
from busbw.model.datatype import data_type

# Collectives whose functions came late (2.28.3); without them, grouped sends and receives.
LATE_FUNCTIONS: Final = {"alltoall": "ncclAlltoAll", "gather": "ncclGather", "scatter": "ncclScatter"}

# NCCL's enqueue.cc: "FP8 reduction support begins with sm90 capable devices".
_FLOAT8_CAPABILITY: Final = (9, 0)
_FLOAT8: Final = ("f8e4m3", "f8e5m2")
# The bytes of a type that NCCL does not have travel as those of one that it has.
_AS_BYTES: Final = {"int16": "int8", "uint16": "uint8", "f8e4m3": "uint8", "f8e5m2": "uint8"}


@dataclass(frozen=True)
class Element:
    """An element in NCCL's terms: ``per_element`` of ncclDataType_t ``datatype``, ``type_bytes`` each."""

    datatype: int
    type_bytes: int
    per_element: int = 1


@dataclass(frozen=True)
class Support:
    """``functions``: those of LATE_FUNCTIONS' collectives that are called by their own function;
    ``aggregate`` is how many calls form one group.
    """

    version: str
    version_code: int
    compute_capability: tuple[int, int]
    functions: frozenset[str]
    aggregate: int = 1

    def inapplicable(self, case: Case, ranks: int) -> str:
        """Why the case cannot be run; empty where it can. The same on all ranks of one kind of GPU."""
        if case.collective == "hypercube" and (self.aggregate > 1 or case.coalesce):
            return "the steps of hypercube depend on one another, and a group would run them at once"
        reason = unsupported("nccl", case.row, case.data_type)
        if reason or not case.row.reducing or case.dtype not in _FLOAT8:
            return reason
        if self.version_code < FLOAT8_VERSION:
            return f"NCCL {self.version} has no 8-bit floats: they came with 2.24"
        if self.compute_capability < _FLOAT8_CAPABILITY:
            has = ".".join(map(str, self.compute_capability))
            return f"NCCL reduces 8-bit floats from compute capability 9.0 on, this GPU has {has}"
        if ranks == 1 and case.op in ("avg", "mulsum"):
            # Seen with 2.28.9 on H200: its path for one rank ends with ncclInvalidArgument.
            return f"NCCL on one rank refuses {case.op} of 8-bit floats"
        return ""

    def conditions(self, case: Case) -> tuple[str, ...]:
        """Words of ``model.mark``: what is done instead of what was asked for."""
        found = []
        if case.collective == "barrier":
            found.append("emulated")
        elif self._as_bytes(case):
            found.append("as-bytes")
        if case.collective in LATE_FUNCTIONS and case.collective not in self.functions:
            found.append("grouped")
        return tuple(found)

    def element(self, case: Case) -> Element:
        """How the case's elements are passed to NCCL."""
        own = case.data_type
        if not self._as_bytes(case):
            return Element(own.number, own.size_bytes)
        carrier = data_type(_AS_BYTES[case.dtype])
        return Element(carrier.number, carrier.size_bytes, own.size_bytes // carrier.size_bytes)

    def _as_bytes(self, case: Case) -> bool:
        if case.dtype in _FLOAT8:
            return self.version_code < FLOAT8_VERSION or self.compute_capability < _FLOAT8_CAPABILITY
        return case.dtype in _AS_BYTES


def support_of(
    nccl: NcclLibrary, compute_capability: tuple[int, int], aggregate: int, *, grouped: bool
) -> Support:
    """What this copy of NCCL does on this GPU; ``grouped`` leaves its late functions unused."""
    late = () if grouped else tuple(name for name, function in LATE_FUNCTIONS.items() if nccl.has(function))
    return Support(nccl.version, nccl.version_code, compute_capability, frozenset(late), aggregate)
