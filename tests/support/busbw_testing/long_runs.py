"""Runs that are still measuring when a test does something to them."""

from __future__ import annotations

from typing import Final

# Cases of a fraction of a second: some finish, the run takes many more.
LONG_MPI: Final = ("all_reduce", "-b", "8", "-e", "64K", "--case-time", "300ms", "--precision", "0.0001%")
# Without an end: no look takes time in the null backend, but there are very many of them.
ENDLESS_NULL: Final = (
    *("all_reduce", "-b", "8", "-e", "64M", "-n", "10000000000000"),
    *("--backend", "null", "--world", "nccl"),
)
WORLDS: Final = {"mpi": ("--ranks", "3", *LONG_MPI), "nccl": ("--ranks", "3", *ENDLESS_NULL)}
