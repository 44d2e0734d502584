"""A rank's GPU made ready by a thread of its own, while the rank still imports numpy and joins its world: the
driver, the GPU's context, NVML, and the kernels that fill and check, which the driver compiles.

Together they take up to a second of waiting for the driver, and need nothing that rank 0 has to say.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from busbw.errors import SiteError

if TYPE_CHECKING:
    from busbw.machine.native.cuda import CudaDriver
    from busbw.machine.native.nvml import Nvml


_threads: list[threading.Thread] = []
_modules: list[int] = []
_opened: list[Nvml | None] = []  # stays open: to open it again then costs nothing


def begin(local_rank: int) -> None:
    """Begin with the GPU that rank ``local_rank`` of this host takes."""
    thread = threading.Thread(target=_prepare, args=(local_rank,), name="busbw-gpu", daemon=True)
    _threads.append(thread)
    thread.start()


def _prepare(local_rank: int) -> None:
    # What fails here fails again where it is needed, and is reported there.
    with contextlib.suppress(SiteError):
        from busbw.machine.native.cuda import CudaDriver

        driver = CudaDriver()
        driver.init()
        ordinal = driver.own_ordinal(local_rank)
        driver.set_current_context(driver.primary_context_retain(driver.device(ordinal)))
        _modules.append(load_kernels(driver))
    from busbw.machine.native.nvml import open_nvml

    _opened.append(open_nvml())


def kernels(driver: CudaDriver) -> int:
    """The module of the fill and check kernels, in the current context: that of this rank's GPU."""
    for thread in _threads:
        thread.join()
    return _modules[0] if _modules else load_kernels(driver)


def load_kernels(driver: CudaDriver) -> int:
    """Load the module into the current context."""
    from busbw.machine.native.cuda import DEVICE_CODE_PATH

    return driver.module_load(DEVICE_CODE_PATH.read_bytes() + b"\0")
