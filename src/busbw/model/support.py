"""What a backend cannot do on any machine: known from names alone, so refused before ranks start."""

from __future__ import annotations

from busbw.model.collective import Collective
from busbw.model.datatype import DataType


def unsupported(backend: str, row: Collective, dtype: DataType) -> str:
    """Why the backend does not have the collective for the type; empty where it may."""
    if backend == "nccl" and row.reducing and dtype.name in ("int16", "uint16"):
        return "NCCL has no 16-bit integers: it can move their bytes, not reduce them"
    return ""
