"""What preflight costs with many ranks: rank 0's part for simulated hosts, and all of it for real ranks.

Simulated: every rank's facts are a value like a real GPU host's (9 NICs, 30 variables), packed, read and
gathered by the control channel's own code (wire, Hub) without sockets, then decoded and judged by every rule.
Real: processes on this machine that form a world over the TCP channel, read their facts, gather and judge.

    python benchmarks/preflight/many.py
    python benchmarks/preflight/many.py --simulated 256x8 --real 64
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from busbw.machine.host import read_processors
from busbw.machine.preflight.facts import Gathered, GpuFacts, NicFacts, NodeFacts, RankFacts, decode, encode
from busbw.machine.preflight.rules import judge
from busbw.model.plan import Limits, Plan, Preflight
from busbw.rank.preflight import CheckFirst
from busbw.rank.world.base import World
from busbw.rank.world.channel_root import Hub
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create
from busbw.rank.world.wire import Kind, Message, Op, pack, unpack

PLAN = Plan("null", (), 0, Limits(), 0, 0, preflight=Preflight("run"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulated", default="4x8,32x8,256x1,256x8", help="hosts x ranks on each")
    parser.add_argument("--real", default="", help="numbers of real ranks, as 4,64")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        live(options.rounds)
        return
    print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
    print(f", load before {os.getloadavg()[0]:.2f}, median of {options.rounds}")
    print("\n| simulated | bytes a rank | a rank's encoding ms | gather ms | judge ms | judge, faults ms |")
    print("|---|---|---|---|---|---|")
    for shape in filter(None, options.simulated.split(",")):
        hosts, _, per_host = shape.partition("x")
        simulate(int(hosts), int(per_host), options.rounds)
    print("\n| real ranks on this machine | facts, gather, judge, verdict ms |\n|---|---|")
    for count in filter(None, options.real.split(",")):
        times_ms = start(int(count), options.rounds)
        print(f"| {count} | {median(times_ms):.1f} ({min(times_ms):.1f}-{max(times_ms):.1f}) |", flush=True)


# ---- simulated ---------------------------------------------------------------------------------------


def facts_of(rank: int, per_host: int) -> RankFacts:
    host = f"node{rank // per_host:04}"
    nics = [NicFacts(f"mlx5_{n}:1", "rdma", True, "ACTIVE", 400.0, 16, 16) for n in range(8)]
    node = NodeFacts((*nics, NicFacts("eth0", "net", True, "up", 25.0)), 2 << 40, 1 << 40, ("peermem",))
    return RankFacts(
        rank=rank,
        host=host,
        local_rank=rank % per_host,
        versions={"busbw": "0.1.0", "NCCL": "2.28.9", "NVIDIA driver": "580.82.07"},
        builds={"NCCL": "0123456789abcdef" * 2, "NCCL net plugin": "fedcba9876543210" * 2},
        environ={
            "LD_LIBRARY_PATH": "/opt/a/lib:/opt/b/lib",
            **{f"NCCL_SETTING_{n}": str(n) for n in range(29)},
        },
        net_plugin="/opt/a/lib/libnccl-net.so",
        limits={"memlock": -1, "nofile": 1 << 20},
        gpu=GpuFacts(f"GPU-{rank}", "NVIDIA H100", 18, 18, 1980, ("idle",), 16, 16),
        node=node if rank % per_host == 0 else None,
    )


def simulate(hosts: int, per_host: int, rounds: int) -> None:
    ranks = [facts_of(rank, per_host) for rank in range(hosts * per_host)]
    odd = [spoiled(rank) for rank in ranks]
    bodies = [encode(rank) for rank in ranks]
    encoding = timed(rounds, lambda: [encode(rank) for rank in ranks]) / len(ranks)
    gathering = timed(rounds, lambda: gather(bodies))
    clean = timed(rounds, lambda: judged(gather(bodies)))
    faulty_bodies = [encode(rank) for rank in odd]
    assert not judged(gather(bodies))
    assert len(judged(gather(faulty_bodies))) >= 4
    faulty = timed(rounds, lambda: judged(gather(faulty_bodies)))
    size = sum(map(len, bodies)) / len(bodies)
    print(
        f"| {hosts} hosts x {per_host} | {size:,.0f} | {encoding:.2f} | {gathering:.1f} |"
        f" {clean - gathering:.1f} | {faulty - gathering:.1f} |"
    )


def spoiled(rank: RankFacts) -> RankFacts:
    """Every seventh rank lacks a variable, every fifth has another driver; one has another NCCL, and one a
    GPU on half of its lanes.
    """
    environ = dict(rank.environ)
    if rank.rank % 7 == 3:
        del environ["NCCL_SETTING_5"]
    versions = dict(rank.versions)
    versions["NVIDIA driver"] = "570.1" if rank.rank % 5 == 2 else versions["NVIDIA driver"]
    versions["NCCL"] = "2.27.7" if rank.rank == 3 else versions["NCCL"]
    gpu = replace(rank.gpu, lanes=8) if rank.rank == 2 and rank.gpu is not None else rank.gpu
    return replace(rank, environ=environ, versions=versions, gpu=gpu)


def gather(bodies: list[bytes]) -> tuple[bytes, ...]:
    """As rank 0's channel does it, without the sockets."""
    hub = Hub(len(bodies))
    for rank, body in enumerate(bodies):
        message = unpack([bytes(frame) for frame in pack(Message(Kind.PART, body, Op.GATHER, 1))])
        outcome = hub.contribute(rank, message.op, message.call, message.body)
    assert outcome is not None
    assert outcome.parts is not None
    return outcome.parts


def judged(parts: tuple[bytes, ...]) -> tuple[object, ...]:
    ranks = tuple(decode(part) for part in parts)
    return judge(Gathered(ranks, "nccl", Preflight("run", ranks=len(ranks))))


def timed(rounds: int, act: Callable[[], object]) -> float:
    """Median milliseconds."""
    times = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        act()
        times.append(1e3 * (time.perf_counter() - start_s))
    return median(times)


# ---- real --------------------------------------------------------------------------------------------


def start(count: int, rounds: int) -> list[float]:
    """``count`` processes of this program as the ranks of a world; rank 0's times."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        **os.environ,
        "BUSBW_WORLD_SIZE": str(count),
        "BUSBW_ROOT": f"127.0.0.1:{port}",
        "BUSBW_TOKEN": secrets.token_hex(16),
        "BUSBW_CONNECT_TIMEOUT": "600",
    }
    words = [sys.executable, __file__, "--rank", "--rounds", str(rounds)]
    ranks = [
        subprocess.Popen(words, env={**common, "BUSBW_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(count)
    ]
    told = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed")
    return [float(word) for word in told[0].split()]


class Told:
    """Rank 0's ear for findings."""

    def found(self, findings: object) -> None:
        raise SystemExit(f"the ranks are alike, and yet: {findings}")


def live(rounds: int) -> None:
    """One rank: the exchange as a run makes it, between two barriers."""
    world: World = create(identify(os.environ), "nccl", lambda failure: os._exit(5))
    for _ in range(rounds):
        world.barrier()
        start_s = time.perf_counter()
        CheckFirst(world, PLAN, Told() if world.rank == 0 else None).compare()  # type: ignore[arg-type]
        world.barrier()
        if world.rank == 0:
            print(1e3 * (time.perf_counter() - start_s))
    world.close()


if __name__ == "__main__":
    main()
