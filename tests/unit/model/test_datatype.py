from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.model.datatype import REDUCE_OPS, data_type, reduce_op


@pytest.mark.parametrize(
    ("name", "number", "size_bytes"),
    # ncclDataType_t of NCCL 2.x.
    [
        ("int8", 0, 1),
        ("uint8", 1, 1),
        ("int32", 2, 4),
        ("uint32", 3, 4),
        ("int64", 4, 8),
        ("uint64", 5, 8),
        ("half", 6, 2),
        ("float", 7, 4),
        ("double", 8, 8),
        ("bfloat16", 9, 2),
        ("f8e4m3", 10, 1),
        ("f8e5m2", 11, 1),
    ],
)
def test_numbers_are_those_of_nccl(name: str, number: int, size_bytes: int) -> None:
    assert (data_type(name).number, data_type(name).size_bytes) == (number, size_bytes)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("int", "int32"),
        ("bf16", "bfloat16"),
        ("fp32", "float"),
        ("fp16", "half"),
        ("fp64", "double"),
        ("fp8", "f8e4m3"),
        ("fp8e5", "f8e5m2"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert data_type(alias).name == name


def test_reductions_are_numbered_as_in_nccl() -> None:
    assert [(op.name, op.number) for op in REDUCE_OPS] == [
        ("sum", 0),
        ("prod", 1),
        ("max", 2),
        ("min", 3),
        ("avg", 4),
        ("mulsum", 5),
    ]
    assert reduce_op("premulsum").name == "mulsum"


@pytest.mark.parametrize("lookup", [data_type, reduce_op])
def test_unknown_names_are_refused_with_the_known_ones(lookup: object) -> None:
    with pytest.raises(UsageError, match="'median'") as refused:
        lookup("median")  # type: ignore[operator]
    assert "use one of: " in refused.value.hint
