"""Does it matter what is in the buffers?

nccl-tests -c 0 never writes them (fresh pages: zeros); busbw always fills them with values of the type. Here
one host-clock loop runs on one communicator, at the same addresses, in ABBA blocks of zeros and data.

    python benchmarks/gpu/contents.py --ranks 2 --output contents.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path

import numpy as np
from definition import LARGE_BYTES, LARGE_CALLS, SMALL_CALLS, conditions, start, summary

from busbw.backends.nccl import NcclBackend
from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.planning.expand import Grid, expand
from busbw.units import format_size
from busbw.worker.measure import warm_up
from busbw.world.base import World
from busbw.world.identity import identify
from busbw.world.select import create

SIZES = (2**21, 2**24, 2**26, 2**28, 2**30)
BLOCKS = 8


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--ops", default="all_reduce,all_gather")
    parser.add_argument("--output", default="contents.json")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        start(options.ranks)
    world = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    rows = [collective(name) for name in options.ops.split(",")]
    cases = expand(Grid(rows, [data_type("float")], [reduce_op("sum")], [0], SIZES), world.size, "nccl")
    backend = NcclBackend(
        Plan("nccl", cases, max(SIZES), Limits(), 0, 0), world.members[world.rank].local_rank
    )
    backend.connect(world)
    results = [compare(case, backend, world) for case in cases if not case.in_place]
    if world.rank == 0:
        identity = backend.identity
        head = {"device": identity.device, "nccl": identity.version, "ranks": world.size, "rows": results}
        Path(options.output).write_text(json.dumps(head, indent=1))
        print(f"{world.size} x {identity.device}, NCCL {identity.version}; time with data / time with zeros")
        for row in results:
            ratio, half = summary(np.array(row["log_ratios"]))
            times = f"{row['zeros_us']:>10.2f} {row['data_us']:>10.2f} us"
            print(f"{row['case']:>24} {times} {ratio:.3f} +- {half:.1%}")
    world.barrier()
    backend.close()
    world.close()


def compare(case: Case, backend: NcclBackend, world: World) -> dict[str, object]:
    """Per block: zeros, data, data, zeros."""
    prepared = backend.prepare(case)
    warm_up(prepared, conditions(world, backend.timing_cost_ns), Limits())
    calls = SMALL_CALLS if case.size_bytes < LARGE_BYTES else LARGE_CALLS
    pair = backend.pair

    def loop(*, data: bool) -> float:
        if data:
            pair.warm(case, case.role(world.rank, world.size))
        else:
            for address in (pair.send, pair.recv):
                pair.memory.overwrite(address, pair.size_bytes, 0)
        world.barrier()
        prepared.time_loop(5)
        world.barrier()
        return float(world.max(np.array([prepared.time_loop(calls)]))[0]) / calls

    times = np.array([[loop(data=which) for which in (False, True, True, False)] for _ in range(BLOCKS)])
    prepared.close()
    logs = np.log(times)
    return {
        "case": f"{case.collective} {format_size(case.size_bytes)}",
        "zeros_us": float(np.median(times[:, [0, 3]])) / 1e3,
        "data_us": float(np.median(times[:, 1:3])) / 1e3,
        "log_ratios": (logs[:, 1:3].mean(axis=1) - logs[:, [0, 3]].mean(axis=1)).tolist(),
        "worst_zeros": math.exp(float(np.ptp(logs[:, [0, 3]]))),
    }


if __name__ == "__main__":
    main()
