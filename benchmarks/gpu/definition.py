"""Our event samples against a host-clock loop of nccl-tests' definition, in the same processes, alternated.

Starts ``--ranks N`` processes, one per GPU; needs no MPI and no nccl-tests. Per size and placement the two
arms run in ABBA blocks on one communicator and the same buffers:

  host    barrier, N calls, one wait for the stream; host clock; maximum over ranks (nccl-tests -a 3)
  busbw   one event every k calls, k chosen by busbw's own rule; per sample the maximum over ranks; median

    python benchmarks/gpu/definition.py --ranks 2 --output definition.json [--hot]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan, Timing
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.measure import Conditions, warm_up
from busbw.rank.world.base import World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.stats import stopping
from busbw.units import format_size

SIZES = (8, 2**10, 2**16, 2**18, 2**20, 2**23, 2**24, 2**26, 2**28, 2**30)
SMALL_CALLS, LARGE_CALLS, LARGE_BYTES = 1000, 20, 2**25


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--ops", default="all_reduce,all_gather")
    parser.add_argument("--hot", action="store_true", help="one place of the buffers instead of rotating")
    parser.add_argument("--output", default="definition.json")
    options = parser.parse_args()
    if "RANK" in os.environ:
        measure(options)
    else:
        start(options.ranks)


def conditions(world: World, timing_cost_ns: float) -> Conditions:
    """As a run has them by default."""
    return Conditions(world, Limits(), Timing(), timing_cost_ns, max_samples_per_look=1024)


def start(ranks: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(ranks)
    ]
    raise SystemExit(max(process.wait() for process in processes))


def measure(options: argparse.Namespace) -> None:
    world = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    grid = Grid(
        [collective(name) for name in options.ops.split(",")],
        [data_type("float")],
        [reduce_op("sum")],
        [0],
        SIZES,
    )
    cases = expand(grid, world.size, "nccl")
    plan = Plan("nccl", cases, max(SIZES), Limits(), 0, 0, rotate=not options.hot)
    backend = NcclBackend(plan, world.members[world.rank].local_rank)
    backend.connect(world)
    cost_ns = float(world.max(np.array([backend.timing_cost_ns]))[0])
    rows = [compare(case, backend, world, cost_ns, options.blocks) for case in cases]
    if world.rank == 0:
        report(rows, backend, cost_ns, world.size, options)
    world.barrier()
    backend.close()
    world.close()


def compare(case: Case, backend: NcclBackend, world: World, cost_ns: float, blocks: int) -> dict[str, object]:
    """ABBA blocks of one case: the log-ratio of the arms, and of the host arm to itself, per block."""
    prepared = backend.prepare(case)
    pace = warm_up(prepared, conditions(world, cost_ns), Limits())
    calls = SMALL_CALLS if case.size_bytes < LARGE_BYTES else LARGE_CALLS
    samples, k = stopping.fixed_samples(calls, pace.k)

    def host() -> float:
        world.barrier()
        return float(world.max(np.array([prepared.time_loop(calls)]))[0]) / calls

    def ours() -> float:
        world.barrier()
        return float(np.median(world.max(prepared.time(k, samples, k).elapsed_ns))) / k

    times = np.array([[host(), ours(), ours(), host()] for _ in range(blocks)])
    prepared.close()
    logs = np.log(times)
    return {
        "collective": case.collective,
        "size_bytes": case.size_bytes,
        "placement": case.placement.value,
        "k": k,
        "samples": samples,
        "host_us": float(np.median(times[:, [0, 3]])) / 1e3,
        "busbw_us": float(np.median(times[:, 1:3])) / 1e3,
        "log_ratios": (logs[:, 1:3].mean(axis=1) - logs[:, [0, 3]].mean(axis=1)).tolist(),
        "self_log_ratios": (logs[:, 3] - logs[:, 0]).tolist(),
    }


def report(
    rows: list[dict[str, object]],
    backend: NcclBackend,
    cost_ns: float,
    ranks: int,
    options: argparse.Namespace,
) -> None:
    identity = backend.identity
    head = {
        "device": identity.device,
        "nccl": identity.version,
        "ranks": ranks,
        "event_cost_ns": cost_ns,
        "buffers": "hot" if options.hot else "rotating",
        "blocks": options.blocks,
        "rows": rows,
    }
    Path(options.output).write_text(json.dumps(head, indent=1))
    print(f"{ranks} x {identity.device}, NCCL {identity.version}, event {cost_ns:.0f} ns, {head['buffers']}")
    print(f"{'':>36} {'k':>5} {'host us':>10} {'busbw us':>10} {'ratio':>7} {'+-':>7} {'host A/A':>9}")
    for row in rows:
        if row["size_bytes"]:
            ratio, half = summary(np.array(row["log_ratios"]))
            _, self_half = summary(np.array(row["self_log_ratios"]))
            name = f"{row['collective']} {format_size(int(str(row['size_bytes'])))} {row['placement']}"
            print(
                f"{name:>36} {row['k']:>5} {row['host_us']:>10.2f} {row['busbw_us']:>10.2f}"
                f" {ratio:>7.3f} {half:>7.1%} {self_half:>9.1%}"
            )


def summary(logs: np.ndarray) -> tuple[float, float]:
    """(median ratio, half-width of its 95 % t interval as a fraction)."""
    spread = logs.std(ddof=1) / math.sqrt(len(logs)) * 2.365  # t for 8 blocks
    return math.exp(float(np.median(logs))), float(spread)


if __name__ == "__main__":
    main()
