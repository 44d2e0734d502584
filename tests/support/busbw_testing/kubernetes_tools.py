"""The programs of a Kubernetes control plane, built once from one pinned Go module into the user's cache.

`python -m busbw_testing.kubernetes_tools` builds them: etcd, API server, controller manager, scheduler, MPI
Operator and JobSet, with the resource definitions of the last two. 20 s to 2 min of download, 6 to 20 min on
two cores, about 250 MB kept; Go keeps its own caches beside, which make the next build a matter of seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULE: Final = Path(__file__).parents[2] / "kubernetes" / "tools"
_SOURCES: Final = ("go.mod", "go.sum", "controlplane/main.go")
_PACKAGES: Final = {
    "./controlplane": ("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    "go.etcd.io/etcd/server/v3": ("etcd",),
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator": ("mpi-operator",),
    "sigs.k8s.io/jobset": ("jobset",),
}
# Module -> files of it that a cluster is given.
_DEFINITIONS: Final = {
    "github.com/kubeflow/mpi-operator": {"mpijobs.yaml": "manifests/base/kubeflow.org_mpijobs.yaml"},
    "sigs.k8s.io/jobset": {
        "jobsets.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "jobset-webhooks.yaml": "config/components/webhook/manifests.yaml",
    },
}
NO_GO: Final = (
    "no Go here, which builds the control plane: install Go 1.26 or newer from https://go.dev/dl to"
    " /usr/local/go (a distribution's golang may be too old), then `make test-kubernetes`"
)


@dataclass(frozen=True)
class Tools:
    """Where the programs (``folder``/bin) and definitions are."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def definition(self, name: str) -> str:
        return (self.folder / "definitions" / name).read_text()


def _go() -> str | None:
    usual = "/usr/local/go/bin/go"
    return shutil.which("go") or (usual if os.access(usual, os.X_OK) else None)


def cache() -> Path:
    """Where the tests keep what takes long to make."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "busbw-test"


def _name(go_version: str) -> str:
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update((MODULE / name).read_bytes())
    return f"kubernetes-{digest.hexdigest()[:16]}-{go_version}"


def find_tools() -> Tools | None:
    """The built programs, where they are; by any version of Go."""
    found = sorted(path for path in cache().glob(_name("*")) if (path / "complete").exists())
    return Tools(found[-1]) if found else None


def build_tools() -> Tools:
    """The programs, built if need be. Raises OSError where there is no Go, or with Go's words."""
    go = _go()
    if go is None:
        if (found := find_tools()) is not None:
            return found
        raise OSError(NO_GO)
    folder = cache() / _name(_run(go, "env", "GOVERSION").strip())
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run's build is waited for, and used
        if not (folder / "complete").exists():
            _build(go, folder)
    return Tools(folder)


def _build(go: str, folder: Path) -> None:
    print(f"building a Kubernetes control plane into {folder}: 6 to 20 minutes, once", flush=True)
    work = Path(tempfile.mkdtemp(prefix="kubernetes-", dir=folder.parent))
    try:
        (work / "bin").mkdir()
        (work / "definitions").mkdir()
        flags = ("-p", "2", "-trimpath", "-ldflags", "-s -w")
        _run("nice", "-n", "19", go, "build", *flags, "-o", f"{work / 'bin'}/", *_PACKAGES)
        (work / "bin" / "server").rename(work / "bin" / "etcd")
        for name in _PACKAGES["./controlplane"]:
            (work / "bin" / name).symlink_to("controlplane")
        for module, files in _DEFINITIONS.items():
            source = Path(_run(go, "list", "-m", "-f", "{{.Dir}}", module).strip())
            for name, path in files.items():
                (work / "definitions" / name).write_bytes((source / path).read_bytes())
        (work / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(*words: str) -> str:
    done = subprocess.run(
        words,
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise OSError(f"{' '.join(words[:4])} ... in {MODULE} ended with {done.returncode}")
    return done.stdout


def main() -> int:
    try:
        print(build_tools().folder)
    except OSError as error:
        print(error, file=sys.stderr)
        return 0 if str(error) == NO_GO else 1  # the tests then skip, and say the same
    return 0


if __name__ == "__main__":
    sys.exit(main())
