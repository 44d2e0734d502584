"""NCCL: which copy is used, its version, and the set-up calls of a communicator.

Collectives are never called from here: the native loop calls them by the addresses from
:meth:`NcclLibrary.address`.

The copy that is measured should be the one that the user's training job runs, so :func:`find_nccl` looks in
this order: the path that the user gave; a copy already mapped into this process (by PyTorch, say); the
``nvidia-nccl`` wheel on ``sys.path``; the environment's own ``lib``; the system (LD_LIBRARY_PATH, the
loader's cache, its default folders). Two different copies in one process have two sets of global state, so
they are refused.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import SiteError
from busbw.machine.loader import CACHE, MAPS, loader_paths, mapped_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LIBRARY: Final = "libnccl.so.2"
MINIMUM_VERSION: Final = 21800  # 2.18: ncclCommSplit, per-communicator configuration
UNIQUE_ID_BYTES: Final = 128  # NCCL_UNIQUE_ID_BYTES
_SPLIT_NO_COLOUR: Final = -1  # NCCL_SPLIT_NOCOLOR
# Where calls first appeared, as ncclGetVersion numbers releases.
REGISTER_VERSION: Final = 21900  # ncclMemAlloc, ncclCommRegister
FLOAT8_VERSION: Final = 22400  # ncclFloat8e4m3, ncclFloat8e5m2
WINDOW_VERSION: Final = 22700  # ncclCommWindowRegister
EXPLICIT_VARIABLE: Final = "BUSBW_NCCL"

_MAPPED_NAME: Final = re.compile(r"libnccl\.so(\.\d+)*$")  # not libnccl-net.so, libnccl-tuner.so
_DEFAULT_FOLDERS: Final = ("/lib64", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/nccl2/lib")
_WINDOW_COLLECTIVE_SYMMETRIC: Final = 1  # NCCL_WIN_COLL_SYMMETRIC
_SCALAR_HOST_IMMEDIATE: Final = 1  # ncclScalarHostImmediate: read before the call returns
_ASK_NCCL: Final = "set NCCL_DEBUG=WARN to see NCCL's own messages"


# ---- which copy --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NcclSearch:
    """The real path of the libnccl to use, empty where there is none, and how it was found: ``explicit``,
    ``mapped``, ``site-packages``, ``environment`` or ``system``. ``looked_at`` are places that held none.
    """

    path: str
    found: str
    looked_at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchPlaces:
    """Where find_nccl looks; the defaults are this process's."""

    environ: Mapping[str, str]
    module_path: Sequence[str]
    prefix: str = sys.prefix
    maps: Path = MAPS
    loader_cache: Path = CACHE
    default_folders: tuple[str, ...] = _DEFAULT_FOLDERS

    @staticmethod
    def here() -> SearchPlaces:
        """Those of the running process."""
        return SearchPlaces(environ=os.environ, module_path=sys.path)


def find_nccl(explicit: str | None = None, places: SearchPlaces | None = None) -> NcclSearch:
    """Look for libnccl without loading anything.

    ``explicit`` (else BUSBW_NCCL) is a path of the library or of its folder. Raises SiteError when that path
    does not exist, and when using the chosen copy would put two different copies into this process.
    """
    places = places or SearchPlaces.here()
    explicit = explicit or places.environ.get(EXPLICIT_VARIABLE) or None
    looked_at: dict[str, None] = {}
    for found, path in _locations(explicit, places):
        if path.is_file() or found == "mapped":
            real = os.path.realpath(path)
            _refuse_two([real, *mapped_nccl(places.maps)])
            return NcclSearch(real, found, tuple(looked_at))
        looked_at[str(path.parent)] = None
    return NcclSearch("", "", tuple(looked_at))


def _locations(explicit: str | None, places: SearchPlaces) -> Iterator[tuple[str, Path]]:
    """Every (how, path) to try, in the order of preference."""
    if explicit is not None:
        yield "explicit", _explicit_path(explicit)
    yield from (("mapped", Path(path)) for path in mapped_nccl(places.maps))
    for entry in places.module_path:
        # The standard library's folders are on the path too; naming them would only lengthen the message.
        if entry.endswith("-packages") or (Path(entry) / "nvidia").is_dir():
            yield "site-packages", Path(entry) / "nvidia" / "nccl" / "lib" / LIBRARY
    yield "environment", Path(places.prefix) / "lib" / LIBRARY
    yield from (("system", path) for path in loader_paths(LIBRARY, places.environ, places.loader_cache))
    yield from (("system", Path(folder) / LIBRARY) for folder in places.default_folders)


def _explicit_path(explicit: str) -> Path:
    path = Path(explicit).expanduser()
    if path.is_dir():
        path = path / LIBRARY
    if not path.is_file():
        raise SiteError(
            f"no libnccl at {path}",
            hint=f"correct --nccl or {EXPLICIT_VARIABLE}, or leave it out to search for one",
        )
    return path


def mapped_nccl(maps: Path = MAPS) -> tuple[str, ...]:
    """Real paths of the libnccl copies mapped into the process, each once."""
    paths = (os.path.realpath(path) for path in mapped_files(maps) if _MAPPED_NAME.search(path))
    return tuple(dict.fromkeys(paths))


def _refuse_two(paths: Iterable[str]) -> None:
    different = list(dict.fromkeys(paths))
    if len(different) > 1:
        raise SiteError(
            f"this process would load two copies of NCCL: {' and '.join(different)}",
            hint=f"unset {EXPLICIT_VARIABLE} (--nccl) to measure the copy that is already loaded, "
            "or do not load the other one",
        )


# ---- version -----------------------------------------------------------------------------------------


def version_text(code: int) -> str:
    """``2.28.9`` of 22809 (nccl.h, from 2.9 on)."""
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"


# ---- the library -------------------------------------------------------------------------------------


class _UniqueId(ctypes.Structure):
    # c_ubyte, since an array of c_char would end at its first zero byte.
    _fields_ = (("internal", c_ubyte * UNIQUE_ID_BYTES),)


_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "ncclGetUniqueId": (POINTER(_UniqueId),),
    "ncclCommInitRank": (POINTER(c_void_p), c_int, _UniqueId, c_int),
    "ncclCommDestroy": (c_void_p,),
    "ncclCommSplit": (c_void_p, c_int, c_int, POINTER(c_void_p), c_void_p),
    "ncclRedOpCreatePreMulSum": (POINTER(c_int), c_void_p, c_int, c_int, c_void_p),
    "ncclRedOpDestroy": (c_int, c_void_p),
}

# Looked up at their first use, since the oldest NCCL that we serve lacks them.
_LATER_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "ncclMemAlloc": (POINTER(c_void_p), c_size_t),
    "ncclMemFree": (c_void_p,),
    "ncclCommRegister": (c_void_p, c_void_p, c_size_t, POINTER(c_void_p)),
    "ncclCommDeregister": (c_void_p, c_void_p),
    "ncclCommWindowRegister": (c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_int),
    "ncclCommWindowDeregister": (c_void_p, c_void_p),
}


class NcclError(SiteError):
    """An NCCL call failed; ``code`` is its ncclResult_t and ``function`` the call."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__(f"{function} failed: {text}", hint=_ASK_NCCL)
        self.function = function
        self.code = code


class NcclLibrary:
    """A loaded libnccl, of a path from ``find_nccl``. Handles (ncclComm_t) are plain ``int``.

    Raises SiteError when it cannot be loaded, is older than 2.18 or lacks a function. Calls raise
    :class:`NcclError`.
    """

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise SiteError(
                f"{path} cannot be loaded: {error}", hint="name another libnccl with --nccl or BUSBW_NCCL"
            ) from error
        self.path = path
        self.version_code = self._read_version()
        self.version = version_text(self.version_code)
        if self.version_code < MINIMUM_VERSION:
            raise SiteError(
                f"NCCL {self.version} at {self.path} is older than {version_text(MINIMUM_VERSION)}",
                hint="install a newer one (pip install nvidia-nccl-cu12), or name it with --nccl",
            )
        self._functions = {name: self._declare(name, types) for name, types in _SIGNATURES.items()}
        self._error_string = self._declare("ncclGetErrorString", (c_int,), c_char_p)
        self._last_error = self._declare("ncclGetLastError", (c_void_p,), c_char_p)

    def _read_version(self) -> int:
        version = c_int()
        code = self._declare("ncclGetVersion", (POINTER(c_int),))(ctypes.byref(version))
        if code:
            raise NcclError("ncclGetVersion", code, f"code {code}")
        return version.value

    def _declare(self, name: str, argument_types: tuple[Any, ...], result: type = c_int) -> Any:  # noqa: ANN401
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise self._lacks(name) from error
        function.argtypes = argument_types
        function.restype = result
        return function

    def _lacks(self, name: str) -> SiteError:
        return SiteError(
            f"NCCL at {self.path} lacks {name}", hint="name a complete libnccl with --nccl or BUSBW_NCCL"
        )

    def _call(self, name: str, *arguments: Any, comm: int = 0) -> None:  # noqa: ANN401 (ctypes values)
        if name not in self._functions:
            self._functions[name] = self._declare(name, _LATER_SIGNATURES[name])
        code = self._functions[name](*arguments)
        if code:
            raise NcclError(name, code, self.error_text(code, comm))

    def _new(self, name: str, *arguments: Any, comm: int = 0) -> int:  # noqa: ANN401 (ctypes values)
        """What the call writes to the one pointer to a value among its arguments, which is left out here."""
        types = _SIGNATURES.get(name) or _LATER_SIGNATURES[name]
        place = next(at for at, kind in enumerate(types) if hasattr(kind, "contents"))
        value = types[place]._type_()
        self._call(name, *arguments[:place], ctypes.byref(value), *arguments[place:], comm=comm)
        return value.value or 0

    def error_text(self, code: int, comm: int = 0) -> str:
        """NCCL's words for a result code, with the last error's details where it kept any."""
        text = (self._error_string(code) or b"unknown").decode(errors="replace")
        detail = (self._last_error(comm or None) or b"").decode(errors="replace").strip()
        return f"{text} (code {code})" + (f": {detail}" if detail else "")

    def has(self, name: str) -> bool:
        """Whether this copy exports the function."""
        return hasattr(self._library, name)

    def address(self, name: str) -> int:
        """Address of an exported function, for the native loop."""
        if not self.has(name):
            raise self._lacks(name)
        return ctypes.cast(getattr(self._library, name), c_void_p).value or 0

    def unique_id(self) -> bytes:
        """128 bytes that name a new communicator; rank 0 makes them, all ranks pass them to comm_init."""
        made = _UniqueId()
        self._call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    def comm_init(self, size: int, unique_id: bytes, rank: int) -> int:
        """A communicator of ``size`` ranks on the current context's GPU; blocks until all have called."""
        return self._new("ncclCommInitRank", size, _UniqueId.from_buffer_copy(unique_id), rank)

    def comm_split(self, comm: int, colour: int | None, key: int) -> int:
        """This rank's part of the communicator (from 2.18): of the ranks with the same ``colour``, in the
        order of their keys; 0 for a rank without one. All ranks of ``comm`` call it.
        """
        wanted = _SPLIT_NO_COLOUR if colour is None else colour
        return self._new("ncclCommSplit", comm, wanted, key, None, comm=comm)

    def comm_destroy(self, comm: int) -> None:
        """Free the communicator; every rank calls it, after its streams are empty."""
        self._call("ncclCommDestroy", comm)

    def mem_alloc(self, size_bytes: int) -> int:
        """Address of new memory of the current context's GPU that can be registered (from 2.19)."""
        return self._new("ncclMemAlloc", size_bytes)

    def mem_free(self, address: int) -> None:
        """Give back what mem_alloc returned."""
        self._call("ncclMemFree", address)

    def comm_register(self, comm: int, address: int, size_bytes: int) -> int:
        """Register a buffer for zero-copy transfers (from 2.19); 0 where NCCL skips it, as with
        NCCL_LOCAL_REGISTER=0.
        """
        return self._new("ncclCommRegister", comm, address, size_bytes, comm=comm)

    def comm_deregister(self, comm: int, handle: int) -> None:
        """Undo comm_register."""
        self._call("ncclCommDeregister", comm, handle, comm=comm)

    def window_register(self, comm: int, address: int, size_bytes: int) -> int:
        """Register memory of mem_alloc as a symmetric window (from 2.27), collectively over the communicator;
        0 where it does not support windows.
        """
        flags = _WINDOW_COLLECTIVE_SYMMETRIC
        return self._new("ncclCommWindowRegister", comm, address, size_bytes, flags, comm=comm)

    def window_deregister(self, comm: int, window: int) -> None:
        """Undo window_register."""
        self._call("ncclCommWindowDeregister", comm, window, comm=comm)

    def premul_sum_create(self, comm: int, scalar: bytes, datatype: int) -> int:
        """A reduction (ncclRedOp_t) that multiplies this rank's data by the scalar, one element of the
        datatype, and then sums.
        """
        value, residence = ctypes.create_string_buffer(scalar, len(scalar)), _SCALAR_HOST_IMMEDIATE
        return self._new("ncclRedOpCreatePreMulSum", value, datatype, residence, comm, comm=comm)

    def reduction_destroy(self, comm: int, op: int) -> None:
        """Undo premul_sum_create; calls that were enqueued with it go on."""
        self._call("ncclRedOpDestroy", op, comm, comm=comm)


def load_nccl(explicit: str | None = None, places: SearchPlaces | None = None) -> NcclLibrary:
    """Find and load the copy to measure. SiteError says where was looked when there is none."""
    search = find_nccl(explicit, places)
    if not search.path:
        raise SiteError(
            f"no {LIBRARY} found; looked at {', '.join(search.looked_at) or 'nothing'}",
            hint="install it (pip install nvidia-nccl-cu12 or nvidia-nccl-cu13), or name it with --nccl",
        )
    return NcclLibrary(search.path)
