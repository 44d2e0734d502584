"""busbw against nccl-tests itself: separate launches, alternated, same libnccl, one process per GPU.

Every round runs nccl-tests, busbw under mpirun, nccl-tests again and busbw with torchrun's variables and no
MPI, for the small sizes (8 B to 16 MiB, n = 1000) and the large ones (32 MiB to 2 GiB, n = 20). The bound for
a difference is the larger of 2 % and the half-width of nccl-tests against itself.

    python benchmarks/gpu/fidelity.py --nccl-tests BUILD_DIR --ranks 4 --rounds 5 --output fidelity.json

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
from pathlib import Path

import numpy as np

from busbw._native.nccl import load_nccl

RANGES = (("8", "16M", 1000, 100), ("32M", "2G", 20, 5))  # first size, last size, calls, warm-up
Times = dict[tuple[int, str], float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ops", default="all_reduce,all_gather")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no round after this long")
    parser.add_argument("--output", default="fidelity.json")
    options = parser.parse_args()
    nccl = load_nccl()
    print(f"NCCL {nccl.version} {nccl.path}, {options.ranks} ranks")
    rounds, started = [], time.monotonic()
    for number in range(options.rounds):
        if time.monotonic() - started > options.seconds:
            break
        rounds.append({op: one_round(op, options, nccl.path) for op in options.ops.split(",")})
        Path(options.output).write_text(
            json.dumps({"nccl": nccl.version, "ranks": options.ranks, "rounds": rounds})
        )
        print(f"round {number + 1} after {time.monotonic() - started:.0f} s", file=sys.stderr)
    print_table(rounds)


def one_round(op: str, options: argparse.Namespace, nccl_path: str) -> dict[str, dict[str, float]]:
    """Times in us by arm and "size placement"."""
    arms: dict[str, dict[str, float]] = {}
    for first, last, calls, warmup in RANGES:
        sweep = ["-b", first, "-e", last, "-f", "2", "-n", str(calls), "-w", str(warmup), "-c", "0"]
        mpi = [options.mpirun, "-np", str(options.ranks)]
        theirs = [*mpi, str(options.nccl_tests / f"{op}_perf"), *sweep, "-a", "3"]
        ours = [sys.executable, "-m", "busbw", "run", op, *sweep, "--format", "csv", "--backend", "nccl"]
        for arm, times in (
            ("nccl-tests", read_nccl_tests(output(theirs, nccl_path))),
            ("busbw mpirun", read_busbw(output([*mpi, *ours], nccl_path))),
            ("nccl-tests again", read_nccl_tests(output(theirs, nccl_path))),
            ("busbw torchrun", read_busbw(plain_ranks(ours, options.ranks, nccl_path))),
        ):
            arms.setdefault(arm, {}).update(
                {f"{size} {placement}": t for (size, placement), t in times.items()}
            )
    return arms


def output(command: list[str], nccl_path: str) -> str:
    done = subprocess.run(
        command, env=environ(nccl_path), capture_output=True, text=True, timeout=300, check=False
    )
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
    times: Times = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 13 and words[0].isdigit() and words[2] == "float":
            times[int(words[0]), "out-of-place"] = float(words[5])
            times[int(words[0]), "in-place"] = float(words[9])
    return times


def read_busbw(text: str) -> Times:
    rows = csv.DictReader(io.StringIO(text))
    return {
        (int(row["size_bytes"]), row["placement"]): float(row["time_ns"]) / 1e3
        for row in rows
        if row["time_ns"]
    }


def print_table(rounds: list[dict[str, dict[str, dict[str, float]]]]) -> None:
    print(f"{'':>38} {'nccl-tests':>11} {'mpirun':>7} {'torchrun':>9} {'A/A +-':>7} {'bound':>6}  verdict")
    for op in rounds[0]:
        for key in rounds[0][op]["nccl-tests"]:
            if key.startswith("0 "):
                continue  # rounds to nothing: no data moves
            theirs = np.log([[r[op][arm][key] for arm in ("nccl-tests", "nccl-tests again")] for r in rounds])
            self_half = half_width(theirs[:, 1] - theirs[:, 0])
            bound = max(0.02, self_half)
            ratios = {}
            for arm in ("busbw mpirun", "busbw torchrun"):
                ours = np.log([r[op][arm][key] for r in rounds])
                ratios[arm] = float(np.median(ours - theirs.mean(axis=1)))
            good = all(abs(ratio) <= bound for ratio in ratios.values())
            print(
                f"{op + ' ' + key:>38} {math.exp(np.median(theirs)):>11.2f}"
                f" {math.exp(ratios['busbw mpirun']):>7.3f} {math.exp(ratios['busbw torchrun']):>9.3f}"
                f" {self_half:>7.1%} {bound:>6.1%}  {'same' if good else 'DIFFERS'}"
            )


# Student's t, two-sided 95 %, by degrees of freedom.
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def half_width(logs: np.ndarray) -> float:
    """Half-width of the 95 % interval of the mean A/A log-ratio over rounds."""
    freedom = len(logs) - 1
    return float(logs.std(ddof=1) / math.sqrt(len(logs)) * T_95[min(freedom, 9)]) if freedom else math.inf


if __name__ == "__main__":
    main()
