"""An MPI library that delivers wrong data, as a preloaded tool can: one byte of 256 elements on rank 1."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SHIM: Final = """
#include <dlfcn.h>
static void* mpi(const char* name) { return dlsym(dlopen("libmpi.so.12", RTLD_LAZY | RTLD_NOLOAD), name); }
static void spoil(void* received, int count, int comm) {
  int rank = 0;
  ((int (*)(int, int*))mpi("PMPI_Comm_rank"))(comm, &rank);
  if (rank == 1 && count == 256) ((unsigned char*)received)[5 * 4 + 2] ^= 0x40;
}
extern "C" int MPI_Allreduce(const void* send, void* recv, int count, int type, int op, int comm) {
  auto reduce = (int (*)(const void*, void*, int, int, int, int))mpi("PMPI_Allreduce");
  int code = reduce(send, recv, count, type, op, comm);
  spoil(recv, count, comm);
  return code;
}
extern "C" int MPI_Iallreduce(const void* send, void* recv, int count, int type, int op, int comm,
                              int* request) {
  auto reduce = (int (*)(const void*, void*, int, int, int, int, int*))mpi("PMPI_Iallreduce");
  char status[64];
  int code = reduce(send, recv, count, type, op, comm, request);
  ((int (*)(int*, void*))mpi("PMPI_Wait"))(request, status);
  spoil(recv, count, comm);
  return code;
}
"""


def wrong_mpi(folder: Path) -> str:
    """The path of the library to preload, built there."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler for the shim")
    (folder / "shim.cpp").write_text(SHIM)
    library = folder / "libshim.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, folder / "shim.cpp", "-ldl"], check=True)
    return str(library)
