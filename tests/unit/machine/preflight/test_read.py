"""Facts read from folder trees that stand for machines, and from this process."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from busbw.machine.plugins import find_plugin, plugin_values
from busbw.machine.preflight.facts import MissingFile, NicFacts
from busbw.model.plan import Limits, Plan, Preflight
from busbw.rank.facts import missing_files, read_limits, read_node, read_rank
from busbw.rank.world.select import SoloWorld

PCI = "sys/devices/pci0000:16/0000:18:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two RDMA ports, one of them down, a Slingshot card, an interface that is up and one that is down."""
    rdma = "sys/class/infiniband/mlx5_0"
    files = {
        f"{rdma}/ports/1/state": "4: ACTIVE",
        f"{rdma}/ports/1/rate": "400 Gb/sec (4X NDR)",
        f"{rdma}/ports/1/link_layer": "InfiniBand",
        f"{rdma}/ports/2/state": "1: DOWN",
        "sys/class/cxi/cxi0/device/port/link": "up",
        "sys/class/net/eth0/operstate": "up",
        "sys/class/net/eth0/speed": "25000",
        "sys/class/net/eth1/operstate": "lowerlayerdown",
        "sys/class/net/tun0/operstate": "unknown",
        "proc/meminfo": "MemTotal:       1048576 kB\nMemFree: 1 kB\n",
        "sys/bus/pci/devices/0000:18:00.0/current_link_width": "8",
        "sys/bus/pci/devices/0000:18:00.0/max_link_width": "16",
        "dev/nvidia-caps-imex-channels/channel0": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / PCI).mkdir(parents=True)
    (tmp_path / rdma / "device").symlink_to(tmp_path / PCI)
    return tmp_path


def test_a_hosts_nics_memory_and_devices(machine: Path) -> None:
    node = read_node(root=machine)
    assert node.nics == (
        NicFacts("mlx5_0:1", "rdma", True, "ACTIVE", 400.0, 8, 16),
        NicFacts("mlx5_0:2", "rdma", False, "DOWN", None, 8, 16),
        NicFacts("cxi0", "cxi", True, "up"),
        NicFacts("eth0", "net", True, "up", 25.0),
        NicFacts("eth1", "net", False, "lowerlayerdown"),
        NicFacts("tun0", "net", None, "unknown"),
    )
    assert node.memory_bytes == 1 << 30
    assert node.devices == ("imex",)
    assert node.sees_folder is None


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    node = read_node(root=tmp_path / "nothing")
    assert (node.nics, node.memory_bytes, node.shm_bytes, node.devices) == ((), 0, None, ())


def test_a_run_folder_is_known_by_its_ticket(tmp_path: Path) -> None:
    folder = tmp_path / "20261121-run"
    assert read_node(str(folder)).sees_folder is False
    (folder / "request").mkdir(parents=True)
    (folder / "request/ticket").write_text("another-run\n")
    assert read_node(str(folder)).sees_folder is False
    (folder / "request/ticket").write_text("20261121-run\n")
    assert read_node(str(folder)).sees_folder is True


def test_files_and_folders_that_variables_name(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "topo.xml").write_text("")
    environ = {
        "NCCL_TOPO_FILE": str(there / "topo.xml"),
        "NCCL_TUNER_CONFIG_FILE": "/no/tuner.csv",
        "LD_LIBRARY_PATH": f"{there}::/no/lib:/no/lib",
        "LD_PRELOAD": f"libm.so.6 {there}/no.so",
    }
    assert list(missing_files(environ)) == [
        MissingFile("NCCL_TUNER_CONFIG_FILE", "/no/tuner.csv", "file"),
        MissingFile("LD_LIBRARY_PATH", "/no/lib", "folder"),
        MissingFile("LD_PRELOAD", f"{there}/no.so", "file"),
    ]


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        ("none", []),
        ("STATIC_PLUGIN", []),
        ("here", []),  # libnccl-net-here.so
        ("libnccl-net-here.so", []),
        ("{folder}/libnccl-net-here.so", []),
        ("gone", ["gone"]),
        ("/no/libnccl-net.so", ["/no/libnccl-net.so"]),
        ("here,gone", ["gone"]),
    ],
)
def test_plugins_are_found_as_nccl_finds_them(tmp_path: Path, value: str, missing: list[str]) -> None:
    (tmp_path / "libnccl-net-here.so").write_text("")
    environ = {"NCCL_NET_PLUGIN": value.format(folder=tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    assert [each.path for each in missing_files(environ)] == missing


def test_the_plugin_that_nccl_takes_by_itself(tmp_path: Path) -> None:
    environ = {"LD_LIBRARY_PATH": f"/no/lib:{tmp_path}"}
    cache = tmp_path / "no.cache"
    assert find_plugin("NCCL_NET_PLUGIN", "", environ, cache) == ""
    (tmp_path / "libnccl-net.so").write_text("")
    assert find_plugin("NCCL_NET_PLUGIN", "", environ, cache) == str(tmp_path / "libnccl-net.so")
    assert plugin_values("a, none ,b") == ("a", "b")


def test_limits_of_this_process(tmp_path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert read_limits()["nofile"] == (-1 if soft == resource.RLIM_INFINITY else soft)


@pytest.mark.parametrize(("effective", "is_free"), [("000001fffeffffff", True), ("0000000000000000", False)])
def test_who_may_lock_memory_has_no_limit(tmp_path: Path, effective: str, is_free: bool) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{effective}\n")
    memlock, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    assert (read_limits(tmp_path)["memlock"] == -1) is (is_free or memlock == resource.RLIM_INFINITY)


def test_a_rank_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    plan = Plan("null", (), 0, Limits(), 0, 0, preflight=Preflight("run"))
    facts = read_rank(SoloWorld(), plan)
    assert facts.environ["NCCL_ALGO"] == "Ring"
    assert facts.versions.keys() == {"busbw"}
    assert (facts.rank, facts.host, facts.gpu) == (0, os.uname().nodename, None)
    assert facts.node is not None
    kernel = {path.name for path in Path("/sys/class/net").iterdir()} - {"lo", "bonding_masters"}
    assert {nic.name for nic in facts.node.nics} >= kernel


def test_only_the_first_rank_of_a_host_speaks_for_it() -> None:
    from busbw.rank.world.base import Member

    class SecondOfTwo(SoloWorld):
        def __init__(self) -> None:
            super().__init__()
            self.rank, self.size = 1, 2
            self.members = (Member(0, "h", 1, 0), Member(1, "h", 2, 1))

    plan = Plan("null", (), 0, Limits(), 0, 0, preflight=Preflight("run"))
    assert read_rank(SecondOfTwo(), plan).node is None
