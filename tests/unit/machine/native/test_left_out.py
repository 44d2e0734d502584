"""avg where a rank takes no part and the mean is over the others: the sum's data alone would hide a rank
whose value is the mean.
"""

from __future__ import annotations

import numpy as np
import pytest

from busbw.machine.native import core
from busbw.model.collective import Holds
from busbw.model.datatype import data_type

ELEMENTS = 2**14
AVG = 4


def held(name: str, ranks: int, rank: int, holds: Holds, seed: int) -> np.ndarray:
    out = np.zeros(ELEMENTS, name)
    pattern = core.pattern(seed, ranks, data_type(name).number, AVG)
    core.fill(out.ctypes.data, pattern, core.Region(0, ELEMENTS, 0, holds, rank))
    return out


@pytest.mark.parametrize("ranks", [3, 4, 5, 6, 7, 8, 16, 17, 63])
@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers(name: str, ranks: int) -> None:
    brought = [held(name, ranks, rank, Holds.CONTRIBUTION, 5).astype(object) for rank in range(ranks)]
    total = sum(brought)
    expected = held(name, ranks, 0, Holds.REDUCED, 5).astype(object)
    assert (total // ranks == expected).all()
    for rank in range(ranks):
        assert ((total - brought[rank]) // (ranks - 1) != expected).mean() > 0.1


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_floats_of_a_power_of_two(name: str, ranks: int) -> None:
    brought = [held(name, ranks, rank, Holds.CONTRIBUTION, 5) for rank in range(ranks)]
    total = np.sum(brought, axis=0)
    expected = held(name, ranks, 0, Holds.REDUCED, 5)
    for rank in range(ranks):
        assert ((total - brought[rank]) / (ranks - 1) != expected).mean() > 0.1
