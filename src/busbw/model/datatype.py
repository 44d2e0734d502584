"""Element types and reduction operations, numbered as ``native/core_api.h`` and NCCL number them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.errors import UnknownWord


@dataclass(frozen=True)
class DataType:
    """An element type. ``number`` is ncclDataType_t where NCCL has the type; 16-bit integers follow after."""

    name: str
    number: int
    size_bytes: int
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReduceOp:
    """A reduction. ``number`` is ncclRedOp_t; mulsum (every rank's data times its scalar, summed), which NCCL
    makes at run time, follows after.
    """

    name: str
    number: int
    aliases: tuple[str, ...] = ()


DATA_TYPES: Final = (
    DataType("int8", 0, 1),
    DataType("uint8", 1, 1),
    DataType("int32", 2, 4, ("int",)),
    DataType("uint32", 3, 4),
    DataType("int64", 4, 8),
    DataType("uint64", 5, 8),
    DataType("half", 6, 2, ("float16", "fp16")),
    DataType("float", 7, 4, ("float32", "fp32")),
    DataType("double", 8, 8, ("float64", "fp64")),
    DataType("bfloat16", 9, 2, ("bf16",)),
    # OCP 8-bit floats; nccom-test calls the first fp8 and fp8e4.
    DataType("f8e4m3", 10, 1, ("fp8", "fp8e4", "float8_e4m3")),
    DataType("f8e5m2", 11, 1, ("fp8e5", "float8_e5m2")),
    DataType("int16", 12, 2),
    DataType("uint16", 13, 2),
)

REDUCE_OPS: Final = (
    ReduceOp("sum", 0),
    ReduceOp("prod", 1),
    ReduceOp("max", 2),
    ReduceOp("min", 3),
    ReduceOp("avg", 4),
    ReduceOp("mulsum", 5, ("premulsum",)),
)


def data_type(name: str) -> DataType:
    """Look a type up by name or alias. Raises UsageError naming all of them."""
    for row in DATA_TYPES:
        if name in (row.name, *row.aliases):
            return row
    known = ", ".join(row.name for row in DATA_TYPES)
    words = (word for row in DATA_TYPES for word in (row.name, *row.aliases))
    raise UnknownWord(f"unknown type {name!r}", name, words, hint=f"use one of: {known}")


def reduce_op(name: str) -> ReduceOp:
    """Look a reduction up by name. Raises UsageError naming all of them."""
    for row in REDUCE_OPS:
        if name in (row.name, *row.aliases):
            return row
    words = [row.name for row in REDUCE_OPS]
    hint = f"use one of: {', '.join(words)}; an operation needs no flag: `busbw run all_reduce`"
    raise UnknownWord(f"unknown reduction {name!r}", name, words, hint=hint)
