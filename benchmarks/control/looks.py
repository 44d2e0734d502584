"""Ranks that do the control of looks and nothing else; control.py starts them.

    mpiexec -n 2 python benchmarks/control/looks.py '{"world": "mpi", "samples": [8, 254], "repeats": 21}'
    python benchmarks/control/looks.py '{"world": "nccl", ..., "ranks": 64, "limit_s": 60}'

With "ranks", the process forks that many (they share what is imported, so 128 fit a small machine) and ends
those that are left after limit_s. The calls are those of rank.measure for the first look of a visit: a
barrier, then the reduction of across_ranks; the samples come from the null backend. Rank 0 prints what it saw
as JSON.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from counted import Traffic, count

from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.null import NullBackend, NullCase
from busbw.rank.reduce_samples import across_ranks
from busbw.rank.world.base import PeerFailure, World
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi import MpiWorld
from busbw.rank.world.nccl import NcclWorld
from busbw.rank.world.select import create

# Of struct tcp_info (linux/tcp.h, since Linux 4.19): where bytes_received, bytes_sent and bytes_retrans lie.
_TCP_INFO_BYTES, _RECEIVED_AT, _SENT_AT, _AGAIN_AT = 216, 128, 200, 208
# Until ZeroMQ's own thread has written everything.
_SENDING_S = 0.1


def main(asked: dict[str, Any]) -> int:
    if "ranks" in asked:
        return fork_ranks(asked)
    run_rank(asked)
    return 0


def fork_ranks(asked: dict[str, Any]) -> int:
    """The first rank's exit status that is not 0; none may outlive ``limit_s`` seconds."""
    size, token = asked["ranks"], secrets.token_hex(16)
    running: dict[int, int] = {}
    for rank in range(size):
        if (pid := os.fork()) == 0:
            names = ("BUSBW_RANK", "BUSBW_LOCAL_RANK", "BUSBW_WORLD_SIZE", "BUSBW_LOCAL_SIZE", "BUSBW_TOKEN")
            os.environ.update(zip(names, (*map(str, (rank, rank, size, size)), token), strict=True))
            os._exit(forked_rank(asked))
        running[pid] = rank
    status, deadline_s = 0, time.monotonic() + asked["limit_s"]
    while running:
        for pid in list(running):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                status = status or os.waitstatus_to_exitcode(code)
            elif time.monotonic() > deadline_s:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return status


def forked_rank(asked: dict[str, Any]) -> int:
    try:
        run_rank(asked)
    except Exception:  # noqa: BLE001 (a child must not go on as its parent)
        traceback.print_exc()
        return 1
    return 0


def leave(failure: PeerFailure) -> None:
    print(failure, file=sys.stderr)
    os._exit(5)


def run_rank(asked: dict[str, Any]) -> None:
    world = create(identify(os.environ), asked["world"], leave)
    if asked.get("tcp") and isinstance(world, NcclWorld):
        world.board = None
    grid = Grid([collective("all_reduce")], [data_type("float")], [reduce_op("sum")], [0], [1024])
    case = NullBackend().prepare(expand(grid, 2, "null")[0])
    looks = [
        {
            "samples": samples,
            **time_looks(world, case, samples, asked["repeats"]),
            **count_look(world, case, samples),
        }
        for samples in asked["samples"]
    ]
    if world.rank == 0:
        print(json.dumps({"ranks": world.size, "looks": looks}), flush=True)
    world.barrier()
    world.close()


def reduce_look(world: World, case: NullCase, samples: int) -> None:
    """One look of the null backend over all ranks."""
    across_ranks(case.time(1, samples, 1), np.zeros(samples, np.int64), "max", world)


def time_looks(world: World, case: NullCase, samples: int, repeats: int) -> dict[str, list[int]]:
    """Nanoseconds of rank 0 in the barrier and in the reduction, look by look; the first is left out."""
    barrier_ns, reduction_ns = [], []
    for _ in range(repeats + 1):
        start_ns = time.perf_counter_ns()
        world.barrier()
        met_ns = time.perf_counter_ns()
        reduce_look(world, case, samples)
        barrier_ns.append(met_ns - start_ns)
        reduction_ns.append(time.perf_counter_ns() - met_ns)
    return {"barrier_ns": barrier_ns[1:], "reduction_ns": reduction_ns[1:]}


def count_look(world: World, case: NullCase, samples: int) -> dict[str, Any]:
    """The traffic of one look at rank 0: what passes its hub without a board, or its calls of MPI.
    Collective.
    """
    if isinstance(world, MpiWorld):
        return {"calls": count_mpi(world, case, samples)}
    assert isinstance(world, NcclWorld)
    board, world.board = world.board, None
    counted = {}
    if world.rank == 0:
        counted = count_tcp(world, case, samples)
    else:
        world.broadcast(None)
        world.barrier()
        reduce_look(world, case, samples)
        world.broadcast(None)
    world.board = board
    return counted


def count_tcp(world: NcclWorld, case: NullCase, samples: int) -> dict[str, Any]:
    """The others wait for a broadcast before the look and after it, so that nothing else passes meanwhile but
    heartbeats (one a second).
    """
    time.sleep(_SENDING_S)
    counting, tcp_before = count(world), tcp_bytes()
    world.broadcast(b"")
    start = counting.sent
    world.barrier()
    reduce_look(world, case, samples)
    received, sent = counting.received, counting.sent - start
    time.sleep(_SENDING_S)
    tcp_after = tcp_bytes()
    world.broadcast(b"")
    broadcast_bytes = (world.size - 1) * Traffic().plus([10]).tcp_bytes
    return {
        "received": dict(vars(received)),
        "sent": dict(vars(sent)),
        "tcp_received_bytes": tcp_after[0] - tcp_before[0],
        "tcp_sent_bytes": tcp_after[1] - tcp_before[1] - broadcast_bytes,
    }


def tcp_bytes() -> tuple[int, int]:
    """Received, and sent but for what was sent again, on all TCP connections of this process, as the kernel
    counts.
    """
    received = sent = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:
            continue  # closed meanwhile, or not TCP
        came, went, again = (
            int.from_bytes(info[at : at + 8], sys.byteorder) for at in (_RECEIVED_AT, _SENT_AT, _AGAIN_AT)
        )
        received, sent = received + came, sent + went - again
    return received, sent


class CountingComm:
    """A communicator whose calls are noted, with the bytes that each gives to MPI."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 (mpi4py, which only this world has)
        self._inner = inner
        self.calls: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        call = getattr(self._inner, name)

        def noted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
            self.calls.append((name, arguments[0].nbytes if arguments else 0))
            return call(*arguments, **named)

        return noted


def count_mpi(world: MpiWorld, case: NullCase, samples: int) -> list[tuple[str, int]]:
    """Name and bytes of every call that a look makes on this rank."""
    inner: Any = world.comm
    counting: Any = CountingComm(inner)
    world.comm = counting
    world.barrier()
    reduce_look(world, case, samples)
    world.comm = inner
    return list(counting.calls)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
