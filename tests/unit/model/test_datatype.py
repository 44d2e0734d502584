from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.model.datatype import REDUCE_OPS, data_type, reduce_op


def test_numbers_are_those_of_nccl() -> None:
    """ncclDataType_t of NCCL 2.x, in its order."""
    names = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16")
    found = [data_type(name) for name in (*names, "f8e4m3", "f8e5m2")]
    assert [each.number for each in found] == list(range(12))
    assert [each.size_bytes for each in found] == [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]


@pytest.mark.parametrize(("alias", "name"), [("int", "int32"), ("bf16", "bfloat16"), ("fp8", "f8e4m3")])
def test_aliases(alias: str, name: str) -> None:
    assert data_type(alias).name == name


def test_reductions_are_numbered_as_in_nccl() -> None:
    names = ["sum", "prod", "max", "min", "avg", "mulsum"]
    assert [(op.name, op.number) for op in REDUCE_OPS] == [(name, at) for at, name in enumerate(names)]
    assert reduce_op("premulsum").name == "mulsum"


@pytest.mark.parametrize("lookup", [data_type, reduce_op])
def test_unknown_names_are_refused_with_the_known_ones(lookup: object) -> None:
    with pytest.raises(UsageError, match="'median'") as refused:
        lookup("median")  # type: ignore[operator]
    assert "use one of: " in refused.value.hint
