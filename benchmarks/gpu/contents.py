"""Does it matter what is in the buffers?

nccl-tests -c 0 never writes them (fresh pages: zeros); busbw always fills them with values of the type. Here
one host-clock loop runs on one communicator, at the same addresses, in ABBA blocks of zeros and data.

    python benchmarks/gpu/contents.py --ranks 2 --output contents.json
    ... --graph --ops alltoall,reduce_scatter --sizes 32M,256M,2G    # as -n 10 -G 10

With ``--graph`` a loop is ten launches of one CUDA graph of ten calls, captured once for both contents. With
``--one-buffer`` ranks send from the buffer that they receive into, as in nccl-tests' in-place alltoall.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from definition import LARGE_BYTES, LARGE_CALLS, SMALL_CALLS, conditions, start, summary

from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.backends.nccl_case import MAX_CALLS_PER_GRAPH
from busbw.rank.measure import warm_up
from busbw.rank.world.base import World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.units import format_size, parse_size

BLOCKS = 8
GRAPH_CALLS = GRAPH_LAUNCHES = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--ops", default="all_reduce,all_gather")
    parser.add_argument("--sizes", default="2M,16M,64M,256M,1G")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--one-buffer", action="store_true")
    parser.add_argument("--in-place", action="store_true", help="both placements, not out-of-place alone")
    parser.add_argument("--output", default="contents.json")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        start(options.ranks)
    world = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    rows = [collective(name) for name in options.ops.split(",")]
    sizes = tuple(parse_size(word) for word in options.sizes.split(","))
    cases = expand(Grid(rows, [data_type("float")], [reduce_op("sum")], [0], sizes), world.size, "nccl")
    graph = CallOptions(graph=GRAPH_LAUNCHES, memory="nccl") if options.graph else CallOptions()
    plan = Plan("nccl", cases, max(sizes), Limits(), 0, 0, options=graph)
    backend = NcclBackend(plan, world.members[world.rank].local_rank)
    backend.connect(world)
    allocated = backend.pair
    if options.one_buffer:
        backend.pair = replace(allocated, send=allocated.recv)
    chosen = [case for case in cases if options.in_place or not case.in_place]
    results = [compare(case, backend, world) for case in chosen if is_there(case)]
    if world.rank == 0:
        identity = backend.identity
        head = {"device": identity.device, "nccl": identity.version, "ranks": world.size, "rows": results}
        Path(options.output).write_text(json.dumps(head, indent=1))
        print(f"{world.size} x {identity.device}, NCCL {identity.version}; time with data / time with zeros")
        for row in results:
            ratio, half = summary(np.array(row["log_ratios"]))
            times = f"{row['zeros_us']:>10.2f} {row['data_us']:>10.2f} us"
            print(f"{row['case']:>36} {times} {ratio:.3f} +- {half:.1%}")
    world.barrier()
    backend.pair = allocated
    backend.close()
    world.close()


def is_there(case: Case) -> bool:
    """Whether the operation has this placement on NCCL."""
    return not case.in_place or "nccl" in case.row.in_place


def compare(case: Case, backend: NcclBackend, world: World) -> dict[str, object]:
    """Per block: zeros, data, data, zeros."""
    prepared = backend.prepare(case)
    warm_up(prepared, conditions(world, backend.timing_cost_ns), Limits())
    calls, launches = SMALL_CALLS if case.size_bytes < LARGE_BYTES else LARGE_CALLS, 1
    if prepared.max_calls <= MAX_CALLS_PER_GRAPH:
        calls, launches = GRAPH_CALLS, GRAPH_LAUNCHES
    pair = backend.pair

    def loop(*, data: bool) -> float:
        if data:
            pair.warm(case, case.role(world.rank, world.size))
        else:
            for address in (pair.send, pair.recv):
                pair.memory.overwrite(address, pair.size_bytes, 0)
        world.barrier()
        prepared.time_loop(min(calls, 5) if launches == 1 else calls)
        world.barrier()
        own_ns = sum(prepared.time_loop(calls) for _ in range(launches))
        return float(world.max(np.array([own_ns]))[0]) / calls / launches

    times = np.array([[loop(data=which) for which in (False, True, True, False)] for _ in range(BLOCKS)])
    prepared.close()
    logs = np.log(times)
    return {
        "case": f"{case.collective} {format_size(case.size_bytes)} {case.placement.value}",
        "zeros_us": float(np.median(times[:, [0, 3]])) / 1e3,
        "data_us": float(np.median(times[:, 1:3])) / 1e3,
        "log_ratios": (logs[:, 1:3].mean(axis=1) - logs[:, [0, 3]].mean(axis=1)).tolist(),
        "worst_zeros": math.exp(float(np.ptp(logs[:, [0, 3]]))),
    }


if __name__ == "__main__":
    main()
