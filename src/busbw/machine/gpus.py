"""The GPUs that this process may use, from the driver, and their links and clocks, from NVML.

Nothing here makes a CUDA context, which would take half a second and hundreds of megabytes on each GPU.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.errors import SiteError
from busbw.machine.native.cuda import (
    CUDA_ERROR_NO_DEVICE,
    CUDA_ERROR_STUB_LIBRARY,
    DRIVER_LIBRARY,
    CudaDriver,
    CudaError,
)
from busbw.machine.native.nvml import CLOCK_MEMORY, CLOCK_SM, LIBRARY, NvLink, Nvml, nvml_meanwhile
from busbw.machine.sysfs import SYS, numa_node, pcie_gb_per_s
from busbw.units import first_of

_DEV: Final = Path("/dev")
_GPU_NODE: Final = re.compile(r"nvidia\d+")


@dataclass(frozen=True, slots=True)
class GpuPresence:
    """How many GPUs the driver lets this process use, and what stands in the way.

    ``problem`` and ``hint`` are empty when ``count`` can be used. ``broken`` says that there are GPUs, or a
    driver that should have some, and that they cannot be used: then running on the CPU would hide a fault.
    """

    count: int
    cuda_version: str
    problem: str = ""
    hint: str = ""
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One visible GPU. ``ordinal`` is CUDA's, after CUDA_VISIBLE_DEVICES."""

    ordinal: int
    name: str
    uuid: str
    pci: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    numa_node: int | None
    nvlinks: tuple[NvLink, ...]
    nvlink_gb_per_s: float | None  # of one link in one direction, as NVML says
    pcie_gb_per_s: float | None = None  # of its PCIe link in one direction, after its encoding, as sysfs says


@dataclass(frozen=True, slots=True)
class Gpus:
    """All visible GPUs. ``cuda_version`` is the newest that the driver serves; texts are empty if unknown."""

    presence: GpuPresence
    driver_version: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class GpuClocks:
    """Clocks of one GPU now. ``limits`` says what holds them back; None where NVML does not tell."""

    uuid: str
    sm_mhz: int | None
    sm_max_mhz: int | None
    memory_mhz: int | None
    memory_max_mhz: int | None
    limits: tuple[str, ...] | None
    sm_set_mhz: int | None = None  # of applications, as nvidia-smi -ac sets it
    sm_default_mhz: int | None = None


def gpu_presence(*, library: str = DRIVER_LIBRARY, dev: Path = _DEV) -> GpuPresence:
    """Ask the driver, and where there is none, whether the device nodes say that there should be."""
    try:
        driver = CudaDriver(library)
    except SiteError as error:
        nodes = _gpu_nodes(dev)
        problem = f"GPUs exist ({nodes}), but {error.message}" if nodes else error.message
        return GpuPresence(0, "", problem, error.hint, broken=bool(nodes))
    try:
        driver.init()
        count = driver.device_count()
    except CudaError as error:
        # No device: hidden from this process (CUDA_VISIBLE_DEVICES, a job without GPUs), whatever /dev shows.
        # A stub library is for linking only. Anything else is a fault, if there is a GPU that could have it.
        is_fault = error.code not in (CUDA_ERROR_NO_DEVICE, CUDA_ERROR_STUB_LIBRARY)
        broken = is_fault and bool(_gpu_nodes(dev))
        return GpuPresence(0, "", f"no usable GPU: {error.message}", error.hint, broken)
    if count == 0:
        return GpuPresence(0, cuda_version(driver), "no GPU is visible", "check CUDA_VISIBLE_DEVICES")
    return GpuPresence(count, cuda_version(driver))


def ask_ahead() -> None:
    """Begin to initialise the driver in a thread: who asks for the GPUs then waits for the rest."""

    def init() -> None:
        with contextlib.suppress(SiteError):
            CudaDriver().init()

    threading.Thread(target=init, name="busbw-driver", daemon=True).start()


def _gpu_nodes(dev: Path) -> str:
    """Device nodes of NVIDIA GPUs, for a message; empty where there are none."""
    return first_of((str(path) for path in sorted(dev.glob("nvidia*")) if _GPU_NODE.fullmatch(path.name)), 2)


def cuda_version(driver: CudaDriver) -> str:
    """``13.0``: the newest CUDA version that the driver serves."""
    code = driver.driver_version()
    return f"{code // 1000}.{code % 1000 // 10}"


def read_gpus(*, library: str = DRIVER_LIBRARY, nvml_library: str = LIBRARY, sysfs: Path = SYS) -> Gpus:
    """Everything about the visible GPUs; no GPU gives an empty tuple and the presence's reason."""
    presence = gpu_presence(library=library)
    if presence.count == 0:
        return Gpus(presence, "", ())
    driver = CudaDriver(library)
    driver.init()
    with nvml_meanwhile(nvml_library) as nvml:
        found = tuple(_gpu(driver, ordinal, nvml, sysfs) for ordinal in range(presence.count))
        version = nvml.driver_version() if nvml else ""
    return Gpus(presence, version, found)


def _gpu(driver: CudaDriver, ordinal: int, nvml: Nvml | None, sysfs: Path) -> Gpu:
    device = driver.device(ordinal)
    uuid, pci = driver.device_uuid(device), driver.device_pci_bus_id(device)
    of_kernel = sysfs / "bus" / "pci" / "devices" / pci
    handle = nvml.device(uuid=uuid, pci_bus_id=pci) if nvml else None
    return Gpu(
        ordinal=ordinal,
        name=driver.device_name(device),
        uuid=uuid,
        pci=pci,
        memory_bytes=driver.device_memory_bytes(device),
        compute_capability=driver.compute_capability(device),
        numa_node=numa_node(of_kernel),
        nvlinks=nvml.nvlinks(handle) if nvml and handle else (),
        nvlink_gb_per_s=nvml.nvlink_gb_per_s(handle) if nvml and handle else None,
        pcie_gb_per_s=pcie_gb_per_s(of_kernel),
    )


def read_own_gpu(local_rank: int) -> tuple[Gpu | None, str]:
    """The GPU that a rank takes, and the driver's version; None and empty where it has none."""
    try:
        driver = CudaDriver()
        driver.init()
        ordinal = driver.own_ordinal(local_rank)
    except SiteError:
        return None, ""
    with nvml_meanwhile() as nvml:
        return _gpu(driver, ordinal, nvml, SYS), nvml.driver_version() if nvml else ""


def read_clocks(uuids: tuple[str, ...], *, nvml_library: str = LIBRARY) -> tuple[GpuClocks, ...]:
    """Clocks and what limits them, of the GPUs with these UUIDs; empty without NVML. About 0.1 ms a GPU."""
    with nvml_meanwhile(nvml_library) as nvml:
        return () if nvml is None else tuple(_clocks(nvml, uuids))


def _clocks(nvml: Nvml, uuids: tuple[str, ...]) -> Iterator[GpuClocks]:
    for uuid in uuids:
        handle = nvml.device(uuid=uuid)
        if handle is not None:
            yield GpuClocks(
                uuid=uuid,
                sm_mhz=nvml.clock_mhz(handle, CLOCK_SM),
                sm_max_mhz=nvml.max_clock_mhz(handle, CLOCK_SM),
                memory_mhz=nvml.clock_mhz(handle, CLOCK_MEMORY),
                memory_max_mhz=nvml.max_clock_mhz(handle, CLOCK_MEMORY),
                limits=nvml.clock_limits(handle),
                sm_set_mhz=nvml.applications_clock_mhz(handle, CLOCK_SM),
                sm_default_mhz=nvml.default_clock_mhz(handle, CLOCK_SM),
            )


# ---- how fast a GPU exchanges memory with its host ---------------------------------------------------

_COPY_BYTES: Final = 256 << 20  # some milliseconds at PCIe rates: the clock and the call do not count
_ROUNDS: Final = 5


def copy_rates(local_rank: int) -> dict[str, float]:
    """``from host to GPU`` and ``from GPU to host`` in GB/s, the best of some rounds of page-locked copies
    by the driver, one after the other, for the GPU that a rank takes. Takes 256 MiB on both sides meanwhile.
    Raises SiteError with the words of the driver.
    """
    driver = CudaDriver()
    driver.init()
    device = driver.device(driver.own_ordinal(local_rank))
    driver.set_current_context(driver.primary_context_retain(device))
    host = driver.host_alloc(_COPY_BYTES)
    gpu = driver.mem_alloc(_COPY_BYTES)
    try:
        return {
            "from host to GPU": _best(driver, lambda: driver.copy_to_device(gpu, host, _COPY_BYTES)),
            "from GPU to host": _best(driver, lambda: driver.copy_to_host(host, gpu, _COPY_BYTES)),
        }
    finally:
        driver.mem_free(gpu)
        driver.host_free(host)
        driver.primary_context_release(device)


def _best(driver: CudaDriver, copy: Callable[[], None]) -> float:
    """Other ranks copy at the same time over the same sockets: the best round is the least disturbed."""
    least_ns = 0
    for _ in range(_ROUNDS):
        start_ns = time.perf_counter_ns()
        copy()
        driver.synchronize()
        took_ns = time.perf_counter_ns() - start_ns
        least_ns = min(least_ns or took_ns, took_ns)
    return _COPY_BYTES / least_ns
