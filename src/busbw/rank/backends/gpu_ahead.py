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


class _Ahead:
    """What the thread leaves. ``nvml`` stays open: to open it again then costs nothing."""

    def __init__(self, local_rank: int) -> None:
        self.module = 0
        self.nvml: Nvml | None = None
        self._local_rank = local_rank
        self._thread = threading.Thread(target=self._prepare, name="busbw-gpu", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def _prepare(self) -> None:
        # What fails here fails again where it is needed, and is reported there.
        with contextlib.suppress(SiteError):
            from busbw.machine.native.cuda import CudaDriver

            driver = CudaDriver()
            driver.init()
            ordinal = driver.own_ordinal(self._local_rank)
            driver.set_current_context(driver.primary_context_retain(driver.device(ordinal)))
            self.module = load_kernels(driver)
        from busbw.machine.native.nvml import open_nvml

        self.nvml = open_nvml()


_begun: list[_Ahead] = []


def begin(local_rank: int) -> None:
    """Begin with the GPU that rank ``local_rank`` of this host takes."""
    _begun.append(_Ahead(local_rank))


def kernels(driver: CudaDriver) -> int:
    """The module of the fill and check kernels, in the current context: that of this rank's GPU."""
    if _begun:
        _begun[0].wait()
        if _begun[0].module:
            return _begun[0].module
    return load_kernels(driver)


def load_kernels(driver: CudaDriver) -> int:
    """Load the module into the current context."""
    from busbw.machine.native.cuda import DEVICE_CODE_PATH

    return driver.module_load(DEVICE_CODE_PATH.read_bytes() + b"\0")
