"""From submitting to the first row and to the record: `busbw run --on slurm` beside a bare srun that starts
the same ranks on the same nodes.

Needs root and Slurm (`make test-slurm` installs it): the nodes are network namespaces of this machine. The
arms run in interleaved rounds, each round in another order.

    python benchmarks/launch/slurm.py --rounds 5
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from hosts import (  # of this folder; it puts tests/support on the path
    MPI,
    NULL,
    Arm,
    measure,
    once,
    print_machine,
)

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
    print_machine("4 nodes", options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for name in ("net", "slurm", "runs"):
            (top / name).mkdir()
        with (
            Hosts(top / "net", 5, private=["/tmp"], shared=[top], sshd=False) as hosts,
            SlurmCluster(hosts, top / "slurm") as cluster,
        ):
            measure(make_arms(), options.rounds, lambda arm: once_idle(cluster, arm, f"{folder}/runs"))


def once_idle(cluster: SlurmCluster, arm: Arm, shared_home: str) -> tuple[float, float, float]:
    """A node that is still busy with the last arm is waited for first."""
    cluster.wait_until_idle()
    home = "/tmp/runs" if "not shared" in arm.name else shared_home
    return once(cluster.command(*arm.command), cluster.environ(BUSBW_HOME=home))


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
