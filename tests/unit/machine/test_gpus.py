from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.gpus import gpu_presence, read_clocks, read_gpus
from busbw.machine.sysfs import pcie_gb_per_s

BuildLibrary = Callable[..., Path]
ONE = "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """A /dev with two GPUs."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    return tmp_path / "dev"


def test_two_gpus(build_library: BuildLibrary) -> None:
    presence = gpu_presence(library=str(build_library("cuda")))
    assert (presence.count, presence.cuda_version) == (2, "12.8")
    assert (presence.problem, presence.broken) == ("", False)


def test_device_nodes_without_a_driver_library_are_a_fault(nodes: Path, tmp_path: Path) -> None:
    absent, problem = "libcuda-absent.so.1", "no NVIDIA driver: libcuda-absent.so.1 not found"
    plain, broken = (gpu_presence(library=absent, dev=dev) for dev in (tmp_path, nodes))
    assert (plain.count, plain.broken, plain.problem) == (0, False, problem)
    assert (broken.count, broken.broken) == (0, True)
    assert broken.problem == f"GPUs exist ({nodes}/nvidia0, {nodes}/nvidia1), but {problem}"
    assert "mount it" in plain.hint
    assert broken.hint == plain.hint


@pytest.mark.parametrize(
    ("code", "dev", "broken"),
    [
        *((100, "dev", False), (34, "dev", False), (999, "dev", True), (802, "dev", True)),
        (999, "", False),  # a driver in an image, on a machine without GPUs
    ],
)
def test_init_that_fails(build_library: BuildLibrary, nodes: Path, code: int, dev: str, broken: bool) -> None:
    library = str(build_library("cuda", f"INIT_CODE={code}"))
    presence = gpu_presence(library=library, dev=nodes if dev else nodes.parent)
    assert (presence.count, presence.broken) == (0, broken)
    assert f"({code})" in presence.problem


def test_facts_of_each_gpu(build_library: BuildLibrary, tmp_path: Path) -> None:
    numa = tmp_path / "bus/pci/devices/0000:ab:00.0/numa_node"
    numa.parent.mkdir(parents=True)
    numa.write_text("3\n")
    found = read_gpus(
        library=str(build_library("cuda")), nvml_library=str(build_library("nvml")), sysfs=tmp_path
    )
    assert found.driver_version == "530.1"
    zero, one = found.gpus
    assert (one.ordinal, one.name, one.uuid, one.pci) == (1, "GPU one", ONE, "0000:ab:00.0")
    assert (one.memory_bytes, one.compute_capability, one.numa_node) == ((80 << 30) + 1, (9, 0), 3)
    assert ([link.active for link in one.nvlinks], one.nvlink_gb_per_s) == ([True, False], 26.562)
    assert zero.numa_node is None


def test_without_nvml_the_links_are_unknown(build_library: BuildLibrary) -> None:
    found = read_gpus(library=str(build_library("cuda")), nvml_library="libnvidia-ml-absent.so.1")
    assert [(gpu.nvlinks, gpu.nvlink_gb_per_s) for gpu in found.gpus] == [((), None)] * 2
    assert found.driver_version == ""


def test_clocks(build_library: BuildLibrary) -> None:
    (clocks,) = read_clocks((ONE, "GPU-unknown"), nvml_library=str(build_library("nvml")))
    assert (clocks.uuid, clocks.sm_mhz, clocks.sm_max_mhz) == (ONE, 345, 1980)
    assert (clocks.memory_mhz, clocks.memory_max_mhz) == (2619, None)
    assert (clocks.sm_set_mhz, clocks.sm_default_mhz) == (1200, 1755)
    assert clocks.limits == ("sw_power_cap", "hw_thermal", "0x4000")
    assert read_clocks((ONE,), nvml_library="libnvidia-ml-absent.so.1") == ()


@pytest.mark.parametrize(
    ("speed", "lanes", "rate"),
    [("32.0 GT/s PCIe", "16", 63.015), ("2.5 GT/s PCIe", "1", 0.25), ("Unknown", "16", None),
     ("32.0 GT/s PCIe", "0", None)],
)  # fmt: skip
def test_the_rate_of_a_pcie_link(tmp_path: Path, speed: str, lanes: str, rate: float | None) -> None:
    (tmp_path / "max_link_speed").write_text(speed + "\n")
    (tmp_path / "current_link_width").write_text(lanes + "\n")
    assert pcie_gb_per_s(tmp_path) == (None if rate is None else pytest.approx(rate, abs=0.001))
