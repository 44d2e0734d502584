"""From submitting to the first row and to the record: `busbw run --on hosts` beside a bare mpiexec that
starts the same ranks on the same hosts.

Needs root: the hosts are network namespaces of this machine, with a real sshd. The arms run in interleaved
rounds, each round in another order, so that a busy moment meets all of them.

    python benchmarks/launch/hosts.py --rounds 7
    ... --open-mpi PYTHON    # also by a Python that has the same packages and loads Open MPI
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from busbw_testing.environ import clean_environ  # noqa: E402
from busbw_testing.namespaces import Hosts, why_not  # noqa: E402

from busbw.machine.host import read_processors  # noqa: E402
from busbw.machine.mpi import find_mpi  # noqa: E402

SWEEP = ("-b", "8", "-e", "8", "-n", "20", "--format", "jsonl")
RUN = (sys.executable, "-m", "busbw", "run", "all_reduce", *SWEEP)
MPI = (*RUN, "--backend", "mpi")
NULL = (*RUN, "--backend", "null", "--world", "nccl")
ROW, END = '"event":"case"', '"event":"end"'


@dataclass
class Arm:
    """A command; seconds to its first row, to the event that the record is there, and to its end."""

    name: str
    command: tuple[str, ...]
    seconds: list[tuple[float, float, float]] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--open-mpi", metavar="PYTHON", default="")
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    library = find_mpi(os.environ).library
    if library is None or library.family != "mpich":
        raise SystemExit("no MPICH: pip install mpich")
    print_machine(f"{options.hosts} hosts", options.rounds)
    with tempfile.TemporaryDirectory() as folder, Hosts(Path(folder), options.hosts) as hosts:
        arms = make_arms(library.mpiexec, hosts.names)
        arms += open_mpi_arms(options.open_mpi, hosts.names) if options.open_mpi else []
        environ = clean_environ(BUSBW_HOME=f"{folder}/runs")
        measure(arms, options.rounds, lambda arm: once(hosts.command("h1", arm.command), environ))


def make_arms(mpiexec: str, names: tuple[str, ...]) -> list[Arm]:
    listed = ",".join(names)
    bare = (mpiexec, "-launcher", "ssh", "-hosts", listed, "-ppn", "1", "-n", str(len(names)))
    on = ("--on", "hosts", "--hosts", listed)
    return [
        Arm("ssh to one other host, `true`", ("ssh", names[-1], "true")),
        Arm("bare mpiexec, `true`", (*bare, "true")),
        Arm("bare mpiexec, busbw's worker", (*bare, *MPI)),
        Arm("busbw --on hosts, MPICH", (*MPI, *on)),
        Arm("busbw --on hosts, MPICH, no preflight", (*MPI, *on, "--no-preflight")),
        Arm("busbw --on hosts, no MPI (null backend)", (*NULL, *on)),
    ]


def open_mpi_arms(python: str, names: tuple[str, ...]) -> list[Arm]:
    which = "import os; from busbw.machine.mpi import find_mpi; print(find_mpi(os.environ).library.mpiexec)"
    told = subprocess.run([python, "-c", which], check=True, capture_output=True, text=True).stdout.strip()
    bare = (told, "--allow-run-as-root", "--host", ",".join(names), "-np", str(len(names)))
    run = (python, *MPI[1:])
    return [
        Arm("bare mpirun (Open MPI), busbw's worker", (*bare, *run)),
        Arm("busbw --on hosts, Open MPI", (*run, "--on", "hosts", "--hosts", ",".join(names))),
    ]


def once(command: list[str], environ: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until the row, the end event and the end."""
    start = time.perf_counter()
    seen = dict.fromkeys((ROW, END), float("nan"))
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            for mark in seen:
                if mark in line and seen[mark] != seen[mark]:
                    seen[mark] = time.perf_counter() - start
        assert process.stderr is not None
        words = process.stderr.read()
    if process.returncode:
        raise SystemExit(f"{command}: {process.returncode}: {words}")
    return seen[ROW], seen[END], time.perf_counter() - start


def print_machine(where: str, rounds: int) -> None:
    print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
    print(f", {where}, load before {os.getloadavg()[0]:.2f}, {rounds} rounds")


def measure(arms: list[Arm], rounds: int, once_of: Callable[[Arm], tuple[float, float, float]]) -> None:
    """Every arm, ``rounds`` times, and the table."""
    for number in range(rounds + 1):
        for arm in random.Random(number).sample(arms, len(arms)):
            seconds = once_of(arm)
            if number:  # the first round warms the caches
                arm.seconds.append(seconds)
    print_table(arms)


def print_table(arms: list[Arm]) -> None:
    print("\n| | first row (s) | record (s) | end (s) |\n|---|---|---|---|")
    for arm in arms:
        columns = (each(values) for values in zip(*arm.seconds, strict=True))
        print(f"| {arm.name} | {' | '.join(columns)} |")


def each(values: tuple[float, ...]) -> str:
    if values[0] != values[0]:
        return "-"
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
