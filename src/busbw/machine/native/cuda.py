"""The CUDA driver's set-up calls: devices, memory, streams, events, modules, launches.

Only what prepares a measurement goes through here. The timing loop calls the driver from C++, by the
addresses that :meth:`CudaDriver.address` hands out. Only ``libcuda.so.1`` is needed, no toolkit; names and
argument types are those of the CUDA driver API reference (the ``_v2`` symbols are what ``cuda.h`` maps the
plain names to).

Handles (context, stream, event, module, function) and device addresses are plain ``int`` on the Python side.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from busbw.errors import SiteError

DRIVER_LIBRARY: Final = "libcuda.so.1"
# Our kernels, as text that the driver compiles.
DEVICE_CODE_PATH: Final = Path(__file__).with_name("pattern_device.ptx")

# CUresult (cuda.h): the codes that callers tell apart.
CUDA_ERROR_OUT_OF_MEMORY: Final = 2
CUDA_ERROR_STUB_LIBRARY: Final = 34
CUDA_ERROR_NO_DEVICE: Final = 100

# CUdevice_attribute (cuda.h).
ATTRIBUTE_MULTIPROCESSOR_COUNT: Final = 16
ATTRIBUTE_CAN_MAP_HOST_MEMORY: Final = 19
ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: Final = 75
ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: Final = 76
ATTRIBUTE_MANAGED_MEMORY: Final = 83
ATTRIBUTE_MOST_SHARED_MEMORY: Final = 97  # of a block that asks for it

_STREAM_NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING: never waits for the legacy default stream
_FUNCTION_DYNAMIC_SHARED: Final = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MEM_ATTACH_GLOBAL: Final = 1  # CU_MEM_ATTACH_GLOBAL: managed memory that every stream may use
_HOST_PORTABLE_AND_MAPPED: Final = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
# CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: what NCCL's own threads do meanwhile does not spoil the capture.
_CAPTURE_THREAD_LOCAL: Final = 1
_TEXT_BYTES: Final = 256

_device_address = c_uint64  # CUdeviceptr
_handle = c_void_p

# Every call that this class makes. All return CUresult.
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (POINTER(c_char), c_int, c_int),
    "cuDeviceGetUuid": (POINTER(c_ubyte * 16), c_int),
    "cuDeviceGetPCIBusId": (POINTER(c_char), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(_handle), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (_handle,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(_device_address), c_size_t),
    "cuMemFree_v2": (_device_address,),
    "cuMemAllocManaged": (POINTER(_device_address), c_size_t, c_uint),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemHostGetDevicePointer_v2": (POINTER(_device_address), c_void_p, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemsetD8Async": (_device_address, c_ubyte, c_size_t, _handle),
    "cuMemcpyDtoH_v2": (c_void_p, _device_address, c_size_t),
    "cuMemcpyHtoD_v2": (_device_address, c_void_p, c_size_t),
    "cuStreamCreate": (POINTER(_handle), c_uint),
    "cuStreamSynchronize": (_handle,),
    "cuStreamDestroy_v2": (_handle,),
    "cuStreamBeginCapture_v2": (_handle, c_int),
    "cuStreamEndCapture": (_handle, POINTER(_handle)),
    "cuGraphInstantiateWithFlags": (POINTER(_handle), _handle, c_uint64),
    "cuGraphDestroy": (_handle,),
    "cuGraphExecDestroy": (_handle,),
    "cuEventCreate": (POINTER(_handle), c_uint),
    "cuModuleLoadData": (POINTER(_handle), c_char_p),
    "cuModuleGetFunction": (POINTER(_handle), _handle, c_char_p),
    "cuFuncSetAttribute": (_handle, c_int, c_int),
    "cuLaunchKernel": (_handle, *(c_uint,) * 7, _handle, POINTER(c_void_p), POINTER(c_void_p)),
}

_HINTS: Final[dict[int, str]] = {
    CUDA_ERROR_OUT_OF_MEMORY: "lower the largest size (-e), or end other processes on this GPU (nvidia-smi)",
    CUDA_ERROR_NO_DEVICE: "check CUDA_VISIBLE_DEVICES, and that this job or container has GPUs",
    222: "update the NVIDIA driver: it is too old for this PTX",  # UNSUPPORTED_PTX_VERSION
    802: "start nvidia-fabricmanager: the NVSwitch fabric is not up yet",  # SYSTEM_NOT_READY
    803: "give libcuda and the kernel module one version (reboot after an update)",  # SYSTEM_DRIVER_MISMATCH
}


class CudaError(SiteError):
    """A driver call failed; ``code`` is its CUresult and ``function`` the call."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function} failed: {text}", hint=_HINTS.get(code, ""))
        self.function = function
        self.code = code


def _does(name: str, *fixed: int) -> Callable[..., None]:
    """A method that makes the call with its own arguments, and then these."""
    return lambda self, *own: self._call(name, *own, *fixed)


def _new(name: str, *fixed: int) -> Callable[..., int]:
    """Likewise: a method that gives what the call writes to its first argument."""
    return lambda self, *own: self._made(name, *own, *fixed)


class CudaDriver:
    """A loaded libcuda. Calls raise :class:`CudaError`; nothing is initialised until :meth:`init`.

    Raises SiteError when the library cannot be loaded or lacks a function.
    """

    def __init__(self, path: str = DRIVER_LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            missing = str(error).startswith(f"{path}: ") and "No such file" in str(error)
            raise SiteError(
                f"no NVIDIA driver: {path} not found" if missing else f"no NVIDIA driver: {error}",
                hint="run on a machine with an NVIDIA driver; in a container, mount it (--gpus all, --nv)",
            ) from error
        self.path = path
        self._functions = {name: self._declare(name, types) for name, types in _SIGNATURES.items()}
        self._error_name = self._declare("cuGetErrorName", (c_int, POINTER(c_char_p)))
        self._error_string = self._declare("cuGetErrorString", (c_int, POINTER(c_char_p)))

    def _declare(self, name: str, argument_types: tuple[Any, ...]) -> Any:  # noqa: ANN401 (ctypes pointer)
        function = self._exported(name)
        function.argtypes = argument_types
        function.restype = c_int
        return function

    def _exported(self, name: str) -> Any:  # noqa: ANN401 (ctypes pointer)
        try:
            return getattr(self._library, name)
        except AttributeError as error:
            raise SiteError(
                f"the NVIDIA driver at {self.path} lacks {name}", hint="update the NVIDIA driver"
            ) from error

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 (ctypes values)
        code = self._functions[name](*arguments)
        if code:
            raise CudaError(name, code, self.error_text(code))

    def error_text(self, code: int) -> str:
        """``CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected``."""
        name, text = c_char_p(), c_char_p()
        self._error_name(code, ctypes.byref(name))
        self._error_string(code, ctypes.byref(text))
        return f"{(name.value or b'CUDA error').decode()} ({code}): {(text.value or b'unknown').decode()}"

    def address(self, name: str) -> int:
        """Address of a driver function, for the native loop."""
        return ctypes.cast(self._exported(name), c_void_p).value or 0

    # ---- devices -----------------------------------------------------------------------------------

    init = _does("cuInit", 0)  # before any other call; CUDA_ERROR_NO_DEVICE where no GPU is visible
    driver_version = _new("cuDriverGetVersion")  # the newest CUDA that it serves: 13000 is CUDA 13.0
    device_count = _new("cuDeviceGetCount")  # GPUs that this process may use (CUDA_VISIBLE_DEVICES applied)
    device = _new("cuDeviceGet")  # (ordinal): the CUdevice of that visible GPU
    device_memory_bytes = _new("cuDeviceTotalMem_v2")  # (device): all memory of the GPU

    def own_ordinal(self, local_rank: int) -> int:
        """Which visible GPU a rank takes. A launcher that binds shows each rank its own GPU alone, as number
        0. Raises SiteError where there is none for it.
        """
        visible = self.device_count()
        if visible != 1 and local_rank >= visible:
            raise SiteError(
                f"rank {local_rank} of this host has no GPU: {visible} visible",
                hint="start one rank per GPU on each host, or check CUDA_VISIBLE_DEVICES",
            )
        return 0 if visible == 1 else local_rank

    def device_name(self, device: int) -> str:
        """Name of the product, for instance ``NVIDIA H200``."""
        return self._text("cuDeviceGetName", device)

    def device_pci_bus_id(self, device: int) -> str:
        """``0000:1b:00.0``, lower case as in sysfs."""
        return self._text("cuDeviceGetPCIBusId", device).lower()

    def device_uuid(self, device: int) -> str:
        """``GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, as nvidia-smi -L prints it."""
        raw = (c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(raw), device)
        return f"GPU-{UUID(bytes=bytes(raw))}"

    def device_attribute(self, attribute: int, device: int) -> int:
        """A CUdevice_attribute of the device."""
        return self._made("cuDeviceGetAttribute", attribute, device)

    def compute_capability(self, device: int) -> tuple[int, int]:
        """(major, minor), (9, 0) on Hopper."""
        return (
            self.device_attribute(ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            self.device_attribute(ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        )

    # ---- context and memory ------------------------------------------------------------------------

    primary_context_retain = _new("cuDevicePrimaryCtxRetain")  # (device): the CUDA runtime's and NCCL's
    primary_context_release = _does("cuDevicePrimaryCtxRelease_v2")  # (device): undoes one retain
    set_current_context = _does("cuCtxSetCurrent")  # (context): of the calling thread; 0 takes it away
    synchronize = _does("cuCtxSynchronize")  # wait until the current context has nothing left to do
    mem_alloc = _new("cuMemAlloc_v2")  # (size_bytes): device address, aligned to at least 256
    mem_alloc_managed = _new("cuMemAllocManaged", _MEM_ATTACH_GLOBAL)  # pages go to whoever touches them
    mem_free = _does("cuMemFree_v2")  # (address), of either
    host_alloc = _new("cuMemHostAlloc", _HOST_PORTABLE_AND_MAPPED)  # (size_bytes): page-locked, for all GPUs
    host_device_address = _new("cuMemHostGetDevicePointer_v2", 0)  # where the GPU sees a host_alloc's
    host_free = _does("cuMemFreeHost")
    memset = _does("cuMemsetD8Async")  # (address, value 0..255, size_bytes, stream): as work on a stream
    # (host, address, size_bytes): copies and waits, but not for other streams.
    copy_to_host = _does("cuMemcpyDtoH_v2")
    # (address, host, size_bytes): may return before the bytes have arrived there (CUDA's "API synchronization
    # behavior", pageable memory): synchronise before a stream reads them.
    copy_to_device = _does("cuMemcpyHtoD_v2")

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the current context's GPU."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # ---- streams, events, kernels ------------------------------------------------------------------

    stream_create = _new("cuStreamCreate", _STREAM_NON_BLOCKING)
    stream_synchronize = _does("cuStreamSynchronize")  # until it is empty, with no way out if it never is
    stream_destroy = _does("cuStreamDestroy_v2")
    # From now on work for the stream is collected into a graph instead of run.
    stream_begin_capture = _does("cuStreamBeginCapture_v2", _CAPTURE_THREAD_LOCAL)
    graph_instantiate = _new("cuGraphInstantiateWithFlags", 0)  # a CUgraphExec, which needs the graph no more
    graph_destroy = _does("cuGraphDestroy")
    graph_exec_destroy = _does("cuGraphExecDestroy")
    event_create = _new("cuEventCreate", 0)  # one that can tell times
    module_load = _new("cuModuleLoadData")  # of a cubin, or of PTX that the driver compiles (and caches)

    def stream_end_capture(self, stream: int) -> int:
        """The graph (CUgraph) of what was collected. CudaError where something in it cannot be captured."""
        graph = _handle()
        self._call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value or 0

    def module_function(self, module: int, name: str) -> int:
        """The kernel of that name (``extern "C"``) in the module."""
        return self._made("cuModuleGetFunction", module, name.encode())

    def allow_shared(self, function: int, size_bytes: int) -> None:
        """Let blocks of the kernel take so much shared memory, up to ATTRIBUTE_MOST_SHARED_MEMORY."""
        self._call("cuFuncSetAttribute", function, _FUNCTION_DYNAMIC_SHARED, size_bytes)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int,
        args: Sequence[Any],
        *,
        shared_bytes: int = 0,
    ) -> None:
        """Enqueue a kernel. ``args`` are ctypes values (c_void_p, Structure, ...) in the kernel's order.

        The driver copies the arguments before it returns.
        """
        addresses = (c_void_p * len(args))(*(ctypes.addressof(argument) for argument in args))
        self._call("cuLaunchKernel", function, *grid, *block, shared_bytes, stream, addresses, None)

    # ---- shapes of results -------------------------------------------------------------------------

    def _made(self, name: str, *arguments: int | bytes) -> int:
        """What the call writes to its first argument: a number, a handle or an address."""
        value = _SIGNATURES[name][0]._type_()
        self._call(name, ctypes.byref(value), *arguments)
        return value.value or 0

    def _text(self, name: str, device: int) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(name, buffer, _TEXT_BYTES, device)
        return buffer.value.decode(errors="replace")
