"""The native core's work beside a collective: pieces that a thread does or launches until it is stopped."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from busbw.machine.native.core import CallError, Stream, exported


class HostLoad(ctypes.Structure):
    """See BusbwHostLoad."""

    _fields_ = (
        ("piece", ctypes.c_uint64),
        ("memory", ctypes.c_void_p),
        ("memory_bytes", ctypes.c_uint64),
        ("busy_share", ctypes.c_double),
    )


class DeviceLoad(ctypes.Structure):
    """See BusbwDeviceLoad."""

    _fields_ = (
        ("stream", Stream),
        ("call", ctypes.c_void_p),
        ("depth", ctypes.c_uint64),
        ("pause_ns", ctypes.c_int64),
    )


class LoadDone(ctypes.Structure):
    """See BusbwLoadDone."""

    _fields_ = (("pieces", ctypes.c_uint64), ("at_ns", ctypes.c_int64))


_FUNCTIONS = {
    spec: exported(name, ctypes.c_int32, ctypes.POINTER(spec), ctypes.c_void_p, ctypes.c_void_p)
    for spec, name in ((HostLoad, "busbw_load_host"), (DeviceLoad, "busbw_load_device"))
}


class Worker:
    """A thread that does the pieces of a load while a ``with`` lasts, without Python's lock. At its end the
    pieces under way end too. Raises CallError of what failed meanwhile.

    Between two it waits: to start a thread anew each time would disturb what is measured beside it.
    """

    def __init__(self, spec: HostLoad | DeviceLoad, begin: Callable[[], None] = lambda: None) -> None:
        """``begin`` is called first by the thread."""
        self._spec, self._begin = spec, begin
        self._function = _FUNCTIONS[type(spec)]
        self._stop, self._done = ctypes.c_int32(), LoadDone()
        self._status = 0
        self._wanted, self._ended = threading.Semaphore(0), threading.Event()
        self._thread = threading.Thread(target=self._run, name="busbw-load", daemon=True)

    @property
    def done(self) -> tuple[int, int]:
        """How many pieces have ended, and when the last of them had, in ns."""
        return self._done.pieces, self._done.at_ns

    def __enter__(self) -> None:
        self._stop.value, self._done.pieces = 0, 0
        self._ended.clear()
        if self._thread.ident is None:
            self._thread.start()
        self._wanted.release()

    def __exit__(self, *raised: object) -> None:
        self._stop.value = 1
        self._ended.wait()
        if self._status:
            raise CallError(self._status)

    @property
    def is_running(self) -> bool:
        """False once a piece has failed, too."""
        return self._thread.ident is not None and not self._ended.is_set()

    def _run(self) -> None:
        self._begin()
        while self._wanted.acquire():
            self._status = self._function(
                ctypes.byref(self._spec), ctypes.addressof(self._stop), ctypes.addressof(self._done)
            )
            self._ended.set()
