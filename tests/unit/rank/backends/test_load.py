"""Load on this machine's cores, and on a GPU that is a stand-in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from busbw.errors import SiteError
from busbw.machine.native.core import CallError
from busbw.machine.native.cuda import CudaDriver
from busbw.model.neighbour import Neighbour
from busbw.rank.backends.load import device_load, host_load

PREPARED: Any = "the case"
LOOK_S = 0.2


@pytest.fixture
def on_gpu(build_stand_in: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    log = tmp_path / "asked"
    log.touch()
    monkeypatch.setenv("STAND_IN_LOG", str(log))
    monkeypatch.setenv("STAND_IN_TIMED", "1")  # contexts of any GPU
    driver = CudaDriver(build_stand_in("cuda", "STREAMS"))
    driver.init()
    return partial(device_load, driver=driver, device=0)


@pytest.mark.parametrize(("what", "unit"), [("compute", "GFLOP/s"), ("memory", "GB/s")])
def test_a_thread_works_until_it_is_stopped(what: str, unit: str) -> None:
    load = host_load(Neighbour(what, what))
    assert load.by_itself(LOOK_S) > 0
    assert load.unit == unit
    done = load.worker.done
    assert not load.worker.is_running
    assert done == load.worker.done  # nothing goes on


def test_a_share_of_nothing_does_nothing() -> None:
    assert host_load(Neighbour("compute:share=0", "compute", share=0.0)).by_itself(LOOK_S) == 0


def test_launches_are_counted_as_they_end(on_gpu: Any) -> None:
    load = on_gpu(Neighbour("compute:sms=100", "compute", sms=100))
    assert load.by_itself(LOOK_S) > 0
    assert load.how.startswith("launches of 100 us on 100 of 132 multiprocessors")
    nothing = on_gpu(Neighbour("compute:share=0", "compute", share=0.0))
    assert nothing.by_itself(LOOK_S) == 0
    assert nothing.worker.done[0] > 0  # launches of no work: the instrument runs all the same


def test_a_launch_that_fails_ends_the_load(on_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = on_gpu(Neighbour("compute", "compute"))
    monkeypatch.setenv("STAND_IN_FAILS", "GraphLaunch")
    with pytest.raises(CallError):
        load.by_itself(LOOK_S)


def test_products_without_cublas_say_what_to_install(on_gpu: Any) -> None:
    with pytest.raises(SiteError, match="no cuBLAS found") as refused:
        on_gpu(Neighbour("gemm", "gemm"))
    assert "--beside compute" in refused.value.hint


def test_more_multiprocessors_than_there_are(on_gpu: Any) -> None:
    with pytest.raises(SiteError, match="has 132 multiprocessors"):
        on_gpu(Neighbour("compute:sms=133", "compute", sms=133))
