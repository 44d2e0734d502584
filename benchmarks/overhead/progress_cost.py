"""What it costs to publish how far the calls have come: with and without, in turn, in one process.

Of each round the calls are timed without, with and without once more, in this order and then in the other.
The first table is the native loop around a call that does nothing: what one iteration costs. With k = 1 the
clock is read after every call, with k = 1000 almost never. The second is an all_reduce of 8 B between
ranks. ``itself`` is the third look over the first: how far the same thing is from itself.

    python benchmarks/overhead/progress_cost.py --ranks 2
    python benchmarks/overhead/progress_cost.py --ranks 2 --backend nccl      # one GPU a rank
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from busbw.machine.host import read_processors
from busbw.machine.mpi import find_mpi
from busbw.machine.native import core
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.create import create as create_backend
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.stats.interval import estimate

CALLS_PER_SAMPLE = (1, 10, 100, 1000)
PAGE = mmap.mmap(-1, mmap.PAGESIZE)
COUNTS = ctypes.addressof(ctypes.c_char.from_buffer(PAGE))
LEAD = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=["mpi", "nccl"], default="mpi")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)  # set for the ranks it starts
    options = parser.parse_args()
    if options.rank:
        all_reduce(options)
        return
    print(f"{read_processors().model}, load {os.getloadavg()[0]:.2f}")
    null_loop(options)
    sys.stdout.flush()
    start(options)


def in_turn(look: Callable[[], float], rounds: int) -> np.ndarray:
    """Rows of three looks: without, with, without."""
    rows = np.empty((rounds, 3))
    for number, row in enumerate(rows):
        for column in (0, 1, 2) if number % 2 else (2, 1, 0):
            core.count_progress(COUNTS if column == 1 else None)
            row[column] = look()
    core.count_progress(None)
    return rows


def null_loop(options: argparse.Namespace) -> None:
    """Nanoseconds that it adds to a call."""
    print(f"{'k':>6} {'ns a call without':>18} {'with it more':>13} {'95% interval':>14} {'itself':>7}")
    call = core.Call.null()
    for k in CALLS_PER_SAMPLE:
        rows = in_turn(
            lambda k=k: float(np.median(call.time_host(10, options.samples, k))) / k, options.rounds
        )
        more = estimate(rows[:, 1] - (rows[:, 0] + rows[:, 2]) / 2, 0.95)
        itself = float(np.median(rows[:, 2] - rows[:, 0]))
        between = f"{more.low:.2f}-{more.high:.2f}"
        print(f"{k:>6} {np.median(rows[:, 0]):>18.2f} {more.median:>13.2f} {between:>14} {itself:>7.2f}")
    call.close()


def start(options: argparse.Namespace) -> None:
    """The ranks: by mpiexec, or without an MPI."""
    rank = [sys.executable, *sys.argv, "--rank"]
    if options.backend == "mpi":
        library = find_mpi(os.environ).library
        if library is None or not library.mpiexec:
            raise SystemExit("no MPI library with an mpiexec: pip install mpich")
        subprocess.run([library.mpiexec, "-n", str(options.ranks), *rank], check=True)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": str(options.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(rank, env={**common, "RANK": str(number), "LOCAL_RANK": str(number)})
        for number in range(options.ranks)
    ]
    raise SystemExit(max(each.wait() for each in ranks))


def all_reduce(options: argparse.Namespace) -> None:
    """Per cent that it adds to an all_reduce of 8 B, on the slowest rank."""
    world = create(identify(os.environ), options.backend, lambda failure: os._exit(5))
    grid = Grid([collective("all_reduce")], [data_type("float")], [reduce_op("sum")], [0], [8])
    case = expand(grid, world.size, options.backend)[0]
    backend = create_backend(Plan(options.backend, (case,), 8, Limits(), 0, 0), world)
    backend.connect(world)
    prepared = backend.prepare(case)
    k = 100 if options.backend == "nccl" else 20  # an event costs more than a reading of the clock

    def look() -> float:
        world.barrier()
        own = float(np.median(prepared.time(LEAD, options.samples, k).elapsed_ns)) / k
        return float(world.max(np.array([own]))[0])

    look()
    rows = in_turn(look, options.rounds)
    if world.rank == 0:
        more = estimate(100 * np.log(rows[:, 1] / np.sqrt(rows[:, 0] * rows[:, 2])), 0.95)
        itself = estimate(100 * np.log(rows[:, 2] / rows[:, 0]), 0.95)
        device = backend.identity.device or "CPU"
        print(
            f"all_reduce of 8 B, {world.size} ranks, {device}: {np.median(rows[:, 0]) / 1e3:.3f} us without"
        )
        print(f"with it {more.median:+.2f} % ({more.low:+.2f} to {more.high:+.2f})")
        print(f"itself  {itself.median:+.2f} % ({itself.low:+.2f} to {itself.high:+.2f})")
    prepared.close()
    world.barrier()
    backend.close()
    world.close()


if __name__ == "__main__":
    main()
