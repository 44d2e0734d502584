"""Logs as the tools write them, made here; numbers of published tables are carried over with their source."""

# ruff: noqa: E501 (tables have the width that their tools give them)

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from busbw.foreign.logs.assemble import assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.read_any import Reading, read_stream
from busbw.model.record import RunRecord

NEW_HEADING = (
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)

Command = Callable[..., tuple[int, str, str]]  # what the fixture of this name gives


@dataclass(frozen=True)
class Published:
    """A published table: rows as printed, the number of ranks that busbw / algbw gives, and the label."""

    name: str
    source: str
    ranks: int
    label: int | None
    rows: tuple[str, ...]
    average: str = ""
    prefix: str = ""
    average_fits: bool = True

    def text(self) -> str:
        """The log, in the layout of nccl-tests 2.13 and later."""
        lines = [
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 100"
        ]
        if self.label is not None:
            lines.append(
                f"#  Rank {self.label - 1} Group  0 Pid  14840 on node-171 device  3 [0x01] NVIDIA GB200"
            )
        lines += NEW_HEADING.splitlines()
        lines += [format_row(row) for row in self.rows]
        if self.average:
            lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {self.average} ", "#"]
        return "".join(f"{self.prefix}{line}\n" for line in lines)


def format_row(row: str) -> str:
    """A row with the widths of nccl-tests."""
    size, count, dtype, op, root, *numbers = row.split()
    line = f"{size:>12}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}"
    for start in range(0, len(numbers), 4):
        time, algbw, busbw, wrong = numbers[start : start + 4]
        line += f"  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>5}"
    return line


AWS = "awslabs/awsome-distributed-ai, micro-benchmarks/nccl-tests/README.md, 2024-04-23"
COREWEAVE = "coreweave/nccl-tests README.md, 2025-07-15"
NSIGHT = "awsankur/awesome-networking nccl-tests/all-reduce.md, 2024-08-20"
_PUBLISHED = (
    Published(
        "p4de 2x8",
        AWS,
        16,
        None,
        (
            "8 2 float sum -1 164.3 0.00 0.00 0 163.3 0.00 0.00 0",
            "65536 16384 float sum -1 227.4 0.29 0.54 0 225.5 0.29 0.54 0",
            "1048576 262144 float sum -1 309.4 3.39 6.35 0 307.3 3.41 6.40 0",
            "67108864 16777216 float sum -1 2644.6 25.38 47.58 0 2647.2 25.35 47.53 0",
            "1073741824 268435456 float sum -1 26217 40.96 76.79 0 26194 40.99 76.86 0",
            "2147483648 536870912 float sum -1 51406 41.78 78.33 0 51406 41.77 78.33 0",
        ),
        prefix="0: ",
    ),
    Published(
        "p5 2x8 excerpt",
        AWS,
        16,
        None,
        (
            "0 0 float sum -1 15.51 0.00 0.00 0 15.52 0.00 0.00 0",
            "67108864 16777216 float sum -1 996.0 67.38 126.33 0 1001.7 66.99 125.62 0",
            "134217728 33554432 float sum -1 1950.5 68.81 129.02 0 1725.6 77.78 145.83 0",
            "268435456 67108864 float sum -1 3010.8 89.16 167.17 0 3020.7 88.87 166.62 0",
            "536870912 134217728 float sum -1 3608.0 148.80 279.00 0 3599.7 149.14 279.64 0",
            "1073741824 268435456 float sum -1 6426.3 167.09 313.29 0 6426.1 167.09 313.29 0",
            "2147483648 536870912 float sum -1 9197.5 233.49 437.79 0 9195.2 233.54 437.89 0",
        ),
        "52.9753",
        "   [1,0]<stdout>:",
        average_fits=False,
    ),
    Published(
        "GB200 one rack",
        COREWEAVE,
        72,
        72,
        (
            "536870912 134217728 float sum -1 1806.7 297.16 586.06 0 1835.9 292.43 576.74 0",
            "1073741824 268435456 float sum -1 3108.8 345.38 681.17 0 2924.7 367.13 724.06 0",
            "2147483648 536870912 float sum -1 5589.1 384.22 757.78 0 5474.6 392.26 773.62 0",
            "4294967296 1073741824 float sum -1 10094 425.49 839.16 0 10141 423.54 835.32 0",
            "8589934592 2147483648 float sum -1 20299 423.16 834.57 0 20006 429.37 846.82 0",
        ),
        "745.53",
    ),
    Published(
        "GB200 two racks labelled 144",
        COREWEAVE,
        128,
        144,
        (
            "536870912 134217728 float sum -1 2156.8 248.92 493.94 0 2093.7 256.42 508.83 0",
            "1073741824 268435456 float sum -1 3574.4 300.40 596.10 0 3565.5 301.15 597.59 0",
            "2147483648 536870912 float sum -1 6264.0 342.83 680.30 0 6258.4 343.14 680.91 0",
            "4294967296 1073741824 float sum -1 11469 374.47 743.09 0 11435 375.61 745.36 0",
            "8589934592 2147483648 float sum -1 21493 399.65 793.06 0 21525 399.06 791.88 0",
            "17179869184 4294967296 float sum -1 42067 408.40 810.41 0 41557 413.41 820.36 0",
        ),
        "688.487",
    ),
    Published(
        "GB200 twenty racks",
        COREWEAVE,
        1440,
        1440,
        (
            "536870912 134217728 float sum -1 7108.4 75.53 150.95 0 7145.8 75.13 150.16 0",
            "1073741824 268435456 float sum -1 9805.7 109.50 218.85 0 9819.6 109.35 218.54 0",
            "2147483648 536870912 float sum -1 14980 143.36 286.52 0 15087 142.34 284.49 0",
            "4294967296 1073741824 float sum -1 24782 173.31 346.38 0 24975 171.97 343.71 0",
            "8589934592 2147483648 float sum -1 45004 190.87 381.48 0 44930 191.19 382.11 0",
            "17179869184 4294967296 float sum -1 84625 203.01 405.74 0 84828 202.53 404.77 0",
        ),
        "297.808",
    ),
    Published(
        "p4de 25 MiB",
        NSIGHT,
        16,
        None,
        ("26214400 6553600 float sum -1 2009.1 13.05 24.46 0 1873.9 13.99 26.23 0",),
        "25.3468",
        " 0: ",
    ),
)
PUBLISHED = {table.name: table for table in _PUBLISHED}


def read(text: str | bytes, path: str = "a.log") -> Reading:
    """What a text (or bytes) holds."""
    data = text if isinstance(text, bytes) else text.encode()
    return read_stream(io.BytesIO(data), path)


def imported(
    text: str | bytes, path: str = "a.log", *, op: str = "", ranks: int | None = None, **labels: str
) -> list[RunRecord]:
    """The records of all tables of a text."""
    reading = read(text, path)
    origin, given = replace(reading.origin, labels=labels), Given(op, ranks)
    return [
        assemble(table, replace(origin, table=number), given, "run")
        for number, table in enumerate(reading.tables, 1)
    ]


def kinds(record: RunRecord) -> list[str]:
    """Those of what was found wrong with the log."""
    return [finding.kind for finding in record.source.findings]


def rows_of(records: list[RunRecord]) -> set[tuple[Any, ...]]:
    """The rows that have a time: size, placement, time and bandwidth."""
    return {
        (case.size_bytes, case.placement, result.time_ns, result.algbw_gb_per_s)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


def _time(size: int, number: int) -> str:
    time = 20 + size / 250e3 + number % 97 / 10
    return f"{time:.2f}" if time < 100 else f"{time:.1f}" if time < 10_000 else f"{time:.0f}"


def nccl_table(number: int, program: str = "", device: str = "NVIDIA H100 80GB HBM3") -> str:
    """A table of all_reduce on 16 ranks with all that a test prints around it; other numbers for every one."""
    rows, total = [], 0.0
    for power in range(3, 32):
        cells = []
        for side in range(2):
            shown = _time(1 << power, number * 29 + power + side)
            algbw = (1 << power) / float(shown) / 1e3
            total += float(f"{algbw * 1.875:.2f}")
            cells.append(f"{shown} {algbw:.2f} {algbw * 1.875:.2f} 0")
        rows.append(format_row(f"{1 << power} {(1 << power) // 4} float sum -1 {' '.join(cells)}"))
    devices = [
        f"#  Rank {rank:2} Group  0 Pid {4000 * number + rank:6} on {f'node{rank // 8}':>10} device {rank % 8:2}"
        f" [0000:{rank:02x}:00] {device}"
        for rank in range(16)
    ]
    lines = [
        "# Collective test starting: all_reduce_perf",
        *program.splitlines(),
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20",
        "#\n# Using devices",
        *devices,
        *NEW_HEADING.splitlines(),
        *rows,
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {total / 58:g} ",
        "#\n# Collective test concluded: all_reduce_perf",
    ]
    return "\n".join(lines) + "\n"


def _old_table(number: int) -> str:
    head = (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n#\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
    )
    rows = []
    for power in range(3, 32):
        line = f"{1 << power:12}  {(1 << power) // 4:12}  {'float':>6}  {'sum':>6}"
        for side in range(2):
            shown = _time(1 << power, number * 29 + power + side)
            algbw = (1 << power) / float(shown) / 1e3
            error = ("0e+00", "1e-06", "2e-07", "N/A")[(power + number + side) % 4]
            line += f"  {shown:>7}  {algbw:6.2f}  {algbw * 1.875:6.2f}  {error:>5}"
        rows.append(line)
    return head + "\n".join(rows) + "\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 101.5 \n#\n"


def _nccom_table(number: int) -> str:
    text = (
        f"nccom-test -r 16 --minbytes 1kb --maxbytes {512 + number}mb allr\n"
        "       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n"
    )
    for power in range(10, 30):
        shown = f"{50 + (1 << power) / 9e3 + number % 7 / 10:.2f}"
        algbw = (1 << power) / float(shown) / 1e3
        text += (
            f"{1 << power:14}{1 << power - 2:16}{'fp32':>8}{shown:>16}{algbw:15.2f}{1.875 * algbw:15.2f}\n"
        )
    return text + f"Avg bus bandwidth:      {40 + number}.4325GB/s\n"


def _osu_table(number: int) -> str:
    head = f"# OSU MPI Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n{'# Size':10}{'Avg Latency(us)':>20}\n"
    return head + "".join(
        f"{1 << power:<10}{_time(1 << power, number + power):>20}\n" for power in range(2, 21)
    )


def _imb_table(number: int) -> str:
    rule = "#" + "-" * 64
    rows = "".join(
        f"{power and 2 << power:13}{1000:13}{4 + (2 << power) / 9e3:13.2f}{4.2 + (2 << power) / 9e3:13.2f}{4.1 + number % 9 / 100 + (2 << power) / 9e3:13.2f}\n"
        for power in range(22)
    )
    return (
        f"\n{rule}\n# Benchmarking Allreduce \n# #processes = {2 + number % 9} \n{rule}\n"
        f"       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n{rows}"
    )


TOOL_TABLES: dict[str, Callable[[int], str]] = {
    "nccl-tests": nccl_table,
    "nccl-tests with error": _old_table,
    "rccl-tests": lambda number: nccl_table(
        number, "rccl-tests: Version develop:1234567", "AMD Instinct MI300X"
    ),
    "nccom-test": _nccom_table,
    "osu": _osu_table,
    "imb": _imb_table,
}


# ---- JSON and CSV ----------------------------------------------------------------------------------------


def nccl_report(rows: int = 6) -> dict[str, Any]:
    """The file of nccl-tests -J: all_reduce on 4 ranks, each size twice the one before."""
    device = {"group": 0, "pid": 1, "hostname": "h", "device_hex": "0000:05:00", "device_info": "NVIDIA H100"}

    def side(size: int, time: float) -> dict[str, Any]:
        algbw = size / time / 1e3
        return {"time": time, "alg_bw": algbw, "bus_bw": 1.5 * algbw, "nwrong": 0}

    results = [
        {
            "size": 1024 << k,
            "count": 256 << k,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": side(1024 << k, 10.001234 + k),
            "in_place": side(1024 << k, 11.0 + k),
        }
        for k in range(rows)
    ]
    busbw = [row[place]["bus_bw"] for row in results for place in ("out_of_place", "in_place")]
    return {
        "version": 3,
        "start_time": "2026-09-26 10:00:00",
        "args": ["./build/all_reduce_perf", "-b", "1M"],
        "env": ["NCCL_DEBUG=INFO", "AWS_SECRET_ACCESS_KEY=abc", "HOME=/root", "NCCL_AUTH_TOKEN=x"],
        "nccl_version": 22809,
        "config": {"iterations": 20, "devices": [{"rank": r, "device": r, **device} for r in range(4)]},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": sum(busbw) / len(busbw), "okay": "unchecked"},
        "end_time": "2026-09-26 10:00:09",
    }


def nccom_report(rows: int = 6) -> dict[str, Any]:
    """The file of nccom-test --report-to-json-file: all_reduce on 4 ranks."""
    entries = []
    for k in range(rows):
        size, time = 1024 << k, 10.0 + k
        algbw = size / time / 1e3
        words = {"size(B)": size, "count(elems)": size // 4, "type": "fp32", "time:avg(us)": time}
        entries.append(words | {"algbw(GB/s)": algbw, "busbw(GB/s)": 1.5 * algbw})
    return {"results": entries}


def aws_csv(*rows: str) -> str:
    """The results of the AWS kit's converter."""
    sides = [
        f"{side}_{name}"
        for side in ("OOP", "IP")
        for name in ("Time_us", "AlgBW_GBps", "BusBW_GBps", "Errors")
    ]
    titles = ("Size_Bytes", "Size_KB", "Size_MB", "Count", "Data_Type", "Operation", "Root", *sides)
    return "".join(f"{line}\n" for line in (",".join(titles), *rows))


AWS_ROWS = (
    "1073741824,1048576.0,1024.0,268435456,float,sum,-1,26217.0,40.96,76.79,0,26194.0,40.99,76.86,0",
    "2147483648,2097152.0,2048.0,536870912,float,sum,-1,51406.0,41.78,78.33,0,51406.0,41.77,78.33,2",
    "4294967296,4194304.0,4096.0,1073741824,float,sum,-1,102812.0,41.77,78.33,0,102812.0,41.77,78.33,0",
)
