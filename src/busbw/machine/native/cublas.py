"""The site's cuBLAS: one matrix product, as frameworks call it. Found where NCCL is: in the wheels of this
Python, else by the dynamic loader. Names, numbers and argument types are those of the cuBLAS documentation.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_float, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Final

from busbw.errors import SiteError

# Folder of NVIDIA's wheels in site-packages, and the library of that major version.
_WHEELS: Final = (("cu13", "libcublas.so.13"), ("cublas", "libcublas.so.12"))
_BF16: Final = 14  # CUDA_R_16BF
_COMPUTE_32F: Final = 68  # CUBLAS_COMPUTE_32F
_DEFAULT_ALGORITHM: Final = -1  # CUBLAS_GEMM_DEFAULT
_AS_THEY_ARE: Final = 0  # CUBLAS_OP_N
WORKSPACE_BYTES: Final = 32 << 20  # what the documentation recommends for Hopper


class Cublas:
    """A handle of the site's cuBLAS, in the current context. Raises SiteError where there is none."""

    def __init__(self) -> None:
        self._library = _loaded()
        self._handle = c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))

    @property
    def version(self) -> str:
        """``13.1.0``; the library gives 10000 * major + 100 * minor + patch."""
        value = c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(value))
        return f"{value.value // 10000}.{value.value // 100 % 100}.{value.value % 100}"

    def use(self, stream: int, workspace: int) -> None:
        """Calls go to the stream, with WORKSPACE_BYTES at an address: captured calls may allocate nothing."""
        self._call("cublasSetStream_v2", self._handle, c_void_p(stream))
        self._call("cublasSetWorkspace_v2", self._handle, c_void_p(workspace), c_size_t(WORKSPACE_BYTES))

    def product(self, n: int, left: int, right: int, result: int) -> None:
        """Enqueue a product of two n x n matrices of bfloat16, added up in float32."""
        one, nothing, edge = c_float(1), c_float(0), c_int(n)
        self._call(
            "cublasGemmEx",
            *(self._handle, c_int(_AS_THEY_ARE), c_int(_AS_THEY_ARE), edge, edge, edge, ctypes.byref(one)),
            *(c_void_p(left), c_int(_BF16), edge, c_void_p(right), c_int(_BF16), edge),
            *(ctypes.byref(nothing), c_void_p(result), c_int(_BF16), edge),
            *(c_int(_COMPUTE_32F), c_int(_DEFAULT_ALGORITHM)),
        )

    def _call(self, name: str, *arguments: object) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise SiteError(
                f"{name} failed: cuBLAS status {code}",
                hint="it needs a GPU of compute capability 8.0 and a driver as new as it is; --beside compute"
                " needs no cuBLAS",
            )


def _loaded() -> ctypes.CDLL:
    wheels = [
        Path(entry) / "nvidia" / folder / "lib" / name
        for entry in sys.path
        for folder, name in _WHEELS
        if entry.endswith("-packages")
    ]
    for path in (*map(str, filter(Path.is_file, wheels)), *(name for _, name in _WHEELS)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise SiteError(
        "--beside gemm: no cuBLAS found in this Python's packages or by the loader",
        hint="install the wheel nvidia-cublas, add the library's folder to LD_LIBRARY_PATH, or take"
        " --beside compute, which needs none",
    )
