"""A PyTorch job: the time of one all_gather of each size, in us, on the slowest rank.

python tuned_job.py RANK RANKS PORT BYTES...
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

CALLS, ROUNDS = 50, 9


def main() -> None:
    rank, ranks, port, *sizes = sys.argv[1:]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=rank, WORLD_SIZE=ranks)
    torch.cuda.set_device(int(rank))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(rank)))
    for size in map(int, sizes):
        whole = torch.empty(size // 4, device="cuda")
        own = whole.chunk(int(ranks))[int(rank)].clone()
        times = [one_round(whole, own) for _ in range(ROUNDS + 1)][1:]
        slowest = torch.tensor(sorted(times)[ROUNDS // 2], device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        if rank == "0":
            print(f"us {size} {slowest.item():.3f}", flush=True)
    dist.destroy_process_group()


def one_round(whole: torch.Tensor, own: torch.Tensor) -> float:
    """Microseconds a call."""
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(CALLS // 5):
        dist.all_gather_into_tensor(whole, own)
    began.record()
    for _ in range(CALLS):
        dist.all_gather_into_tensor(whole, own)
    ended.record()
    torch.cuda.synchronize()
    return float(began.elapsed_time(ended)) * 1e3 / CALLS


if __name__ == "__main__":
    main()
