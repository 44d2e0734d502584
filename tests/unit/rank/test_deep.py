"""Which devices and hosts ib_write_bw tests, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

from busbw.machine.preflight.facts import NicFacts
from busbw.rank.deep import _testable
from busbw.rank.facts import read_node


def test_devices_without_rc_are_left_out() -> None:
    nics = (
        NicFacts("mlx5_0:1", "rdma", True, "ACTIVE", 400.0),
        NicFacts("mlx5_1:1", "rdma", False, "DOWN", 400.0),
        NicFacts("rdmap79s0:1", "rdma", True, "ACTIVE", 100.0, efa=True),
        NicFacts("hsn0", "cxi", True, "up"),
    )
    assert _testable(nics) == {"mlx5_0": 50.0}


def test_efa_is_known_by_its_driver(tmp_path: Path) -> None:
    for name, driver in (("rdmap79s0", "efa"), ("mlx5_0", "mlx5_core")):
        device = tmp_path / "sys/class/infiniband" / name
        (device / "ports/1").mkdir(parents=True)
        (device / "ports/1/state").write_text("4: ACTIVE\n")
        (device / "device").mkdir()
        home = tmp_path / "sys/bus/pci/drivers" / driver
        home.mkdir(parents=True)
        (device / "device/driver").symlink_to(home)
    nics = read_node(root=tmp_path).nics
    assert {nic.name: nic.efa for nic in nics} == {"mlx5_0:1": False, "rdmap79s0:1": True}
