"""What agreeing on a look costs: messages and bytes for any number of ranks, and time on this machine.

    python benchmarks/control/control.py --output control.json

Traffic of the nccl world (TCP through rank 0) is counted at rank 0's hub: with simulated ranks for every
number, and with real processes beside it for --real. That of the mpi world are the calls that a rank makes,
whatever the number of ranks. Times are of 2 ranks, fitted against the length of the vector, and of --many
ranks, which share the cores of this machine: an upper bound for ranks that have cores of their own.

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
HEAD_BYTES = 10  # of every message: world.wire


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=numbers, default=RANKS, help="numbers of simulated ranks")
    parser.add_argument("--real", type=numbers, default=(2, 4, 8), help="numbers of real ranks to count")
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
        "real": [launch("nccl", ranks, (8, 254), 1, options.limit) for ranks in options.real],
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
    show_traffic(found["simulated"], found["real"])
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


def show_traffic(simulated: list[dict[str, Any]], real: list[dict[str, Any]]) -> None:
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
    for world in real:
        print(f"# {world['ranks']} real ranks: {agreement(world)}")


def both_ways(world: dict[str, Any]) -> None:
    for look in world["looks"]:
        if look["received"] != look["sent"]:
            raise SystemExit(f"{world['ranks']} ranks, {look['samples']} samples: not the same both ways")


def looks_of_a_case() -> int:
    samples, looks = 0, 0
    while samples < Limits().max_samples:
        samples, looks = next_look(samples), looks + 1
    return looks


def agreement(real: dict[str, Any]) -> str:
    """Whether real ranks sent what simulated ones do, and what the kernel counted on TCP beyond it."""
    expected = {look["samples"]: look for look in simulate(real["ranks"])["looks"]}
    said = []
    for look in real["looks"]:
        simulated = expected[look["samples"]]
        same = all(look[way] == simulated[way] for way in ("received", "sent"))
        beyond = [look[f"tcp_{way}_bytes"] - look[way]["tcp_bytes"] for way in ("received", "sent")]
        verdict = "as simulated" if same else "OTHER THAN SIMULATED"
        said.append(f"{look['samples']} samples {verdict}, on TCP {beyond[0]:+d} and {beyond[1]:+d} bytes")
    return "; ".join(said)


def show_times(two: dict[str, dict[str, Any]], many: list[dict[str, Any]]) -> None:
    print("\n# us of a look's control at rank 0: median, and 10th to 90th percentile")
    print("| world | ranks | samples | vector bytes | barrier | reduction | look |")
    print("|---|---|---|---|---|---|---|")
    for world, found in (*two.items(), *((found["world"], found) for found in many)):
        for look in found["looks"]:
            print(
                f"| {world} | {found['ranks']} | {look['samples']} | {vector_bytes(look):,} | {cells(look)} |"
            )
    for world, found in two.items():
        print(f"# {world}, 2 ranks: {fitted(found['looks'])}")
        if "calls" in found["looks"][0]:
            print(f"# {world}: calls of a look on every rank: {calls(found['looks'][0])}")


def vector_bytes(look: dict[str, Any]) -> int:
    """What a rank gives to the reduction: read from the calls that were counted."""
    if "calls" in look:
        return max(int(nbytes) for _, nbytes in look["calls"])
    # A message of the barrier, without a body, and one of the vector from every other rank.
    received, others = look["received"], look["received"]["messages"] // 2
    body_bytes: int = received["content_bytes"] - HEAD_BYTES * received["messages"]
    return body_bytes // int(others)


def calls(look: dict[str, Any]) -> str:
    return ", ".join(f"{name} of {nbytes} bytes" if nbytes else name for name, nbytes in look["calls"])


def cells(look: dict[str, Any]) -> str:
    barrier, reduction = np.array(look["barrier_ns"]) / 1e3, np.array(look["reduction_ns"]) / 1e3
    return " | ".join(spread(series) for series in (barrier, reduction, barrier + reduction))


def spread(us: np.ndarray) -> str:
    low, middle, high = np.percentile(us, (10, 50, 90))
    return f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"


def fitted(looks: list[dict[str, Any]]) -> str:
    """A line through the medians, by relative least squares: the times span two orders of magnitude."""
    nbytes = np.array([vector_bytes(look) for look in looks], float)
    us = np.array([np.median(np.add(look["barrier_ns"], look["reduction_ns"])) / 1e3 for look in looks])
    slope, fixed = np.polyfit(nbytes, us, 1, w=1 / us)
    off = np.abs((fixed + slope * nbytes) / us - 1).max()
    return f"{fixed:.0f} us + {slope * 2**10:.2f} us a KiB of the vector, medians within {off:.0%}"


if __name__ == "__main__":
    main()
