from __future__ import annotations

from itertools import product

from busbw.model.collective import COLLECTIVES, unsupported
from busbw.model.datatype import DATA_TYPES


def test_only_reductions_of_16_bit_integers_on_nccl_are_known_not_to_exist() -> None:
    for row, dtype in product(COLLECTIVES, DATA_TYPES):
        assert not unsupported("mpi", row, dtype)
        assert not unsupported("null", row, dtype)
        reason = unsupported("nccl", row, dtype)
        assert bool(reason) is (row.reducing and dtype.name in ("int16", "uint16")), (row.name, dtype.name)
        assert not reason or "16-bit integers" in reason
