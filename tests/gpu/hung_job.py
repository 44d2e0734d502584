"""A rank of a PyTorch job that hangs in a chosen way; it writes its flight recorder's dump after a while.

    hung_job.py MODE RANK RANKS PORT FOLDER

MODE: skip (rank 1 leaves one all_reduce out), stop (it is stopped from outside), kill (it ends by itself),
size (it calls another size; NCCL waits, or ends with an error).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

CALLS = 300
DUMP_AFTER_S = 12.0


def main(mode: str, rank: int, ranks: int, port: int, folder: Path) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCH_FR_BUFFER_SIZE": "2000"}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    data = torch.ones(1 << 20, device="cuda")
    for _ in range(CALLS):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    threading.Thread(target=dump, args=(folder / f"nccl_trace_rank_{rank}",), daemon=True).start()
    (folder / f"ready{rank}").write_text(str(os.getpid()))
    late = rank == 1
    if late and mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if late and mode == "skip":
        read_the_next_batch()
    if late and mode == "stop":
        while True:
            dist.all_reduce(data)
            torch.cuda.synchronize()
    size = 1 << 10 if late and mode == "size" else 1 << 20
    while True:
        dist.all_reduce(data[:size])
        torch.cuda.synchronize()


def read_the_next_batch() -> None:
    time.sleep(600)


def dump(file: Path) -> None:
    time.sleep(DUMP_AFTER_S)
    file.write_bytes(torch._C._distributed_c10d._dump_nccl_trace())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
