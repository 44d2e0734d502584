from __future__ import annotations

import pytest

from busbw.errors import SiteError
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import DataTypes, Size
from busbw.plan.make import make_plan
from busbw.rank.backends import create
from busbw.rank.world.select import SoloWorld


def plan(backend: str, datatype: str = "float", largest: str = "1K") -> Plan:
    return make_plan(
        ("all_reduce",), RunSettings(maxbytes=Size(largest), datatype=DataTypes(datatype)), backend, 1
    )


def test_cpu_ranks_need_an_mpi_world() -> None:
    with pytest.raises(SiteError, match="CPU ranks communicate over MPI") as refused:
        create.create(plan("mpi"), SoloWorld())
    assert "mpirun" in refused.value.hint
