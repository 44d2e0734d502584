from __future__ import annotations

import pytest

from busbw._native import core
from busbw.errors import UsageError
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op


@pytest.mark.parametrize(
    ("name", "number", "size_bytes"),
    # ncclDataType_t of NCCL 2.x.
    [("int8", 0, 1), ("int32", 2, 4), ("half", 6, 2), ("float", 7, 4), ("double", 8, 8), ("bfloat16", 9, 2)],
)
def test_numbers_are_those_of_nccl(name: str, number: int, size_bytes: int) -> None:
    assert (data_type(name).number, data_type(name).size_bytes) == (number, size_bytes)


@pytest.mark.parametrize(("alias", "name"), [("int", "int32"), ("bf16", "bfloat16"), ("fp32", "float")])
def test_aliases(alias: str, name: str) -> None:
    assert data_type(alias).name == name


def test_reductions_are_numbered_as_in_nccl() -> None:
    assert [(op.name, op.number) for op in REDUCE_OPS] == [("sum", 0), ("prod", 1), ("max", 2), ("min", 3)]


def test_no_name_is_used_twice() -> None:
    names = [name for row in DATA_TYPES for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("lookup", [data_type, reduce_op])
def test_unknown_names_are_refused_with_the_known_ones(lookup: object) -> None:
    with pytest.raises(UsageError, match="'median'") as refused:
        lookup("median")  # type: ignore[operator]
    assert "use one of: " in refused.value.hint


@pytest.mark.parametrize("dtype", DATA_TYPES, ids=lambda row: row.name)
@pytest.mark.parametrize("op", REDUCE_OPS, ids=lambda row: row.name)
def test_every_type_and_reduction_has_check_data(dtype: object, op: object) -> None:
    pattern = core.pattern(1, 4, dtype.number, op.number)  # type: ignore[attr-defined]
    assert pattern.type_bytes == dtype.size_bytes  # type: ignore[attr-defined]
