from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.errors import SiteError
from busbw.machine.native.cuda import CUDA_ERROR_NO_DEVICE, CudaDriver, CudaError

BuildLibrary = Callable[..., Path]


@pytest.fixture
def driver(build_library: BuildLibrary) -> CudaDriver:
    driver = CudaDriver(str(build_library("cuda")))
    driver.init()
    return driver


def test_library_without_the_functions_names_the_first_missing_one(build_library: BuildLibrary) -> None:
    with pytest.raises(SiteError, match="lacks cuInit"):
        CudaDriver(str(build_library("nccl", "VERSION=22809")))


def test_failure_carries_code_name_and_text(build_library: BuildLibrary) -> None:
    driver = CudaDriver(str(build_library("cuda", "INIT_CODE=100")))
    with pytest.raises(CudaError) as caught:
        driver.init()
    assert caught.value.code == CUDA_ERROR_NO_DEVICE
    assert caught.value.message == (
        "cuInit failed: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
    )
    assert "CUDA_VISIBLE_DEVICES" in caught.value.hint


def test_memory_goes_both_ways(driver: CudaDriver) -> None:
    address, stream = driver.mem_alloc(16), driver.stream_create()
    driver.memset(address, 7, 16, stream)
    driver.memset(address, 9, 4, stream)
    host = (ctypes.c_ubyte * 16)()
    driver.copy_to_host(ctypes.addressof(host), address, 16)
    assert bytes(host) == b"\x89" * 4 + b"\x87" * 12
    driver.copy_to_device(address + 8, ctypes.addressof(host), 2)
    driver.copy_to_host(ctypes.addressof(host), address, 16)
    assert bytes(host[8:11]) == b"\x89\x89\x87"
    driver.mem_free(address)


def test_memory_of_other_kinds(driver: CudaDriver) -> None:
    driver.mem_free(driver.mem_alloc_managed(16))
    host = driver.host_alloc(16)
    assert driver.host_device_address(host) == host + 16
    driver.host_free(host)


def test_capture_ends_in_something_that_can_be_launched(
    driver: CudaDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "asked"))
    driver.stream_begin_capture(driver.stream_create())
    graph = driver.stream_end_capture(0x200)
    executable = driver.graph_instantiate(graph)
    driver.graph_destroy(graph)
    driver.graph_exec_destroy(executable)
    lines = (tmp_path / "asked").read_text().split()
    assert lines == [
        "BeginCapture", "1", "EndCapture", "GraphInstantiate", str(executable), "GraphDestroy",
        "GraphExecDestroy", str(executable),
    ]  # fmt: skip


def test_too_much_memory_hints_at_the_size(driver: CudaDriver) -> None:
    with pytest.raises(CudaError, match="CUDA_ERROR_OUT_OF_MEMORY") as caught:
        driver.mem_alloc(1 << 40)
    assert "-e" in caught.value.hint


def test_launch_passes_every_argument_by_address(driver: CudaDriver) -> None:
    class Terms(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int32))

    total = ctypes.c_int32(1)
    function = driver.module_function(driver.module_load(b".version 7.8"), "add")
    arguments = [ctypes.c_void_p(ctypes.addressof(total)), Terms(2, 3)]
    driver.launch(function, (2, 3, 1), (4, 1, 1), driver.stream_create(), arguments, shared_bytes=64)
    assert total.value == 1 + 5 * 24
