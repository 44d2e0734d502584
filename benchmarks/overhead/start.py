"""From enter to the first row: `busbw run all_reduce --ranks 2 -b 8 -e 8` beside what any MPI job must pay.

The arms run in interleaved rounds, each round in another order, so that a busy moment meets all of them; a
round gives one ratio to the C program that only starts and meets. The time is taken when the line that counts
arrives on standard output, and when the program has ended.

    python benchmarks/overhead/start.py --rounds 15 [--imb PATH/IMB-MPI1]

Where busbw's time goes: `--stages` prints when each event of one run arrived, and

    python -X importtime -m busbw --version                   # the command
    python -X importtime -c "import busbw.rank.__main__"    # a rank
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from busbw.machine.host import read_processors
from busbw.machine.mpi import find_mpi
from busbw.stats.interval import estimate

BOUND_S = 1.0
FLOOR = "C program that meets once"
BUSBW = "busbw run"
# A row of busbw's and of IMB's table both begin with the size; IMB's first is of 0 bytes.
ROW = re.compile(r"\s+8\s")


@dataclass(frozen=True)
class Arm:
    """A command and the line of its output that is waited for."""

    name: str
    command: tuple[str, ...]
    line: re.Pattern[str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--imb", help="IMB-MPI1 built with the same MPI")
    parser.add_argument("--stages", action="store_true", help="only show the stages of one run")
    options = parser.parse_args()
    library = find_mpi(os.environ).library
    if library is None or not library.mpiexec:
        raise SystemExit("no MPI library with an mpiexec: pip install mpich")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BUSBW_HOME"] = folder
        # An installed package has its compiled modules beside it; a checkout may not, or may not keep them.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        if options.stages:
            subprocess.run(busbw_command(options.ranks), check=True, stdout=subprocess.DEVNULL)
            show_stages(options.ranks)
            return
        arms = make_arms(library.mpiexec, options, Path(folder))
        print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
        print(f", {options.ranks} ranks, load before {os.getloadavg()[0]:.2f}, {options.rounds} rounds")
        print_table(interleave(arms, options.rounds))


def busbw_command(ranks: int, *more: str) -> tuple[str, ...]:
    run = ("run", "all_reduce", "--ranks", str(ranks), "-b", "8", "-e", "8", *more)
    return (sys.executable, "-m", "busbw", *run)


def make_arms(mpiexec: str, options: argparse.Namespace, folder: Path) -> list[Arm]:
    hello = folder / "hello"
    mpicc = Path(mpiexec).with_name("mpicc")
    subprocess.run([mpicc, "-O2", "-o", hello, Path(__file__).with_name("hello.c")], check=True)
    ranks = (mpiexec, "-n", str(options.ranks))
    meet = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); MPI.COMM_WORLD.rank or print('met', flush=True)"
    arms = [
        Arm(FLOOR, (*ranks, str(hello)), re.compile(r"\d+ of \d+ ranks met")),
        Arm(
            "mpi4py and numpy that meet once",
            (*ranks, sys.executable, "-c", f"import numpy; {meet}"),
            re.compile("met"),
        ),
        Arm(BUSBW, busbw_command(options.ranks), ROW),
        Arm(f"{BUSBW}, -n 100 -w 5", busbw_command(options.ranks, "-n", "100", "-w", "5"), ROW),
    ]
    if options.imb:
        arms.append(Arm("IMB-MPI1 Allreduce", (*ranks, options.imb, "Allreduce", "-msglog", "3:3"), ROW))
    return arms


def interleave(arms: list[Arm], rounds: int) -> dict[str, np.ndarray]:
    """Seconds to the line and to the end, shape (rounds, 2), by arm."""
    order = random.Random(1)
    times: dict[str, list[tuple[float, float]]] = {arm.name: [] for arm in arms}
    for arm in arms:
        run(arm)  # files come from the disk once
    for _ in range(rounds):
        for arm in order.sample(arms, len(arms)):
            times[arm.name].append(run(arm))
    return {name: np.array(pairs) for name, pairs in times.items()}


def run(arm: Arm) -> tuple[float, float]:
    start, seen = time.perf_counter(), math.nan
    with subprocess.Popen(arm.command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if math.isnan(seen) and arm.line.match(line):
                seen = time.perf_counter() - start
    if process.returncode or math.isnan(seen):
        raise SystemExit(f"no result from: {' '.join(arm.command)}")
    return seen, time.perf_counter() - start


def print_table(times: dict[str, np.ndarray]) -> None:
    print(
        f"{'':>32} {'to the row':>10} {'95% interval':>13} {'best':>7} {'to the end':>10}"
        f" {'ratio':>6} {'+-95%':>6}"
    )
    for name, pairs in times.items():
        row = estimate(pairs[:, 0], 0.95)
        ratio = estimate(pairs[:, 0] / times[FLOOR][:, 0], 0.95)
        verdict = ("  holds" if row.median <= BOUND_S else "  ABOVE 1.0 s") if name == BUSBW else ""
        print(
            f"{name:>32} {row.median:>8.3f} s {f'{row.low:.2f}-{row.high:.2f} s':>13}"
            f" {pairs[:, 0].min():>5.3f} s {np.median(pairs[:, 1]):>8.3f} s"
            f" {ratio.median:>6.2f} {ratio.half_width:>6.1%}{verdict}"
        )


def show_stages(ranks: int) -> None:
    """Seconds since enter of each event of a run, in order: header (all ranks connected), cases, end."""
    start = time.perf_counter()
    command = busbw_command(ranks, "--format", "jsonl")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.search(r'"event": ?"(\w+)"', line)
            if found is not None and found[1] == "progress":
                continue
            print(f"{time.perf_counter() - start:.3f} s {found[1] if found else line.rstrip()}")
    print(f"{time.perf_counter() - start:.3f} s process ended")


if __name__ == "__main__":
    main()
