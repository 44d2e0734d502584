from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from busbw.machine.nics import Nics, read_nics

WriteTree = Callable[[dict[str, str]], Path]
Rdma = Callable[..., dict[str, str]]


def nics_of(tree: Path) -> Nics:
    return read_nics(sysfs=tree / "sys")


def test_infiniband(write_tree: WriteTree, rdma: Rdma) -> None:
    files = rdma("mlx5_0", "mlx5_core", "InfiniBand", netdev="ibp26s0")
    (device,) = nics_of(write_tree(files)).rdma
    assert (device.name, device.kind, device.driver) == ("mlx5_0", "infiniband", "mlx5_core")
    assert (device.firmware, device.pci, device.numa_node) == ("28.39.1002", "0000:0a:00.0", 1)
    assert device.netdevs == ("ibp26s0",)
    (port,) = device.ports
    assert (port.port, port.state, port.physical_state) == (1, "ACTIVE", "LinkUp")
    assert (port.rate_gbit_per_s, port.rate_note) == (400.0, "")


def test_efa_rate_is_not_taken_for_a_fact(write_tree: WriteTree, rdma: Rdma) -> None:
    (device,) = nics_of(write_tree(rdma("rdmap0", "efa", "Unspecified", rate="100 Gb/sec (4X EDR)"))).rdma
    assert device.kind == "efa"
    assert device.ports[0].rate_gbit_per_s is None
    assert "100 Gb/sec" in device.ports[0].rate_note


def test_slingshot(write_tree: WriteTree) -> None:
    function = "sys/devices/pci0000:20/0000:21:00.0"
    tree = write_tree(
        {
            f"{function}/numa_node": "0",
            f"{function}/net/hsn0/mtu": "9000",
            f"{function}/port/link": "up\n",
            f"{function}/port/speed": "BS_200G\n",
            "sys/class/cxi/cxi0/device": f"-> {function}",
            "sys/class/cxi/cxi_user/x": "",
        }
    )
    (device,) = nics_of(tree).cxi
    assert (device.name, device.state, device.speed) == ("cxi0", "up", "BS_200G")
    assert (device.pci, device.numa_node, device.netdevs) == ("0000:21:00.0", 0, ("hsn0",))


def test_interfaces(write_tree: WriteTree) -> None:
    function = "sys/devices/pci0000:00/0000:00:03.0"
    tree = write_tree(
        {
            f"{function}/virtio2/driver": "-> sys/bus/virtio/drivers/virtio_net",
            "sys/class/net/eth0/device": f"-> {function}/virtio2",
            "sys/class/net/eth0/speed": "100000\n",
            "sys/class/net/eth0/operstate": "up\n",
            "sys/class/net/eth0/mtu": "9001\n",
            "sys/class/net/veth1/speed": "-1\n",
            "sys/class/net/veth1/operstate": "down\n",
            "sys/class/net/down2/operstate": "down\n",
            "sys/class/net/down2/speed/not-a-file": "",  # one that refuses to be read
            "sys/class/net/lo/mtu": "65536\n",
            "sys/class/net/bonding_masters": "\n",
        }
    )
    down2, eth0, veth1 = nics_of(tree).interfaces
    assert (down2.state, down2.speed_gbit_per_s) == ("down", None)
    assert (eth0.name, eth0.state, eth0.speed_gbit_per_s, eth0.mtu_bytes) == ("eth0", "up", 100.0, 9001)
    assert (eth0.driver, eth0.pci) == ("virtio_net", "0000:00:03.0")
    assert (veth1.speed_gbit_per_s, veth1.driver, veth1.pci, veth1.mtu_bytes) == (None, "", "", None)
