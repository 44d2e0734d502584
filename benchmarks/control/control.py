"""What agreeing on a look costs: messages and bytes for any number of ranks, and time on this machine.

    python benchmarks/control/control.py --output control.json

Traffic of the nccl world (TCP through rank 0) is counted at rank 0's hub, with simulated ranks. Times are of
2 ranks, and of --many ranks, which share the cores of this machine: an upper bound for ranks that have cores
of their own.

storage.py has the other half: what 2,160 ranks leave on disk, and what rank 0 holds meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from counted import simulated_world
from looks import reduce_look

from busbw.machine.host import read_processors
from busbw.machine.mpi import find_mpi
from busbw.model.plan import Limits
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.rank.backends.null import NullBackend, NullCase
from busbw.rank.world.nccl import HUB_BYTES, NcclWorld
from busbw.stats.stopping import next_look

WORLDS = ("mpi", "nccl", TCP := "nccl over TCP")
LOOKS = Path(__file__).with_name("looks.py")
RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2160)
# Samples of: the first look, the longest look of an adaptive case, the longest of the GPU and of the CPU
# backends.
SAMPLES = (8, 254, 1024, 4096)
HUB_REPEATS = 5
SAMPLE_BYTES = 7 * 8  # three times and four flags, as int64


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=numbers, default=RANKS, help="numbers of simulated ranks")
    parser.add_argument("--many", type=numbers, default=(64, 128), help="numbers of ranks that share cores")
    parser.add_argument("--repeats", type=int, default=201, help="looks of 2 ranks; a tenth of many")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that a launch may take")
    parser.add_argument("--output", type=Path, default=Path("control.json"))
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found: dict[str, Any] = {
        "machine": f"{os.cpu_count()} x {read_processors().model}, Linux {platform.release()}",
        "mpi": mpi_name(),
        "simulated": [simulate(ranks) for ranks in options.ranks],
        "two": {world: launch(world, 2, SAMPLES, options.repeats, options.limit) for world in WORLDS},
        "many": [
            {"world": world, **launch(world, ranks, (8, 254), max(1, options.repeats // 10), options.limit)}
            for ranks in options.many
            for world in WORLDS
        ],
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['machine']}, load {load:.1f} before, {found['load_after']:.1f} after; {found['mpi']}")
    show_traffic(found["simulated"])
    show_times(found["two"], found["many"])


def mpi_name() -> str:
    library = find_mpi(os.environ).library
    return library.family if library is not None else "no MPI"


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def simulate(ranks: int) -> dict[str, Any]:
    """The start of a world, and one look of each length: traffic at rank 0's hub and time of its Python."""
    world, counting = simulated_world(ranks)
    start = {"received": asdict(counting.received), "sent": asdict(counting.sent)}
    settings = RunSettings(minbytes=Size("8"), maxbytes=Size("4G"))
    case = NullBackend().prepare(make_plan(("all_reduce",), settings, "null", ranks).cases[0])
    looks: list[dict[str, Any]] = []
    for samples in SAMPLES:
        received, sent = counting.received, counting.sent
        world.barrier()
        reduce_look(world, case, samples)
        traffic = {"received": asdict(counting.received - received), "sent": asdict(counting.sent - sent)}
        looks.append({"samples": samples, **traffic})
    plain, _ = simulated_world(ranks, counted=False)
    for look in looks:
        look["hub_ns"] = [hub_ns(plain, case, look["samples"]) for _ in range(HUB_REPEATS)]
    return {"ranks": ranks, "start": start, "looks": looks}


def hub_ns(world: NcclWorld, case: NullCase, samples: int) -> int:
    start_ns = time.perf_counter_ns()
    world.barrier()
    reduce_look(world, case, samples)
    return time.perf_counter_ns() - start_ns


def launch(world: str, ranks: int, samples: tuple[int, ...], repeats: int, limit_s: float) -> dict[str, Any]:
    """What rank 0 of real ranks says. An empty result where they needed longer than ``limit_s``."""
    asked: dict[str, Any] = {"world": world.partition(" ")[0], "samples": samples, "repeats": repeats}
    asked["tcp"] = world == TCP  # as between hosts: without a board
    command = [sys.executable, str(LOOKS)]
    if world == "mpi":
        library = find_mpi(os.environ).library
        if library is None or not library.mpiexec:
            raise SystemExit("no MPI library with an mpiexec: pip install mpich")
        command = [library.mpiexec, "-n", str(ranks), *command]
    else:
        asked |= {"ranks": ranks, "limit_s": limit_s}
    environ = {**os.environ, "BUSBW_CONNECT_TIMEOUT": str(limit_s), "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, json.dumps(asked)],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=limit_s + 10,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{ranks} ranks of {world}: {error}", file=sys.stderr)
        return {"ranks": ranks, "looks": []}
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def show_traffic(simulated: list[dict[str, Any]]) -> None:
    print(
        "\n# nccl world, the first look of a visit (barrier and reduction) at rank 0's hub, simulated ranks;"
        " the same both ways"
    )
    print("| ranks | messages | frames | KiB: 8 samples | 254 | 1024 | calls: 1024 | ms: 8 | 254 | 1024 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for world in simulated:
        first, longest, gpu, _ = world["looks"]
        both_ways(world)
        kib = [f"{look['received']['content_bytes'] / 2**10:,.1f}" for look in (first, longest, gpu)]
        calls = gpu["received"]["messages"] // (world["ranks"] - 1) - 1
        ms = [f"{np.median(look['hub_ns']) / 1e6:.1f}" for look in (first, longest, gpu)]
        counts = (world["ranks"], first["received"]["messages"], first["received"]["frames"])
        print(f"| {' | '.join([*(f'{number:,}' for number in counts), *kib, str(calls), *ms])} |")
    print(f"# rank 0 collects at most {HUB_BYTES / 2**20:.0f} MiB of a reduction; a full case of", end=" ")
    print(f"{Limits().max_samples} samples has {looks_of_a_case()} looks")
    last = simulated[-1]
    start_mb = last["start"]["sent"]["content_bytes"] / 1e6
    print(f"# {last['ranks']} ranks that start: rank 0 sends {start_mb:,.0f} MB, the list of members to each")


def both_ways(world: dict[str, Any]) -> None:
    for look in world["looks"]:
        if look["received"] != look["sent"]:
            raise SystemExit(f"{world['ranks']} ranks, {look['samples']} samples: not the same both ways")


def looks_of_a_case() -> int:
    samples, looks = 0, 0
    while samples < Limits().max_samples:
        samples, looks = next_look(samples), looks + 1
    return looks


def show_times(two: dict[str, dict[str, Any]], many: list[dict[str, Any]]) -> None:
    print("\n# us of a look's control at rank 0: median, and 10th to 90th percentile")
    print("| world | ranks | samples | vector bytes | barrier | reduction | look |")
    print("|---|---|---|---|---|---|---|")
    for world, found in (*two.items(), *((found["world"], found) for found in many)):
        for look in found["looks"]:
            nbytes = SAMPLE_BYTES * look["samples"]
            print(f"| {world} | {found['ranks']} | {look['samples']} | {nbytes:,} | {cells(look)} |")


def cells(look: dict[str, Any]) -> str:
    barrier, reduction = np.array(look["barrier_ns"]) / 1e3, np.array(look["reduction_ns"]) / 1e3
    return " | ".join(spread(series) for series in (barrier, reduction, barrier + reduction))


def spread(us: np.ndarray) -> str:
    low, middle, high = np.percentile(us, (10, 50, 90))
    return f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"


if __name__ == "__main__":
    main()
