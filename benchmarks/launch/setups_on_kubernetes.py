"""What a series of `busbw compare SETUPS --on kubernetes` takes in the pods of one job, and with a job for
each launch, as a user without the right to `pods/exec` gets it. By turns.

Needs root and a built control plane (`make test-kubernetes` builds it).

    python benchmarks/launch/setups_on_kubernetes.py --rounds 3 --blocks 4
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from on_kubernetes import print_machine, started  # of this folder; it puts tests/support on the path

from busbw_testing.environ import clean_environ  # isort: skip

if TYPE_CHECKING:
    from busbw_testing.kubernetes_cluster import Cluster

SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}\n'
WHERE = ("--on", "kubernetes", "--nodes", "4", "--image", "busbw", "--namespace", "default")
RULES = (
    ("batch", "jobs", ["create", "get", "delete"]),
    ("kubeflow.org", "mpijobs", ["create", "get", "delete"]),
    ("", "pods", ["list"]),
    ("", "pods/log", ["get"]),
    ("", "services,secrets", ["create", "delete"]),
)
KINDS = {
    "MPIJob, MPICH": ("--backend", "mpi"),
    "indexed Job, no MPI (null backend)": ("--backend", "null", "--world", "nccl"),
}
ARMS = {"one job": "admin", "a job each": "dev"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=4)
    options = parser.parse_args()
    with started() as (cluster, folder):
        cluster.grant("default", *RULES)
        print_machine(f"4 nodes, {options.rounds} rounds of {2 * options.blocks} launches")
        print("| | launches | series (s) | a launch (s) |\n|---|---|---|---|")
        for name, words in KINDS.items():
            found: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
            for number in range(options.rounds):
                for arm in list(ARMS)[:: 1 if number % 2 else -1]:
                    found[arm].append(series(cluster, Path(folder), ARMS[arm], words, options.blocks))
            for arm, seconds in found.items():
                columns = (" (".join(spread(each)) + ")" for each in zip(*seconds, strict=True))
                print(f"| {name} | {arm} | {' | '.join(columns)} |", flush=True)


def series(
    cluster: Cluster, folder: Path, user: str, words: tuple[str, ...], blocks: int
) -> tuple[float, float]:
    """Seconds of a whole series, and the middle of its launches'."""
    home = folder / f"home-{time.monotonic_ns()}"
    (folder / "setups.yaml").write_text(SETUPS)
    environ = clean_environ(KUBECONFIG=str(cluster.kubeconfig(user)), BUSBW_HOME=str(home))
    flags = ("-b", "1K", "-e", "4K", *words)
    command = [sys.executable, "-m", "busbw", "compare", str(folder / "setups.yaml"), "--ops", "all_reduce"]
    start_s = time.monotonic()
    done = subprocess.run(
        [*command, *flags, "--blocks", str(blocks), *WHERE],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - start_s
    paths = list(home.glob("*/setups.json"))
    outcomes = json.loads(paths[0].read_text())["outcomes"] if paths else []
    if done.returncode or not outcomes or any(one["error"] for one in outcomes):
        raise SystemExit(done.stderr)
    return seconds, statistics.median(one["seconds"] for one in outcomes)


def spread(values: tuple[float, ...]) -> tuple[str, str]:
    return f"{statistics.median(values):.1f}", f"{min(values):.1f}-{max(values):.1f}"


if __name__ == "__main__":
    main()
