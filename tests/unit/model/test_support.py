from __future__ import annotations

import pytest

from busbw.model.collective import COLLECTIVES, Collective
from busbw.model.datatype import DATA_TYPES, DataType
from busbw.model.support import unsupported


@pytest.mark.parametrize("row", COLLECTIVES, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", DATA_TYPES, ids=lambda row: row.name)
def test_only_reductions_of_16_bit_integers_on_nccl_are_known_not_to_exist(
    row: Collective, dtype: DataType
) -> None:
    assert not unsupported("mpi", row, dtype)
    assert not unsupported("null", row, dtype)
    reason = unsupported("nccl", row, dtype)
    assert bool(reason) is (row.reducing and dtype.name in ("int16", "uint16"))
    assert not reason or "16-bit integers" in reason
