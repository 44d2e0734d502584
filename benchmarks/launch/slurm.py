"""From submitting to the first row and to the record: `busbw run --on slurm` beside a bare srun that starts
the same ranks on the same nodes.

Needs root and Slurm (`make test-slurm` installs it): the nodes are network namespaces of this machine. The
arms run in interleaved rounds, each round in another order.

    python benchmarks/launch/slurm.py --rounds 5
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from hosts import MPI, NULL, Arm, once, print_table  # of this folder; it puts tests/support on the path

from busbw.machine.host import read_processors

from busbw_testing.namespaces import Hosts, why_not  # isort: skip
from busbw_testing.slurm_cluster import SlurmCluster, missing_programs  # isort: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if reason := " ".join(missing_programs()) or why_not(sshd=False):
        raise SystemExit(f"not here: {reason}")
    print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
    print(f", 4 nodes, load before {os.getloadavg()[0]:.2f}, {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for name in ("net", "slurm", "runs"):
            (top / name).mkdir()
        with (
            Hosts(top / "net", 5, private=["/tmp"], shared=[top], sshd=False) as hosts,
            SlurmCluster(hosts, top / "slurm") as cluster,
        ):
            measure(cluster, options.rounds, f"{folder}/runs")


def measure(cluster: SlurmCluster, rounds: int, shared_home: str) -> None:
    """Every arm, ``rounds`` times; a node that is still busy with the last arm is waited for first."""
    arms = make_arms()
    for number in range(rounds + 1):
        for arm in random.Random(number).sample(arms, len(arms)):
            cluster.wait_until_idle()
            home = "/tmp/runs" if "not shared" in arm.name else shared_home
            seconds = once(cluster.command(*arm.command), cluster.environ(BUSBW_HOME=home))
            if number:  # the first round warms the caches
                arm.seconds.append(seconds)
    print_table(arms)


def make_arms() -> list[Arm]:
    srun, on = ("srun", "--nodes=4", "--ntasks-per-node=1"), ("--on", "slurm", "--nodes", "4")
    return [
        Arm("bare srun, `true`", (*srun, "true")),
        Arm(
            "bare sbatch --wait of it",
            ("sbatch", "--wait", "--nodes=4", "--output=/dev/null", "--wrap=srun true"),
        ),
        Arm("bare srun, busbw's ranks over MPICH", (*srun, "--mpi=pmi2", *MPI)),
        Arm("bare srun, busbw's ranks without MPI (null backend)", (*srun, "--mpi=none", *NULL)),
        Arm("busbw --on slurm, MPICH", (*MPI, *on)),
        Arm("busbw --on slurm, MPICH, run folder not shared", (*MPI, *on)),
        Arm("busbw --on slurm, no MPI (null backend)", (*NULL, *on)),
    ]


if __name__ == "__main__":
    main()
