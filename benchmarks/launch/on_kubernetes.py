"""From submitting to the first row and to the record: `busbw run --on kubernetes` beside the bare API, which
creates the very manifest that `--dry-run` prints and follows rank 0's log.

Needs root and a built control plane (`make test-kubernetes` builds it). The arms run in interleaved rounds,
each round in another order.

    python benchmarks/launch/on_kubernetes.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import MPI, NULL, Arm, once, print_table  # of this folder; it puts tests/support on the path
from kubernetes import client, config

from busbw.launchers.kubernetes_yaml import from_yaml
from busbw.probes.host import read_processors

from busbw_testing.environ import clean_environ  # isort: skip
from busbw_testing.kubernetes_cluster import Cluster, why_not  # isort: skip
from busbw_testing.kubernetes_tools import find_tools  # isort: skip

ON = ("--on", "kubernetes", "--nodes", "4", "--image", "busbw")
ENVIRONMENT, BASE = Path(sys.prefix), Path(sys.base_prefix)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--bare", metavar="MANIFEST", help="create it, follow it, delete it, and nothing else"
    )
    options = parser.parse_args()
    if options.bare:
        bare(Path(options.bare))
        return
    tools = find_tools()
    if reason := why_not() or (tools is None and "make test-kubernetes first"):
        raise SystemExit(f"not here: {reason}")
    assert tools is not None
    print(f"{os.cpu_count()} x {read_processors().model}, Python {sys.version.split()[0]}", end="")
    print(f", 4 nodes, load before {os.getloadavg()[0]:.2f}, {options.rounds} rounds")
    sources = Path(__file__).resolve().parents[2] / "src"
    path = f"{ENVIRONMENT / 'bin'}:{BASE / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin"
    image = {"path": path, "binds": [str(ENVIRONMENT), str(sources)]}
    if str(BASE) not in ("/usr", "/usr/local"):
        image["binds"].append(str(BASE))  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder, Cluster(tools, Path(folder), {"busbw": image}) as cluster:
        measure(cluster, options.rounds, folder)


def measure(cluster: Cluster, rounds: int, folder: str) -> None:
    """Every arm, ``rounds`` times."""
    environ = clean_environ(KUBECONFIG=str(cluster.kubeconfig()), BUSBW_HOME=f"{folder}/runs")
    arms = make_arms(Path(folder), environ)
    for number in range(rounds + 1):
        for arm in random.Random(number).sample(arms, len(arms)):
            seconds = once(list(arm.command), environ)
            if number:  # the first round warms the caches
                arm.seconds.append(seconds)
    print_table(arms)


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
        arms.append(Arm(f"bare API, {name}", (sys.executable, __file__, "--bare", str(manifest))))
        arms.append(Arm(f"busbw --on kubernetes, {name}", run))
    return arms


def bare(manifest: Path) -> None:
    """What kubectl apply, wait, logs --follow and delete do, in one process."""
    config.load_kube_config()
    core, custom = client.CoreV1Api(), client.CustomObjectsApi()
    *services, job = from_yaml(manifest.read_text())
    name = job["metadata"]["name"]
    for service in services:
        core.create_namespaced_service("default", service)
    group, version = job["apiVersion"].split("/")
    where = (group, version, "default", job["kind"].lower() + "s")
    custom.create_namespaced_custom_object(*where, job)
    role = "batch.kubernetes.io/job-completion-index=0"
    if job["kind"] == "MPIJob":
        role = "training.kubeflow.org/job-role=launcher"
    while True:
        pods = core.list_namespaced_pod(
            "default", label_selector=f"app.kubernetes.io/instance={name},{role}"
        ).items
        if pods and pods[0].status.phase in ("Running", "Succeeded"):
            break
        time.sleep(0.1)
    log = core.read_namespaced_pod_log(pods[0].metadata.name, "default", follow=True, _preload_content=False)
    for chunk in log.stream(amt=None):
        sys.stdout.write(chunk.decode())
        sys.stdout.flush()
    custom.delete_namespaced_custom_object(*where, name, propagation_policy="Foreground")
    for service in services:
        core.delete_namespaced_service(service["metadata"]["name"], "default")
    while core.list_namespaced_pod("default", label_selector=f"app.kubernetes.io/instance={name}").items:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
