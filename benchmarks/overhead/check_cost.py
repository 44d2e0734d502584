"""What checking a case costs on the host: poison and fill before, compare after, beside the call that is
checked.

Float sum all_reduce of 1 GiB between ranks over MPI; per step the maximum over ranks, median over repeats. A
case is checked once (-c 1) and not inside the timed region, so this is added once per case, whatever its
calls take.

    python benchmarks/overhead/check_cost.py --ranks 2 --size 1G

Each rank needs two buffers of that size.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from busbw.machine.host import read_processors
from busbw.machine.mpi import find_mpi
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.mpi import MpiBackend
from busbw.rank.world.base import World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.units import format_size, gb_per_s, parse_size

SLOT = 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)  # set for the ranks it starts
    options = parser.parse_args()
    if options.rank:
        measure(parse_size(options.size), options.repeats)
        return
    library = find_mpi(os.environ).library
    if library is None or not library.mpiexec:
        raise SystemExit("no MPI library with an mpiexec: pip install mpich")
    command = [library.mpiexec, "-n", str(options.ranks), sys.executable, *sys.argv, "--rank"]
    subprocess.run(command, check=True)


def measure(size_bytes: int, repeats: int) -> None:
    world = create(identify(os.environ), "mpi", lambda failure: os._exit(5))
    grid = Grid([collective("all_reduce")], [data_type("float")], [reduce_op("sum")], [0], [size_bytes])
    case = expand(grid, world.size, "mpi")[0]
    backend = MpiBackend(Plan("mpi", (case,), case.size_bytes, Limits(), 1, 0))
    backend.connect(world)
    prepared = backend.prepare(case)
    wrong = []
    steps: dict[str, list[float]] = {"poison and fill": [], "all_reduce": [], "compare": []}
    for seed in range(repeats + 1):  # the first goes through untouched paths and is left out
        steps["poison and fill"].append(timed(world, lambda: prepared.load(seed, SLOT)))  # noqa: B023
        steps["all_reduce"].append(timed(world, lambda: prepared.run(SLOT)))
        steps["compare"].append(
            timed(world, lambda: wrong.append(prepared.check(seed, SLOT).wrong))  # noqa: B023
        )
    if any(wrong):
        raise SystemExit("the check found wrong data")
    if world.rank == 0:
        report(steps, case.size_bytes, world.size)
    prepared.close()
    world.barrier()
    backend.close()
    world.close()


def timed(world: World, work: Callable[[], object]) -> float:
    """Nanoseconds of ``work``, maximum over ranks."""
    world.barrier()
    start = time.monotonic_ns()
    work()
    return float(world.max(np.array([time.monotonic_ns() - start]))[0])


def report(steps: dict[str, list[float]], size_bytes: int, ranks: int) -> None:
    print(
        f"{ranks} ranks on {os.cpu_count()} x {read_processors().model}, load {os.getloadavg()[0]:.2f},"
        f" float sum, {format_size(size_bytes)} a rank"
    )
    print(f"{'':>16} {'ms':>8} {'min':>8} {'max':>8} {'GB/s a rank':>12}")
    for name, all_ns in steps.items():
        ns = np.array(all_ns[1:])
        middle = float(np.median(ns))
        print(
            f"{name:>16} {middle / 1e6:>8.1f} {ns.min() / 1e6:>8.1f} {ns.max() / 1e6:>8.1f}"
            f" {gb_per_s(size_bytes, middle):>12.2f}"
        )


if __name__ == "__main__":
    main()
