"""What preflight adds to a run on several hosts: the same run with it and without, in interleaved rounds.

Needs root: the hosts are network namespaces of this machine, with a real sshd. The figure is the difference
of neighbours in time: the runs themselves differ far more than that from round to round.

    python benchmarks/preflight/hosts.py --rounds 7
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from busbw_testing.environ import clean_environ  # noqa: E402
from busbw_testing.namespaces import Hosts, why_not  # noqa: E402

from busbw.machine.host import read_processors  # noqa: E402

RUN = (sys.executable, "-m", "busbw", "run", "all_reduce", "-b", "8", "-e", "8", "-n", "20")
WORLDS = {
    "MPICH": ("--backend", "mpi"),
    "no MPI (null backend)": ("--backend", "null", "--world", "nccl"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=4)
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
    print(f", {options.hosts} hosts, load before {os.getloadavg()[0]:.2f}, {options.rounds} rounds")
    print("\n| ranks over | with (s) | without (s) | difference of neighbours (s) |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, Hosts(Path(folder), options.hosts) as hosts:
        environ = clean_environ(BUSBW_HOME=f"{folder}/runs")
        on = ("--on", "hosts", "--hosts", ",".join(hosts.names))
        for name, world in WORLDS.items():
            command = hosts.command("h1", (*RUN, *world, *on))
            once(command, environ)  # warms the caches
            pairs = [pair(command, environ, swapped=bool(number % 2)) for number in range(options.rounds)]
            with_it, without = ([each[place] for each in pairs] for place in (0, 1))
            added = [first - second for first, second in pairs]
            print(f"| {name} | {words(with_it)} | {words(without)} | {words(added)} |", flush=True)


def pair(command: list[str], environ: dict[str, str], *, swapped: bool) -> tuple[float, float]:
    """Seconds with preflight, and without."""
    without = [*command, "--no-preflight"]
    if swapped:
        second = once(without, environ)
        return once(command, environ), second
    return once(command, environ), once(without, environ)


def once(command: list[str], environ: dict[str, str]) -> float:
    start_s = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: {done.returncode}: {done.stderr}")
    return time.perf_counter() - start_s


def words(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
