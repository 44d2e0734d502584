"""One row of all_reduce as somebody writes it with mpi4py and numpy (``gpu/start.py --plain`` runs it)."""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

BYTES, WARMUP, CALLS = 8, 5, 20

world = MPI.COMM_WORLD
send = np.ones(BYTES // 4, np.float32)
receive = np.empty_like(send)
for _ in range(WARMUP):
    world.Allreduce(send, receive)
world.Barrier()
began = time.perf_counter()
for _ in range(CALLS):
    world.Allreduce(send, receive)
own_us = (time.perf_counter() - began) / CALLS * 1e6
slowest_us = world.reduce(own_us, op=MPI.MAX)
if world.rank == 0:
    print(f"{BYTES:>12} {BYTES // 4:>12} float {slowest_us:.2f}", flush=True)
