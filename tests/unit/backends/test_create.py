from __future__ import annotations

import pytest

from busbw.backends import create
from busbw.backends.null import NullBackend
from busbw.errors import SiteError
from busbw.model.plan import Plan
from busbw.planning.make import make_plan
from busbw.settings.run import RunSettings
from busbw.world.solo import SoloWorld


def plan(backend: str, datatype: str = "float", largest: str = "1K") -> Plan:
    return make_plan(("all_reduce",), RunSettings(maxbytes=largest, datatype=datatype), backend, 1)


def test_null() -> None:
    assert isinstance(create.create(plan("null"), SoloWorld()), NullBackend)


def test_cpu_ranks_need_an_mpi_world() -> None:
    with pytest.raises(SiteError, match="CPU ranks communicate over MPI") as refused:
        create.create(plan("mpi"), SoloWorld())
    assert "mpirun" in refused.value.hint


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(SiteError, match="'gloo'"):
        create.create(plan("gloo"), SoloWorld())


def test_too_large_buffers_are_refused_before_anything_is_allocated() -> None:
    with pytest.raises(SiteError, match="too little memory"):
        create.preflight(plan("mpi", largest="64T"), SoloWorld())


def test_only_host_memory_is_judged_here() -> None:
    create.preflight(plan("nccl", "half", largest="64T"), SoloWorld())
