"""What one check costs at 1 GiB: writing the data, poisoning the output, comparing all of it (never timed).

python benchmarks/gpu/check_cost.py --ranks 2
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from definition import start

from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create

SIZE = 2**30
ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, required=True)
    options = parser.parse_args()
    if "RANK" not in os.environ:
        start(options.ranks)
    world = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    rows = [collective(name) for name in ("all_reduce", "all_gather")]
    types = [data_type(name) for name in ("float", "half", "int8")]
    cases = expand(Grid(rows, types, [reduce_op("sum")], [0], (SIZE,)), world.size, "nccl")
    backend = NcclBackend(Plan("nccl", cases, SIZE, Limits(), 0, 0), world.members[world.rank].local_rank)
    backend.connect(world)
    if world.rank == 0:
        identity = backend.identity
        print(f"{world.size} x {identity.device}, NCCL {identity.version}; 1 GiB, ms, medians of {ROUNDS}")
        print(f"{'':>24} {'load':>8} {'call':>8} {'compare':>8}")
    for case in cases:
        if not case.in_place:
            prepared = backend.prepare(case)
            steps = []
            for seed in range(ROUNDS):
                marks = [time.perf_counter()]
                prepared.load(seed, 0)
                marks.append(time.perf_counter())
                prepared.run(0)
                marks.append(time.perf_counter())
                prepared.check(seed, 0)
                marks.append(time.perf_counter())
                steps.append(np.diff(marks) * 1e3)
                world.barrier()
            load, call, compare = np.median(np.array(steps), axis=0)
            if world.rank == 0:
                print(f"{case.collective + ' ' + case.dtype:>24} {load:>8.2f} {call:>8.2f} {compare:>8.2f}")
            prepared.close()
    world.barrier()
    backend.close()
    world.close()


if __name__ == "__main__":
    main()
