"""The identity of each reduction: what a rank brings that has no part in the result."""

from __future__ import annotations

from typing import Final

from busbw.model.datatype import DataType

# Bits of 1 and of the largest finite value.
FLOATS: Final = {
    "half": (0x3C00, 0x7BFF),
    "bfloat16": (0x3F80, 0x7F7F),
    "f8e4m3": (0x38, 0x7E),
    "f8e5m2": (0x3C, 0x7B),
    "float": (0x3F800000, 0x7F7FFFFF),
    "double": (0x3FF0000000000000, 0x7FEFFFFFFFFFFFFF),
}


def identity_bits(dtype: DataType, op: str) -> int:
    """As an unsigned number of the type's width."""
    bits = 8 * dtype.size_bytes
    if op not in ("prod", "max", "min"):
        return 0
    if dtype.name in FLOATS:
        one, largest = FLOATS[dtype.name]
        lowest = largest | 1 << bits - 1
    elif dtype.name[0] == "u":
        one, lowest, largest = 1, 0, (1 << bits) - 1
    else:
        one, lowest, largest = 1, 1 << bits - 1, (1 << bits - 1) - 1
    return {"prod": one, "max": lowest, "min": largest}[op]
