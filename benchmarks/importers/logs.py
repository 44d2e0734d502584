"""Logs as the tools print them, of any number of rows: numbers that agree with each other, other ones in every
table, and all that stands around a table.
"""

# ruff: noqa: E501 (tables have the width that their tools give them)

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

RANKS: Final = 16
_FACTOR: Final = 2 * (RANKS - 1) / RANKS
_NCCL_ROWS: Final = 29
_COLUMNS: Final = (
    f"#\n#{'out-of-place':>74}{'in-place':>34}          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
    "     (us)  (GB/s)  (GB/s)       \n"
)
_END: Final = (
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {average} \n#\n"
    "# Collective test concluded: all_reduce_perf\n"
)
Lines = Iterator[str]


def _time(size: int, number: int) -> str:
    """Microseconds, as nccl-tests prints them; another one from row to row."""
    time = 20.0 + size / 250e3 + number % 97 / 10
    return f"{time:.2f}" if time < 100 else f"{time:.1f}" if time < 10_000 else f"{time:.0f}"


def _side(size: int, number: int) -> str:
    shown = _time(size, number)
    algbw = size / float(shown) / 1e3
    return f"  {shown:>7}  {algbw:6.2f}  {algbw * _FACTOR:6.2f}  {0:>5}"


def _nccl_row(size: int, number: int) -> str:
    cells = _side(size, number) + _side(size, number + 3)
    return f"{size:>12}  {size // 4:>12}  {'float':>8}  {'sum':>6}  {-1:>6}{cells}\n"


def _devices(number: int) -> str:
    return "# Using devices\n" + "".join(
        f"#  Rank {rank:2d} Group  0 Pid {1000 + number % 900_000 + rank:6d} on {f'node{rank // 8}':>10}"
        f" device {rank % 8:2d} [0000:{rank % 8:02x}:00] NVIDIA H100 80GB HBM3\n"
        for rank in range(RANKS)
    )


def nccl_tests(rows: int) -> Lines:
    """Tables of 29 rows with the header, the 16 devices and the footer that nccl-tests prints since 2.13."""
    for start in range(0, rows, _NCCL_ROWS):
        yield "# Collective test starting: all_reduce_perf\n"
        yield "# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 100\n#\n"
        yield _devices(start) + _COLUMNS
        yield from (_nccl_row(8 << number, start + number) for number in range(_NCCL_ROWS))
        yield _END.format(average=50 + start % 7 / 10)


def one_table(rows: int) -> Lines:
    """One table: sweeps from 8 B to 4 GiB, one after the other."""
    yield _COLUMNS
    yield from (_nccl_row(8 << number % 30, number) for number in range(rows))


def nccom_test(rows: int) -> Lines:
    """Tables of 20 rows below their command."""
    for start in range(0, rows, 20):
        yield "nccom-test -r 16 --minbytes 1kb --maxbytes 512mb allr\n"
        yield "       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n"
        for number in range(20):
            size = 1024 << number
            time = round(50 + size / 9e3 + (start + number) % 97 / 10, 2)
            rate = size / time / 1e3
            yield f"{size:14d}{size // 4:16d}{'fp32':>8}{time:16.2f}{rate:15.2f}{_FACTOR * rate:15.2f}\n"
        yield f"Avg bus bandwidth:      {40 + start % 9}.4325GB/s\n"


def osu_full(rows: int) -> Lines:
    """The same with -f: more columns."""
    for start in range(0, rows, 19):
        yield "# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n"
        yield "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
        for number in range(19):
            time = 3.1 + (4 << number) / 9e3 + (start + number) % 97 / 10
            yield f"{4 << number:<10d}{time:18.2f}{time * 0.9:18.2f}{time * 1.1:18.2f}{1000:12d}\n"


def imb(rows: int) -> Lines:
    """Tables of 24 rows, for other numbers of processes in turn."""
    rule = "#" + "-" * 64
    yield "# MPI_Datatype                   :   MPI_BYTE\n# MPI_Datatype for reductions    :   MPI_FLOAT\n"
    for start in range(0, rows, 24):
        yield f"\n{rule}\n# Benchmarking Allreduce\n# #processes = {2 << start // 24 % 5}\n{rule}\n"
        yield "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
        for number in range(24):
            size = number and 2 << number
            time = 3.1 + size / 9e3 + (start + number) % 97 / 10
            yield f"{size:13d}{1000:13d}{time * 0.9:13.2f}{time:13.2f}{time * 0.95:13.2f}\n"


def with_prefix(lines: Lines, prefix: str) -> Lines:
    """Every line behind what a launcher puts there."""
    for text in lines:
        yield from (f"{prefix}{line}\n" for line in text.splitlines())


def with_stamps(lines: Lines) -> Lines:
    """Every line behind another time."""
    numbers = count()
    for text in lines:
        for line, number in zip(text.splitlines(), numbers, strict=False):
            second = f"{number // 60 % 60:02d}:{number % 60:02d}.{number * 7919 % 1_000_000:06d}"
            yield f"2026-11-21T18:{second}Z {line}\n"


def with_nccl(lines: Lines, every: int = 10) -> Lines:
    """A line of NCCL between every so many others."""
    for number, text in enumerate(lines):
        yield text
        if number % every == 0:
            channel = f"Channel {number % 32:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM"
            yield f"node1:14:20 [{number % 8}] NCCL INFO {channel}\n"


LOGS: Final[dict[str, Callable[[int], Lines]]] = {
    "nccl-tests, one table": one_table,
    "nccl-tests, tables of 29 rows": nccl_tests,
    "nccl-tests, time stamps": lambda rows: with_stamps(nccl_tests(rows)),
    "nccl-tests, NCCL_DEBUG=INFO": lambda rows: with_nccl(nccl_tests(rows)),
    "nccom-test, tables of 20 rows": nccom_test,
    "OSU -f, tables of 19 rows": osu_full,
    "IMB, tables of 24 rows, kubectl": lambda rows: with_prefix(imb(rows), "[pod/imb-0/main] "),
}
