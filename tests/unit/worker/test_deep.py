"""Which devices and hosts ib_write_bw tests, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

from busbw.preflight.facts import NicFacts
from busbw.preflight.read import read_node
from busbw.worker.deep import _testable, _untested

FIRST = {"h1": 0, "h2": 2, "h3": 4}


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


def test_the_last_of_an_odd_number_of_hosts_says_that_it_is_not_tested() -> None:
    answers = [[True, ["mlx5_0"]]] * 6
    said = _untested(["h1", "h2", "h3"], 2, answers, FIRST)
    assert said == "hosts are tested in pairs, and their number is odd"


def test_a_pair_without_a_common_device_says_so() -> None:
    hosts = ["h1", "h2"]
    other = "the other of its pair, has no active device of the same name that can RC"
    assert _untested(hosts, 0, [[True, []]] * 4, FIRST) == f"h2, {other}"
    assert _untested(hosts, 1, [[False, []]] * 4, FIRST) == ""  # h1 says that it lacks the tool
