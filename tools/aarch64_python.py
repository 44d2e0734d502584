"""A real aarch64 Python on any Debian or Ubuntu machine: prints the command that runs it.

Everything lies in one folder (default build/aarch64): nothing is installed, no root is needed, and the
machine's own package state is not touched. apt-get keeps its lists and downloads there, dpkg only unpacks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# libstdc++6 because numpy's wheels need it; the core does not.
PACKAGES = ["python3-minimal", "libpython3-stdlib", "libstdc++6"]
QEMU = ("usr/bin/qemu-aarch64-static", "usr/bin/qemu-aarch64")  # the static one, in older and newer Debian


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "aarch64")
    print(shlex.join(command(parser.parse_args().folder.resolve())))
    return 0


def command(folder: Path) -> list[str]:
    """Prepare the folder when it is not yet, and return the start of a command line: qemu, its root, Python.

    Raises:
        subprocess.CalledProcessError: apt-get or dpkg failed; its output says why.
    """
    root, qemu = folder / "root", folder / "qemu-aarch64"
    if not (folder / "ready").exists():
        _install("arm64", PACKAGES, folder / "apt-target", root)
        _merge_lib(root)
        # Static: it runs wherever this machine's kernel does, whatever libraries are here.
        _install(_native_architecture(), ["qemu-user-static"], folder / "apt-native", folder / "tools")
        shutil.copy(next(path for name in QEMU if (path := folder / "tools" / name).exists()), qemu)
        shutil.rmtree(folder / "tools")  # 40 more processors
        (folder / "ready").touch()
    return [str(qemu), "-L", str(root), str(root / "usr/bin/python3")]


def _install(architecture: str, packages: list[str], state: Path, into: Path) -> None:
    """Unpack packages and all that they depend on; no script of theirs runs."""
    archives = state / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    status = state / "status"  # empty: nothing counts as installed, so every dependency is fetched
    status.touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Dir::State::lists": str(state / "lists"),
        "Dir::State::status": str(status),
        "Dir::Cache::archives": str(archives),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "--quiet=2", *(f"--option={name}={value}" for name, value in options.items())]
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], check=True, env=environ, stdout=sys.stderr)
    download = ["install", "--yes", "--download-only", *packages]
    subprocess.run([*apt, *download], check=True, env=environ, stdout=sys.stderr)
    into.mkdir(parents=True, exist_ok=True)
    for package in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "--extract", str(package), str(into)], check=True)
    shutil.rmtree(state)


def _merge_lib(root: Path) -> None:
    """The loader is asked for as /lib/ld-linux-aarch64.so.1; newer packages put it under /usr/lib only."""
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")


def _native_architecture() -> str:
    return subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
