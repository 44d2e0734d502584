"""One rank of a PyTorch job: a collective alone and beside matrix products, in turn.

    python overlap_job.py RANK RANKS PORT OPERATION N BYTES...

Rank 0 prints a line a size: bytes, us alone, times as long beside, share of the products left, and in how
many rounds products lasted until the last call's end.
"""

from __future__ import annotations

import faulthandler
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist

LEAD, CALLS, ROUNDS, LIMIT_S = 5, 20, 9, 60
# Products are queued for so many times as long as the calls take alone: short calls wait for a whole product.
LONGEST_SHORT, LONGEST = 12, 3
SHORT_BYTES = 8 << 20


class Job:
    """The rank's matrices and streams."""

    def __init__(self, n: int) -> None:
        self.left, self.right = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.result = torch.empty_like(self.left)
        self.stream = torch.cuda.Stream()
        self.products(3)
        torch.cuda.synchronize()

    def products(self, count: int) -> list[torch.cuda.Event]:
        """Queued; the events are of the beginning and of each product's end."""
        with torch.cuda.stream(self.stream):
            events = [recorded()]
            for _ in range(count):
                torch.mm(self.left, self.right, out=self.result)
                events.append(recorded())
        return events

    def calls(self, call: Callable[[], object]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Behind some untimed ones, in which the ranks wait for each other."""
        for _ in range(LEAD):
            call()
        began = recorded()
        for _ in range(CALLS):
            call()
        return began, recorded()

    def one_round(self, call: Callable[[], object], times: int) -> tuple[float, float, float, bool]:
        """Milliseconds of the calls alone and beside, the share of products left, and whether they lasted."""
        began, ended = self.calls(call)
        torch.cuda.synchronize()
        alone = slowest(began.elapsed_time(ended))
        events = self.products(20)
        torch.cuda.synchronize()
        each = events[0].elapsed_time(events[-1]) / 20
        events = self.products(int(times * (1 + LEAD / CALLS) * alone / each) + 20)
        began, ended = self.calls(call)
        torch.cuda.synchronize()
        beside = began.elapsed_time(ended)
        inside = [event for event in events if 0 < began.elapsed_time(event) < beside]
        spent = inside[0].elapsed_time(inside[-1]) if len(inside) > 1 else 0.0
        left = (len(inside) - 1) * each / spent if spent else float("nan")
        return alone, slowest(beside), left, ended.elapsed_time(events[-1]) > 0


def recorded() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def slowest(milliseconds: float) -> float:
    value = torch.tensor(milliseconds, device="cuda", dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return float(value.item())


def main() -> None:
    rank, ranks, port, operation, n, *sizes = sys.argv[1:]
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=rank, WORLD_SIZE=ranks)
    torch.cuda.set_device(int(rank))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(rank)))
    job = Job(int(n))
    for size in map(int, sizes):
        whole = torch.zeros(size // 4, device="cuda")
        own = whole.chunk(int(ranks))[int(rank)].clone()
        gather, reduce = partial(dist.all_gather_into_tensor, whole, own), partial(dist.all_reduce, whole)
        call = gather if operation == "all_gather" else reduce
        times = LONGEST_SHORT if size <= SHORT_BYTES else LONGEST
        rounds = [job.one_round(call, times) for _ in range(ROUNDS + 1)][1:]
        alone = statistics.median(each[0] for each in rounds) * 1e3 / CALLS
        ratio = statistics.median(each[1] / each[0] for each in rounds)
        left = statistics.median(each[2] for each in rounds)
        if rank == "0":
            print(size, f"{alone:.2f} {ratio:.3f} {left:.3f} {sum(each[3] for each in rounds)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
