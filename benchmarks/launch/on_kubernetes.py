"""From submitting to the first row and to the record: `busbw run --on kubernetes` beside kubectl, which
creates the very manifest that `--dry-run` prints, follows rank 0's log and deletes.

Needs root, kubectl (Debian's kubernetes-client) and a built control plane (`make test-kubernetes` builds it).
The arms run in interleaved rounds, each round in another order.

    python benchmarks/launch/on_kubernetes.py --rounds 5
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hosts import (  # of this folder; it puts tests/support on the path
    MPI,
    NULL,
    Arm,
    measure,
    once,
    print_machine,
)

from busbw.launch.kubernetes.yaml import from_yaml

from busbw_testing.environ import clean_environ  # isort: skip
from busbw_testing.kubernetes_cluster import Cluster, why_not  # isort: skip
from busbw_testing.kubernetes_tools import find_tools  # isort: skip

ON = ("--on", "kubernetes", "--nodes", "4", "--image", "busbw")
# What one types, with a manifest and the labels of the pod whose log has the events. An older kubectl cannot
# validate these kinds.
KUBECTL = """
set -e
kubectl create --validate=false -f "$0" >&2
phase() { kubectl get pods -l "$1" -o 'jsonpath={.items[0].status.phase}' 2>/dev/null; }
until phase "$1" | grep -qE 'Running|Succeeded'; do sleep 0.1; done
kubectl logs --follow "$(kubectl get pods -l "$1" -o name)"
kubectl delete -f "$0" >&2
"""
ENVIRONMENT, BASE = Path(sys.prefix), Path(sys.base_prefix)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not shutil.which("kubectl"):
        raise SystemExit("not here: there is no kubectl")
    with started() as (cluster, folder):
        print_machine("4 nodes", options.rounds)
        environ = clean_environ(KUBECONFIG=str(cluster.kubeconfig()), BUSBW_HOME=f"{folder}/runs")
        arms = make_arms(Path(folder), environ)
        measure(arms, options.rounds, lambda arm: once(list(arm.command), environ))


@contextlib.contextmanager
def started() -> Iterator[tuple[Cluster, str]]:
    """A control plane with four nodes that know the image `busbw`, and a folder."""
    tools = find_tools()
    if reason := why_not() or ("" if tools else "make test-kubernetes first"):
        raise SystemExit(f"not here: {reason}")
    assert tools is not None
    sources = Path(__file__).resolve().parents[2] / "src"
    path = f"{ENVIRONMENT / 'bin'}:{BASE / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin"
    image = {"path": path, "binds": [str(ENVIRONMENT), str(sources)]}
    if str(BASE) not in ("/usr", "/usr/local"):
        image["binds"].append(str(BASE))  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder, Cluster(tools, Path(folder), {"busbw": image}) as cluster:
        yield cluster, folder


def make_arms(folder: Path, environ: dict[str, str]) -> list[Arm]:
    busbw, arms = (sys.executable, "-m", "busbw"), []
    for name, words, kind in (
        ("MPIJob, MPICH", MPI, ()),
        ("indexed Job, no MPI (null backend)", NULL, ()),
        ("JobSet, no MPI (null backend)", NULL, ("--set", "kind=jobset")),
    ):
        run = (*busbw, *words[words.index("run") :], *ON, *kind)
        done = subprocess.run([*run, "--dry-run"], env=environ, check=True, capture_output=True)
        manifest = folder / f"{len(arms)}.yaml"
        manifest.write_text(json.loads(done.stdout)["files"]["job.yaml"])
        *_, spec = from_yaml(manifest.read_text())
        arms.append(Arm(f"kubectl, {name}", ("bash", "-c", KUBECTL, str(manifest), rank_0(spec))))
        arms.append(Arm(f"busbw --on kubernetes, {name}", run))
    return arms


def rank_0(job: dict[str, Any]) -> str:
    """The labels of the pod whose log has the events."""
    role = "batch.kubernetes.io/job-completion-index=0"
    if job["kind"] == "MPIJob":
        role = "training.kubeflow.org/job-role=launcher"
    return f"app.kubernetes.io/instance={job['metadata']['name']},{role}"


if __name__ == "__main__":
    main()
