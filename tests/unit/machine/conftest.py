"""Stand-in libraries, compiled once per session, and folder trees that stand for machines."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("stand_ins")
BuildLibrary = Callable[..., Path]


@pytest.fixture(scope="session")
def build_library(tmp_path_factory: pytest.TempPathFactory) -> BuildLibrary:
    """``build_library("nccl", "VERSION=22809", name="libnccl.so.2")`` -> path, in a folder of its own."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "g++"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the stand-in libraries")
    made: dict[tuple[str, ...], Path] = {}

    def build(source: str, *defines: str, name: str = "", flags: tuple[str, ...] = ()) -> Path:
        key = (source, name, *defines, *flags)
        if key not in made:
            target = tmp_path_factory.mktemp(source) / (name or f"lib{source}_stand_in.so")
            options = [f"-D{define}" for define in defines]
            command = [compiler, "-x", "c", "-w", "-shared", "-fPIC", *options, *flags]
            subprocess.run([*command, str(SOURCES / f"{source}.c"), "-o", str(target)], check=True)
            made[key] = target
        return made[key]

    return build


@pytest.fixture
def write_tree(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Make files from a mapping of path to text; a text ``-> target`` makes a symbolic link instead."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                target = tmp_path / text[3:]
                target.mkdir(parents=True, exist_ok=True)
                path.symlink_to(os.path.relpath(target, path.parent))
            else:
                path.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def rdma() -> Callable[..., dict[str, str]]:
    """``rdma("mlx5_0", "mlx5_core", "InfiniBand", state="1: DOWN")``: files of a device with a port, as
    the kernel links them.
    """

    def files(
        name: str,
        driver: str,
        layer: str,
        *,
        rate: str = "400 Gb/sec (4X NDR)",
        state: str = "4: ACTIVE",
        netdev: str = "",
    ) -> dict[str, str]:
        function = f"sys/devices/pci0000:00/0000:{name[-1]}A:00.0"
        device, port = f"sys/class/infiniband/{name}", f"sys/class/infiniband/{name}/ports/1"
        found = {
            f"{function}/numa_node": "1",
            f"{function}/driver": f"-> sys/bus/pci/drivers/{driver}",
            f"{device}/device": f"-> {function}",
            f"{device}/fw_ver": "28.39.1002\n",
            f"{port}/state": f"{state}\n",
            f"{port}/phys_state": "5: LinkUp\n",
            f"{port}/link_layer": f"{layer}\n",
            f"{port}/rate": f"{rate}\n",
        }
        if netdev:
            found[f"{function}/net/{netdev}/mtu"] = "9000"
            found[f"{port}/gid_attrs/ndevs/0"] = f"{netdev}\n"
        return found

    return files
