"""One rank of a real multi-process test: `program.py SCENARIO`, identity from the environment, JSON out."""

import json
import os
import sys
import time

import numpy as np

from busbw.errors import BusbwError
from busbw.rank.world import nccl, select
from busbw.rank.world.base import PeerFailure, World, distinct_hosts
from busbw.rank.world.identity import identify
from busbw.rank.world.sockets import Timing


def say(**fields: object) -> None:
    """One line, whole, with a time that processes of one host can compare."""
    sys.stdout.write(json.dumps({"at_s": time.monotonic(), **fields}) + "\n")
    sys.stdout.flush()


def on_failure(failure: PeerFailure) -> None:
    say(event="on_failure", rank=failure.rank, host=failure.host, reason=failure.reason)


def join() -> World:
    identity = identify(os.environ)
    heartbeat_s = os.environ.get("TEST_HEARTBEAT_S")
    if heartbeat_s is None or identity is None:
        kind = os.environ.get("TEST_WORLD", "auto")
        return select.create(identity, kind, on_failure)  # type: ignore[arg-type]
    interval_s = float(heartbeat_s)
    timing = Timing(heartbeat_interval_s=interval_s, heartbeat_timeout_s=5 * interval_s)
    return nccl.connect(identity, on_failure, timing)


def collectives(world: World) -> None:
    """Every call once, with sizes that need several frames or chunks."""
    rank, size = world.rank, world.size
    world.barrier()
    plan = world.broadcast(os.urandom(3_000_000) if rank == 0 else None)
    empty = world.broadcast(b"" if rank == 0 else None)
    gathered = world.gather(bytes([rank]) * (700_000 * rank))
    digests = world.gather(plan)
    maximum = world.max(np.array([[rank, -rank], [0.5, -np.inf]]))
    total = world.sum(np.full((2, 3), rank, dtype=np.int64))
    many = world.sum(np.full(1_500_000, 0.1 * rank))
    alike = world.max(many)
    say(
        event="results",
        kind=world.kind,
        rank=rank,
        size=size,
        members=[[member.rank, member.host, member.pid, member.local_rank] for member in world.members],
        hosts=list(distinct_hosts(world.members)),
        empty=len(empty),
        same_plan=None if digests is None else len(set(digests)),
        gathered=None if gathered is None else [[len(part), sorted(set(part))] for part in gathered],
        maximum=maximum.tolist(),
        total=total.tolist(),
        total_type=total.dtype.name,
        board=getattr(world, "board", None) is not None,
        many=[float(many[0]), float(many[-1]), bool((alike == many).all())],
    )
    world.close()
    world.close()


def block(world: World) -> None:
    """Rank 0 waits in a barrier that never completes; the others are busy elsewhere."""
    say(event="joined", rank=world.rank, pid=os.getpid())
    if world.rank == 0:
        world.barrier()
    time.sleep(60)


def give_up(world: World) -> None:
    """Rank 1 cannot go on; the others wait for it."""
    if world.rank == 1:
        world.fail("no room for the buffers")
    world.barrier()


def out_of_step(world: World) -> None:
    if world.rank == 1:
        world.max(np.zeros(1))
    world.barrier()


def linger(world: World) -> None:
    """Rank 0 has nothing more to do long before the others, which is no failure."""
    if world.rank > 0:
        time.sleep(0.5)
        world.gather(b"x")
    else:
        world.gather(b"x")
    world.close()
    say(event="closed", rank=world.rank)


SCENARIOS = {function.__name__: function for function in (collectives, block, give_up, out_of_step, linger)}


def main() -> int:
    try:
        SCENARIOS[sys.argv[1]](join())
    except BusbwError as error:
        say(
            event="error",
            type=type(error).__name__,
            message=error.message,
            hint=error.hint,
            rank=error.rank,
            host=error.host,
        )
        sys.stdout.flush()
        # What a worker does: nothing that waits for the other ranks.
        os._exit(int(error.exit_code))
    return 0


if __name__ == "__main__":
    sys.exit(main())
