"""Makes the series of launches that docs/guides/history.md shows, and keeps what `busbw history` says of it.

    nice -n -20 python tools/make_history.py          # writes docs/captures/history.txt; needs a C compiler

Two CPU ranks measure the same sizes ten times with a library loaded that counts calls of MPI_Allreduce, as
tools for profiling do; then four times with its next release, which appends a line to a file for each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from make_captures import FIRST, ROOT, part

TRACE: Final = """
#include <mpi.h>
#include <stdio.h>
static long calls;
int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
    double start = MPI_Wtime();
    calls++;
    int code = PMPI_Allreduce(in, out, n, t, op, c);
    if (RELEASE > 1) {
        FILE *lines = fopen("/dev/null", "a");
        fprintf(lines, "MPI_Allreduce %ld %d %f %f\\n", calls, n, start, MPI_Wtime());
        fclose(lines);
    }
    return code;
}
"""
RUN: Final = ("run", "all_reduce", "-b", "1K", "-e", "8K", "-f", "8", "--ranks", "2", "--tag", "nightly")
LAUNCHES: Final = {1: 10, 2: 4}  # by release


def library(folder: Path, release: int) -> Path:
    """The library, built in a folder of its release."""
    made = folder / f"trace-{release}" / "libtrace.so"
    made.parent.mkdir()
    source = folder / "trace.c"
    source.write_text(TRACE)
    compiler = shutil.which("mpicc") or str(Path(sys.prefix, "bin/mpicc"))
    options = ("-O2", "-shared", "-fPIC", f"-DRELEASE={release}")
    subprocess.run([compiler, *options, source, "-o", made], check=True)
    return made


def main() -> None:
    """Measure, and write the page."""
    with tempfile.TemporaryDirectory() as place:
        environ = {**os.environ, "BUSBW_HOME": f"{place}/home"}
        for release, launches in LAUNCHES.items():
            loaded = f"LD_PRELOAD={library(Path(place), release)}"
            for _ in range(launches):
                command = [sys.executable, "-m", "busbw", *RUN, "--env", loaded]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
        text = part(Path(place, "home"), ("history",), FIRST).replace(place, "/opt")
    (ROOT / "docs/captures/history.txt").write_text(text)


if __name__ == "__main__":
    main()
