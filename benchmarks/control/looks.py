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
import sys
import time
import traceback
from typing import Any

import numpy as np

from busbw.model.collective import collective
from busbw.model.datatype import data_type, reduce_op
from busbw.plan.expand import Grid, expand
from busbw.rank.backends.null import NullBackend, NullCase
from busbw.rank.reduce_samples import across_ranks
from busbw.rank.world.base import PeerFailure, World
from busbw.rank.world.identity import identify
from busbw.rank.world.nccl import NcclWorld
from busbw.rank.world.select import create


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
        {"samples": samples, **time_looks(world, case, samples, asked["repeats"])}
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


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
