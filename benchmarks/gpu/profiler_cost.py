"""What does it cost the timed loop that NCCL has loaded busbw as its profiler plugin, which asks for nothing?

NCCL loads a plugin for the whole process, so the arms are launches, in the order none plugin plugin none:

  none      no plugin
  silent    the plugin is loaded and its event mask is 0: what `--stats algorithm` leaves in a timed loop
  watching  in the same processes as silent, in alternation with it: the mask of the untimed pass

Per launch and size the median over blocks of the host-clock loop (one wait for all calls, maximum over
ranks); then ratios of the launches of one round, and of its two launches without a plugin to one another.

    python benchmarks/gpu/profiler_cost.py --ranks 2 --rounds 5 --output profiler_cost.json
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from busbw.machine.native import profiler
from busbw.model.case import Case
from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.world.base import World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.units import format_size

SIZES = (8, 2**10, 2**16, 2**20, 2**24, 2**26, 2**28)
CALLS, LARGE_CALLS, LARGE_BYTES = 1000, 50, 2**24
BLOCKS = 9
WATCHING = profiler.COLLECTIVE | profiler.TRANSFER | profiler.CALL | profiler.ENGINE_COPIES

Times = dict[str, list[float]]  # ns of a call, by arm, in the order of SIZES


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", default="profiler_cost.json")
    parser.add_argument("--launch", help=argparse.SUPPRESS)  # the file of one launch's times
    parser.add_argument("--plugin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        measure(options)
        return
    rounds = [
        [launch(options.ranks, plugin=plugin) for plugin in (False, True, True, False)]
        for _ in range(options.rounds)
    ]
    Path(options.output).write_text(json.dumps({"sizes": SIZES, "rounds": rounds}, indent=1))
    report(rounds)


def launch(ranks: int, *, plugin: bool) -> Times:
    """Start a rank per GPU; what rank 0 found."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with tempfile.NamedTemporaryFile() as found:
        words = [sys.executable, __file__, "--ranks", str(ranks), "--launch", found.name]
        processes = [
            subprocess.Popen(
                [*words, *["--plugin"] * plugin],
                env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(ranks)
        ]
        if max(process.wait() for process in processes):
            raise SystemExit("a launch failed")
        times: Times = json.loads(Path(found.name).read_text())
    return times


def measure(options: argparse.Namespace) -> None:
    """One rank of a launch."""
    world = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    operations = [collective("all_reduce")], [data_type("float")], [reduce_op("sum")]
    cases = [case for case in expand(Grid(*operations, [0], SIZES), world.size, "nccl") if not case.in_place]
    show = ("algorithm",) if options.plugin else ()
    plan = Plan("nccl", tuple(cases), max(SIZES), Limits(), 0, 0, show=show)
    backend = NcclBackend(plan, world.members[world.rank].local_rank)
    backend.connect(world)
    if bool(profiler.version()) != options.plugin:
        raise SystemExit(f"the plugin is {'not ' * options.plugin}loaded")
    arms = {"silent": 0, "watching": WATCHING} if options.plugin else {"none": 0}
    times: Times = {arm: [] for arm in arms}
    for case in cases:
        for arm, nanoseconds in alternated(case, backend, world, arms).items():
            times[arm].append(nanoseconds)
    if world.rank == 0:
        Path(options.launch).write_text(json.dumps(times))
    world.barrier()
    backend.close()
    world.close()


def alternated(case: Case, backend: NcclBackend, world: World, arms: dict[str, int]) -> dict[str, float]:
    """Medians over blocks; the arms change places from block to block."""
    prepared = backend.prepare(case)
    calls = CALLS if case.size_bytes < LARGE_BYTES else LARGE_CALLS
    prepared.time_loop(calls)
    blocks: dict[str, list[float]] = {arm: [] for arm in arms}
    for block in range(BLOCKS):
        for arm in list(arms)[:: -1 if block % 2 else 1]:
            profiler.watch(arms[arm])
            world.barrier()
            elapsed_ns = prepared.time_loop(calls)
            profiler.watch(0)
            blocks[arm].append(float(world.max(np.array([float(elapsed_ns)]))[0]) / calls)
    prepared.close()
    return {arm: float(np.median(values)) for arm, values in blocks.items()}


def report(rounds: list[list[Times]]) -> None:
    """Medians in us, and geometric means over rounds of ratios with twice their standard error."""
    logs = {
        arm: np.log([[times[arm] for times in launches if arm in times] for launches in rounds])
        for arm in ("none", "silent", "watching")
    }  # arm -> [round, launch of the round, size]
    none = logs["none"].mean(axis=1)
    columns = {
        "silent / none": logs["silent"].mean(axis=1) - none,
        "none / none": logs["none"][:, 1] - logs["none"][:, 0],
        "watching / silent": (logs["watching"] - logs["silent"]).mean(axis=1),
    }
    print(f"{'size':>8} {'none us':>10}" + "".join(f"{title:>24}" for title in columns))
    for at, size in enumerate(SIZES):
        cells = [f"{format_size(size):>8} {np.exp(np.median(logs['none'][..., at])) / 1e3:>10.2f}"]
        for values in columns.values():
            error = 2 * values[:, at].std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            cells.append(f"{np.exp(values[:, at].mean()):>14.3f} +- {error:5.1%}")
        print(" ".join(cells))


if __name__ == "__main__":
    main()
