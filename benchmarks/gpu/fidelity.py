"""busbw against nccl-tests itself: separate launches, alternated, same libnccl, one process per GPU.

Every round runs, for the small sizes (8 B to 16 MiB) and the large ones (32 MiB to --last), each operation
with nccl-tests, all of them with busbw (under mpirun and, in every other round, with torchrun's variables and
no MPI), and each with nccl-tests again. The bound for a difference is the larger of 2 % and the half-width of
nccl-tests against itself.

    python benchmarks/gpu/fidelity.py --nccl-tests BUILD_DIR --ranks 4 --rounds 5 --output fidelity.json
    ... --variant graph     # -G 10: CUDA graphs
    ... --variant window    # -R 2: symmetric windows
    ... --variant spread    # alltoallv, most to distant ranks; --variant matrix: uneven between all ranks
    ... --variant split --ranks 4 --ranks-a-host 2    # two groups at once; see below
    ... --last 8G --factor 4 --seconds 240    # larger, fewer sizes; another round only where it fits
    ... --first 32M                           # the large sizes alone

With ``--ranks-a-host`` every so many ranks have a host's name of their own (``unshare --uts``; root), the
first of each on the first GPU: more ranks than GPUs, joined by sockets beyond a host, for what two GPUs
cannot show. The GPUs must be shared by CUDA's multi-process service.

nccl-tests must be built with MPI=1. It is made to load the libnccl that busbw measures by LD_LIBRARY_PATH.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from busbw.machine.native.nccl import load_nccl
from busbw.units import parse_size

ALL = "all_reduce,all_gather,reduce_scatter,alltoall,broadcast,reduce,gather,scatter,sendrecv,hypercube"


@dataclass(frozen=True)
class Variant:
    """What is compared. ``ranges``: first size, largest last size ("": --last), calls, warm-up. ``flags`` are
    both sides' words, ``ours`` busbw's alone, ``theirs`` nccl-tests' variables; MATRIX in them is the path of
    a file of counts, whose size is its own.
    """

    ranges: tuple[tuple[str, str, int, int], ...] = (("8", "16M", 1000, 100), ("32M", "", 20, 5))
    flags: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    theirs: Mapping[str, str] = field(default_factory=dict)
    ops: str = ALL

    @property
    def has_own_size(self) -> bool:
        return MATRIX in self.ours


MATRIX = "MATRIX"
MATRIX_BYTES = "256M"  # what the busiest rank sends at most
VARIANTS = {
    "plain": Variant(),
    # A graph of so many calls, launched 10 times.
    "graph": Variant((("8", "16M", 100, 20), ("32M", "", 10, 5)), flags=("-G", "10")),
    "window": Variant(flags=("-R", "2")),
    "spread": Variant(ours=("--spread", "1"), theirs={"NCCL_TESTS_ALLTOALLV_SPREAD": "1"}, ops="alltoallv"),
    "matrix": Variant(
        ((MATRIX_BYTES, MATRIX_BYTES, 20, 5),),
        ours=("--matrix", MATRIX),
        theirs={"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": MATRIX},
        ops="alltoallv",
    ),
    "split": Variant(
        (("8", "1M", 100, 20), ("2M", "", 20, 5)),
        ours=("--split", "DIV 2"),
        theirs={"NCCL_TESTS_SPLIT": "DIV 2"},
        ops="all_reduce,all_gather,reduce_scatter,alltoall",
    ),
}
TELLING = 0.05
Times = dict[tuple[int, str], float]
Arms = dict[str, dict[str, dict[str, float]]]  # operation, arm, "size placement": us


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ops", help="default: all that the variant is of")
    parser.add_argument("--variant", choices=tuple(VARIANTS), default="plain")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--first", default="8", help="first size: the small sizes are left out beyond theirs")
    parser.add_argument("--last", default="2G", help="last size; three such buffers must fit")
    parser.add_argument("--factor", default="2", help="between sizes")
    parser.add_argument(
        "--calls", type=int, help="for all sizes, in one launch; default: fewer for the larger, in a second"
    )
    parser.add_argument(
        "--ranks-a-host", type=int, default=0, help="NCCL's hosts have so many ranks; default: one host"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="start no third or later round that would end after this long",
    )
    parser.add_argument("--output", default="fidelity.json")
    options = parser.parse_args()
    options.ops = options.ops or VARIANTS[options.variant].ops
    nccl = load_nccl()
    print(f"NCCL {nccl.version} {nccl.path}, {options.ranks} ranks, {options.variant}")
    rounds: list[Arms] = []
    started = time.monotonic()
    for number in range(options.rounds):
        if number >= 2 and (time.monotonic() - started) * (number + 1) / number > options.seconds:
            break
        rounds.append({})
        joined = number % 2 == 0 or bool(options.ranks_a_host)
        for _ in one_round(rounds[-1], options, nccl.path, joined=joined):
            Path(options.output).write_text(
                json.dumps({"nccl": nccl.version, "ranks": options.ranks, "rounds": rounds})
            )
        print(f"round {number + 1} after {time.monotonic() - started:.0f} s", file=sys.stderr)
    print_table(rounds)


def one_round(found: Arms, options: argparse.Namespace, nccl_path: str, *, joined: bool) -> Iterator[None]:
    """Fill in the times of every operation; yields when a range of sizes is whole. ``joined``: busbw's ranks
    are mpirun's, else they meet without MPI.
    """
    ops = options.ops.split(",")
    variant = VARIANTS[options.variant]
    path = matrix(Path(options.output).resolve().parent, options.ranks) if variant.has_own_size else ""
    variables = {name: value.replace(MATRIX, path) for name, value in variant.theirs.items()}
    words = [word.replace(MATRIX, path) for word in variant.ours]
    words += ["--no-preflight"] if options.ranks_a_host else []
    mpi = [options.mpirun, "-np", str(options.ranks), *hosts(options.ranks_a_host)]

    def keep(op: str, arm: str, times: Times) -> None:
        found.setdefault(op, {}).setdefault(arm, {}).update(
            {f"{size} {placement}": us for (size, placement), us in times.items()}
        )

    for first, last, calls, warmup in ranges(variant, options.first, options.last, options.calls):
        sizes = ["-b", first, "-e", last, "-f", options.factor]
        how = ["-n", str(calls), "-w", str(warmup), "-c", "0", *variant.flags]
        ours = [sys.executable, "-m", "busbw", "run", ",".join(ops), "--format", "csv", "--backend", "nccl"]
        ours += [*([] if variant.has_own_size else sizes), *how, *words]

        def theirs(op: str, sweep: tuple[str, ...] = (*sizes, *how)) -> Times:
            command = [*mpi, str(options.nccl_tests / f"{op}_perf"), *sweep, "-a", "3"]
            return read_nccl_tests(output(command, nccl_path, **variables))

        for op in ops:
            keep(op, "nccl-tests", theirs(op))
        text = output([*mpi, *ours], nccl_path) if joined else plain_ranks(ours, options.ranks, nccl_path)
        for op, times in read_busbw(text).items():
            keep(op, "busbw", times)
        for op in ops:
            keep(op, "nccl-tests again", theirs(op))
        yield


def hosts(ranks_a_host: int) -> list[str]:
    """What mpirun starts, so that NCCL sees hosts of so many ranks: this, and the program after it."""
    if not ranks_a_host:
        return []
    rank, each = "OMPI_COMM_WORLD_RANK", ranks_a_host
    script = f"hostname host$(({rank} / {each})); export CUDA_VISIBLE_DEVICES=$(({rank} % {each}))"
    return ["unshare", "--uts", "bash", "-c", f'{script} NCCL_TESTS_DEVICE=0; exec "$@"', "bash"]


def matrix(folder: Path, ranks: int) -> str:
    """The path of a file of bytes from rank (row) to rank (column): each sends twice as much to the next but
    one as to the next, and so on; rank 1 half as much again as rank 0, and so on.
    """
    path = folder / "matrix.txt"
    # The busiest rank sends no more than nccl-tests' -e holds.
    unit = parse_size(MATRIX_BYTES) // ((ranks + 1) * (2**ranks - 1)) // 16 * 16
    rows = ([((2 + rank) * unit) << (to - rank) % ranks for to in range(ranks)] for rank in range(ranks))
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return str(path)


def ranges(variant: Variant, first: str, last: str, calls: int | None) -> list[tuple[str, str, int, int]]:
    """Those of the variant that have sizes from the first to the last, without their others; with ``calls``
    all as one.
    """
    if calls:
        return [(max(variant.ranges[0][0], first, key=parse_size), variant.ranges[-1][1] or last, calls, 5)]
    return [
        (max(begin, first, key=parse_size), min(end or last, last, key=parse_size), calls, warmup)
        for begin, end, calls, warmup in variant.ranges
        if parse_size(begin) <= parse_size(last) and parse_size(first) <= parse_size(end or last)
    ]


def output(command: list[str], nccl_path: str, **variables: str) -> str:
    start = time.monotonic()
    env = {**environ(nccl_path), **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    print(f"{time.monotonic() - start:6.1f} s  {' '.join(command)}", file=sys.stderr, flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def environ(nccl_path: str) -> dict[str, str]:
    folder = str(Path(nccl_path).parent)
    return {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def plain_ranks(command: list[str], ranks: int, nccl_path: str) -> str:
    """The variables that torchrun sets, without torchrun: no MPI anywhere."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        **environ(nccl_path),
        "TORCHELASTIC_RUN_ID": f"fidelity-{port}",
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    text, _ = processes[0].communicate(timeout=300)
    if any(process.wait() for process in processes):
        raise SystemExit(f"{' '.join(command)} failed\n{text}")
    return text


def read_nccl_tests(text: str) -> Times:
    """Rows are size, count, type, [redop, root,] then time, algbw, busbw, #wrong of both placements."""
    times: Times = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 12 and words[0].isdigit() and words[2] == "float":
            times[int(words[0]), "out-of-place"] = float(words[-8])
            if words[-4] != "N/A":
                times[int(words[0]), "in-place"] = float(words[-4])
    return times


def read_busbw(text: str) -> dict[str, Times]:
    found: dict[str, Times] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["time_ns"]:
            times = found.setdefault(row["collective"], {})
            times[int(row["size_bytes"]), row["placement"]] = float(row["time_ns"]) / 1e3
    return found


@dataclass(frozen=True)
class Compared:
    """One size and placement over all rounds. ``ratio`` is busbw's time over nccl-tests'."""

    op: str
    key: str  # "size placement"
    theirs_us: float
    ratio: float
    mpirun: float  # the ratio of the rounds under mpirun
    alone: float  # of those without MPI; nan where there was none
    self_half: float
    bound: float
    verdict: str


def compare(all_rounds: list[Arms]) -> list[Compared]:
    """The last round may be cut short: it counts where it has the size."""
    found = []
    for op, arms in all_rounds[0].items():
        for key in arms["busbw"]:
            if key.startswith("0 ") or key not in arms["nccl-tests"]:
                continue  # rounds to nothing: no data moves
            rounds = [r for r in all_rounds if key in r.get(op, {}).get("nccl-tests again", {})]
            theirs = np.log([[r[op][arm][key] for arm in ("nccl-tests", "nccl-tests again")] for r in rounds])
            self_half = half_width(theirs[:, 1] - theirs[:, 0])
            bound = max(0.02, self_half)
            ours = np.log([r[op]["busbw"][key] for r in rounds]) - theirs.mean(axis=1)
            ratio = float(np.median(ours))
            verdict = "same" if abs(ratio) <= bound else "DIFFERS"
            # Where nccl-tests differs that much from itself, agreement shows little.
            verdict = "cannot tell" if verdict == "same" and bound > TELLING else verdict
            ways = [
                float(np.exp(np.median(part))) if len(part) else math.nan for part in (ours[::2], ours[1::2])
            ]
            middle = float(np.exp(np.median(theirs)))
            found.append(Compared(op, key, middle, math.exp(ratio), *ways, self_half, bound, verdict))
    return found


def print_table(rounds: list[Arms]) -> None:
    print(f"{len(rounds)} rounds")
    print(f"{'':>42} {'nccl-tests':>11} {'busbw':>7} {'A/A +-':>7} {'bound':>6}  verdict")
    for row in compare(rounds):
        print(
            f"{row.op + ' ' + row.key:>42} {row.theirs_us:>11.2f} {row.ratio:>7.3f}"
            f" {row.self_half:>7.1%} {row.bound:>6.1%}  {row.verdict}"
        )


# Student's t, two-sided 95 %, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def half_width(logs: np.ndarray) -> float:
    """Half-width of the 95 % interval of the mean A/A log-ratio over rounds."""
    freedom = len(logs) - 1
    return float(logs.std(ddof=1) / math.sqrt(len(logs)) * T_95[min(freedom, 9)]) if freedom else math.inf


if __name__ == "__main__":
    main()
