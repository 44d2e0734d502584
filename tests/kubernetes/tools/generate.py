"""Writes go.mod and go.sum of this module: the pinned Kubernetes control plane that the tests run.

`k8s.io/kubernetes` replaces its own libraries (k8s.io/api and some thirty more) by folders of its source
tree, which a module that requires it cannot see: each needs the release of the same number instead (v1.N.P
goes with v0.N.P). Run this by hand after changing a version below, and commit what it writes; a build then
needs no more than the two files.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

KUBERNETES = "1.36.3"
REQUIRED = {
    "k8s.io/kubernetes": f"v{KUBERNETES}",
    "go.etcd.io/etcd/server/v3": "v3.6.8",
    "github.com/kubeflow/mpi-operator": "v0.8.0",
    "sigs.k8s.io/jobset": "v0.12.0",
}
TOOLS = (
    "go.etcd.io/etcd/server/v3",
    "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    "sigs.k8s.io/jobset",
)
FOLDER = Path(__file__).parent


def go(*arguments: str) -> str:
    """Runs the go command here; its standard output."""
    return subprocess.run(["go", *arguments], cwd=FOLDER, check=True, text=True, capture_output=True).stdout


def staging_modules() -> list[str]:
    """The libraries that Kubernetes' own go.mod replaces by folders of its source tree."""
    module = json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"))
    text = Path(module["GoMod"]).read_text()
    return re.findall(r"^\s*(k8s\.io/[\w.-]+) => \./staging/", text, re.MULTILINE)


def main() -> None:
    """Writes go.mod, and lets `go mod tidy` add what follows from it, with all checksums."""
    staging = KUBERNETES.replace("1.", "v0.", 1)
    lines = ["module busbw.invalid/kubernetes-tools", "", "go 1.26.0", "", "tool ("]
    lines += [f"\t{tool}" for tool in TOOLS] + [")", "", "require ("]
    lines += [f"\t{module} {version}" for module, version in REQUIRED.items()] + [")", "", "replace ("]
    lines += [f"\t{module} => {module} {staging}" for module in staging_modules()] + [")", ""]
    (FOLDER / "go.mod").write_text("\n".join(lines))
    go("mod", "tidy")


if __name__ == "__main__":
    main()
