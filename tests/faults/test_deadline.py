"""A call that never returns under -T: the run ends, says which case it was, and keeps what was finished."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

# MPI_Allreduce as a preloaded tool provides it: rank 1 never gets out of one of 256 elements.
SHIM = """
#include <dlfcn.h>
#include <unistd.h>
extern "C" int MPI_Allreduce(const void* send, void* recv, int count, int datatype, int op, int comm) {
  void* mpi = dlopen("libmpi.so.12", RTLD_LAZY | RTLD_NOLOAD);
  auto reduce = (int (*)(const void*, void*, int, int, int, int))dlsym(mpi, "PMPI_Allreduce");
  auto rank_of = (int (*)(int, int*))dlsym(mpi, "PMPI_Comm_rank");
  int rank = 0;
  rank_of(comm, &rank);
  while (rank == 1 && count == 256) sleep(1);
  return reduce(send, recv, count, datatype, op, comm);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the library to preload."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler for the shim")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.cpp").write_text(SHIM)
    library = folder / "libshim.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, folder / "shim.cpp", "-ldl"], check=True)
    return str(library)


def test_a_call_that_hangs_ends_the_run_with_its_case(launcher: Any, shim: str) -> None:
    operands = ["run", "all_reduce", "--ranks", "2", "-b", "512", "-e", "1K", "-n", "8", "-T", "1.5"]
    run = launcher.start(*launcher.busbw, *operands, LD_PRELOAD=shim)
    done = run.finish()
    assert done.code == 5
    assert "all_reduce float 1024 B out-of-place: did not end within 1.5 s (-T)" in done.error
    assert "-T" in done.hint
    assert done.seconds < 30
    record = run.record()
    assert record["status"] == "failed"
    assert [result["status"] for result in record["results"]] == ["good", "good", "not-run", "not-run"]
