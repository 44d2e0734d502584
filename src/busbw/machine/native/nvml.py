"""NVML: names, clocks, throttling and NVLink of GPUs, where ``libnvidia-ml.so.1`` is there.

Everything here is evidence beside a measurement, so absence is data: :func:`open_nvml` returns None where
there is no library, and a query that a GPU or driver does not answer returns None.

Constants and structs are those of ``nvml.h``; fields 91, 138, 139 and 164 were confirmed on H200.
"""

from __future__ import annotations

import ctypes
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_longlong,
    c_ubyte,
    c_uint,
    c_ulonglong,
    c_void_p,
)
from dataclasses import dataclass
from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"

# nvmlClockType_t
CLOCK_SM: Final = 1
CLOCK_MEMORY: Final = 2

# NVML_FI_DEV_*: for nvmlDeviceGetFieldValues.
FIELD_NVLINK_COUNT: Final = 91
FIELD_NVLINK_SPEED_MB_PER_S: Final = 164
FIELD_NVLINK_DATA_TX_KIB: Final = 138
FIELD_NVLINK_DATA_RX_KIB: Final = 139
FIELD_NVLINK_XMIT_BYTES: Final = 202  # NVLink 5
FIELD_NVLINK_RCV_BYTES: Final = 204
SCOPE_ALL_LINKS: Final = 0xFFFFFFFF

MAX_NVLINKS: Final = 36  # NVML_NVLINK_MAX_LINKS of the newest headers; older drivers refuse higher numbers

# nvmlIntNvLinkDeviceType_t
_REMOTE_TYPES: Final[dict[int, str]] = {0: "gpu", 1: "ibmnpu", 2: "nvswitch"}

# nvmlClocksEventReason*: why the clocks are not higher.
_CLOCK_LIMITS: Final[dict[int, str]] = {
    0x001: "idle",
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal",
    0x040: "hw_thermal",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
}

# nvmlGpuFabricState_t: the fabric manager has registered the GPU.
_FABRIC_COMPLETED: Final = 3

_TEXT_BYTES: Final = 96
_handle = c_void_p


class _PciInfo(Structure):
    _fields_ = (
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pci_device_id", c_uint),
        ("pci_subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    )


class _FieldValue(Structure):
    _fields_ = (
        ("field_id", c_uint),
        ("scope_id", c_uint),
        ("timestamp_us", c_longlong),
        ("latency_us", c_longlong),
        ("value_type", c_int),
        ("status", c_int),
        ("value", c_ulonglong),
    )


class _FabricInfo(Structure):
    _fields_ = (("cluster_uuid", c_ubyte * 16), ("status", c_int), ("clique_id", c_uint), ("state", c_ubyte))


_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (POINTER(c_char), c_uint),
    "nvmlDeviceGetHandleByUUID": (c_char_p, POINTER(_handle)),
    "nvmlDeviceGetHandleByPciBusId_v2": (c_char_p, POINTER(_handle)),
    "nvmlDeviceGetClockInfo": (_handle, c_int, POINTER(c_uint)),
    "nvmlDeviceGetMaxClockInfo": (_handle, c_int, POINTER(c_uint)),
    "nvmlDeviceGetApplicationsClock": (_handle, c_int, POINTER(c_uint)),
    "nvmlDeviceGetDefaultApplicationsClock": (_handle, c_int, POINTER(c_uint)),
    "nvmlDeviceGetCurrentClocksEventReasons": (_handle, POINTER(c_ulonglong)),
    "nvmlDeviceGetCurrentClocksThrottleReasons": (_handle, POINTER(c_ulonglong)),
    "nvmlDeviceGetNvLinkState": (_handle, c_uint, POINTER(c_int)),
    "nvmlDeviceGetNvLinkRemoteDeviceType": (_handle, c_uint, POINTER(c_int)),
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": (_handle, c_uint, POINTER(_PciInfo)),
    "nvmlDeviceGetFieldValues": (_handle, c_int, POINTER(_FieldValue)),
    "nvmlDeviceGetGpuFabricInfo": (_handle, POINTER(_FabricInfo)),
}


@dataclass(frozen=True, slots=True)
class NvLink:
    """One link. ``remote`` is gpu, nvswitch, ibmnpu or empty where the driver does not say."""

    link: int
    active: bool
    remote: str
    remote_pci: str


def _number(name: str) -> Callable[..., int | None]:
    """A method that gives the number which the call writes; None where it is not answered."""

    def method(nvml: Nvml, *arguments: int) -> int | None:
        value = c_uint()
        return value.value if nvml._ok(name, *arguments, ctypes.byref(value)) else None

    return method


class Nvml:
    """An initialised NVML. Made by :func:`open_nvml`; device handles are plain ``int``."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._functions = {}
        for name, types in _SIGNATURES.items():
            function = getattr(library, name, None)  # the newest names are absent from older drivers
            if function is not None:
                function.argtypes, function.restype = types, c_int
                self._functions[name] = function

    def _ok(self, name: str, *arguments: Any) -> bool:  # noqa: ANN401 (ctypes values)
        function = self._functions.get(name)
        return function is not None and function(*arguments) == 0

    def close(self) -> None:
        """Undo what open_nvml did."""
        self._ok("nvmlShutdown")

    def driver_version(self) -> str:
        """Version of the kernel driver, for instance ``580.82.07``; empty where NVML does not tell."""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        known = self._ok("nvmlSystemGetDriverVersion", buffer, _TEXT_BYTES)
        return buffer.value.decode(errors="replace") if known else ""

    def device(self, *, uuid: str = "", pci_bus_id: str = "") -> int | None:
        """Handle of the GPU with that UUID (``GPU-...``) or, failing that, PCI bus id."""
        handle = _handle()
        if uuid and self._ok("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle)):
            return handle.value
        if pci_bus_id and self._ok(
            "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.encode(), ctypes.byref(handle)
        ):
            return handle.value
        return None

    # Of a device's CLOCK_SM or CLOCK_MEMORY, in MHz.
    clock_mhz = _number("nvmlDeviceGetClockInfo")
    max_clock_mhz = _number("nvmlDeviceGetMaxClockInfo")
    applications_clock_mhz = _number("nvmlDeviceGetApplicationsClock")  # as `nvidia-smi -ac` sets it
    default_clock_mhz = _number("nvmlDeviceGetDefaultApplicationsClock")  # of applications

    def clock_limits(self, device: int) -> tuple[str, ...] | None:
        """Why the clocks are not higher now (nvmlClocksEventReasons); empty: nothing holds them back. A bit
        that we do not know is shown in hexadecimal.
        """
        reasons = self.clock_limit_bits(device)
        if reasons is None:
            return None
        bits = (1 << bit for bit in range(reasons.bit_length()) if reasons >> bit & 1)
        return tuple(_CLOCK_LIMITS.get(bit, hex(bit)) for bit in bits)

    def clock_limit_bits(self, device: int) -> int | None:
        """The same as NVML's bits."""
        reasons = c_ulonglong()
        # The second name is what drivers before 535 call it.
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if self._ok(name, device, ctypes.byref(reasons)):
                return reasons.value
        return None

    def nvlinks(self, device: int) -> tuple[NvLink, ...]:
        """Every NVLink that the GPU answers for; empty where it has none."""
        count = self.field(device, FIELD_NVLINK_COUNT)
        links = (self._nvlink(device, link) for link in range(MAX_NVLINKS if count is None else count))
        return tuple(link for link in links if link is not None)

    def nvlink_gb_per_s(self, device: int) -> float | None:
        """What one of its NVLinks carries in one direction."""
        speed_mb_per_s = self.field(device, FIELD_NVLINK_SPEED_MB_PER_S)
        return speed_mb_per_s / 1000 if speed_mb_per_s else None

    def _nvlink(self, device: int, link: int) -> NvLink | None:
        state, kind, pci = c_int(), c_int(), _PciInfo()
        if not self._ok("nvmlDeviceGetNvLinkState", device, link, ctypes.byref(state)):
            return None
        remote = remote_pci = ""
        if self._ok("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, ctypes.byref(kind)):
            remote = _REMOTE_TYPES.get(kind.value, "")
        if self._ok("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, ctypes.byref(pci)):
            remote_pci = pci.bus_id.decode(errors="replace").lower()
            # What a virtual machine that cannot see the switch gets: every field at its highest.
            remote_pci = "" if remote_pci.startswith("ffffffff") else remote_pci
        return NvLink(link, bool(state.value), remote, remote_pci)

    def fabric(self, device: int) -> tuple[str, int] | None:
        """(cluster UUID, clique id) of the NVLink domain over hosts that the GPU is in; None without one."""
        info = _FabricInfo()
        if not self._ok("nvmlDeviceGetGpuFabricInfo", device, ctypes.byref(info)):
            return None
        identity = uuid.UUID(bytes=bytes(info.cluster_uuid))
        if info.state != _FABRIC_COMPLETED or info.status or not identity.int:
            return None
        return str(identity), info.clique_id

    def field(self, device: int, field_id: int, scope: int = 0) -> int | None:
        """One NVML_FI_DEV_* value of an integer type; scope is the link, or SCOPE_ALL_LINKS."""
        value = _FieldValue(field_id=field_id, scope_id=scope)
        if not self._ok("nvmlDeviceGetFieldValues", device, 1, ctypes.byref(value)) or value.status:
            return None
        # Integers of every width are in the low bytes of the union, zero-extended by the zero it started as.
        return int(value.value)


def open_nvml(path: str = LIBRARY) -> Nvml | None:
    """NVML, initialised; None where there is no library or no driver behind it. Close it after use."""
    try:
        nvml = Nvml(ctypes.CDLL(path))
    except OSError:
        return None
    return nvml if nvml._ok("nvmlInit_v2") else None


@contextmanager
def nvml_meanwhile(path: str = LIBRARY) -> Iterator[Nvml | None]:
    """As ``open_nvml``, closed behind the block."""
    nvml = open_nvml(path)
    try:
        yield nvml
    finally:
        if nvml is not None:
            nvml.close()
