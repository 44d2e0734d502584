"""Counters of every kind of NIC in their documented layout, and of NVLink by a stand-in NVML."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.machine.counters import (
    Resent,
    events,
    read_counters,
    resent_by_socket,
    resent_since,
    sent_received,
)
from busbw.machine.nvlink import read_nvlinks

WriteTree = Callable[[dict[str, str]], Path]
BuildLibrary = Callable[..., Path]
Rdma = Callable[..., dict[str, str]]
UUID = "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"


def test_infiniband_counts_words_of_four_bytes(write_tree: WriteTree, rdma: Rdma) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    tree = write_tree(
        {
            **rdma("mlx5_0", "mlx5_core", "InfiniBand"),
            **rdma("mlx5_1", "mlx5_core", "InfiniBand", state="1: DOWN"),
            f"{port}/counters/port_xmit_data": "1000\n",
            f"{port}/counters/port_rcv_data": "250\n",
            f"{port}/counters/port_xmit_wait": "7\n",
            f"{port}/hw_counters/out_of_sequence": "3\n",
            f"{port}/hw_counters/lifespan": "10\n",
        }
    )
    (found,) = read_counters(sysfs=tree / "sys")
    assert (found.kind, found.device, found.link, found.gb_per_s) == ("infiniband", "mlx5_0", "port 1", 50.0)
    assert sent_received(found.kind, found.values) == (4000, 1000)
    assert events(found.values) == {"port_xmit_wait": 7, "out_of_sequence": 3}


def test_efa_counts_bytes_by_either_set_and_states_no_rate(write_tree: WriteTree, rdma: Rdma) -> None:
    counters = "sys/class/infiniband/rdmap0/ports/1/hw_counters"
    names = {"tx_bytes": 10, "rx_bytes": 900, "send_bytes": 5, "recv_bytes": 6, "rdma_read_bytes": 700}
    names |= {"rdma_read_resp_bytes": 800, "rdma_write_bytes": 0, "rdma_write_recv_bytes": 0, "rx_drops": 2}
    tree = write_tree(
        {
            **rdma("rdmap0", "efa", "Unspecified"),
            **{f"{counters}/{name}": f"{value}\n" for name, value in names.items()},
        }
    )
    (found,) = read_counters(sysfs=tree / "sys")
    assert (found.kind, found.gb_per_s) == ("efa", None)
    assert sent_received("efa", found.values) == (805, 900)
    assert events(found.values) == {"rx_drops": 2}
    # Older kernels have no counters of RDMA writes, the oldest none of reads.
    assert sent_received("efa", {"tx_bytes": 1, "rx_bytes": 2}) == (1, 2)
    assert sent_received("efa", {"send_bytes": 1, "recv_bytes": 2, "rdma_read_resp_bytes": 3}) == (4, 2)


def test_slingshot_has_a_time_behind_its_value(write_tree: WriteTree) -> None:
    function = "sys/devices/pci0000:20/0000:21:00.0"
    tree = write_tree(
        {
            f"{function}/port/link": "up\n",
            f"{function}/port/speed": "BS_200G\n",
            f"{function}/telemetry/hni_sts_tx_ok_octets": "123@1700000000.000000001\n",
            f"{function}/telemetry/hni_sts_rx_ok_octets": "456@1700000000.000000001\n",
            f"{function}/telemetry/ALL-in-binary": "\0\1\n",
            f"{function}/telemetry/reset_counters": "",
            "sys/class/cxi/cxi0/device": f"-> {function}",
        }
    )
    (found,) = read_counters(sysfs=tree / "sys")
    assert (found.kind, found.device, found.gb_per_s) == ("slingshot", "cxi0", 25.0)
    assert sent_received("slingshot", found.values) == (123, 456)


def interface(name: str, sent: int, state: str = "up", speed: str = "10000") -> dict[str, str]:
    folder = f"sys/class/net/{name}"
    return {
        f"{folder}/operstate": f"{state}\n",
        f"{folder}/speed": f"{speed}\n",
        f"{folder}/statistics/tx_bytes": f"{sent}\n",
        f"{folder}/statistics/rx_bytes": "1\n",
    }


def test_virtual_interfaces_count_where_there_are_no_real_ones(write_tree: WriteTree) -> None:
    tree = write_tree({**interface("eth0", 5), **interface("eth1", 6), **interface("eth2", 7, "down")})
    found = read_counters(sysfs=tree / "sys")
    # A virtual interface's 10 Gb/s is made up.
    assert [(each.device, each.gb_per_s) for each in found] == [("eth0", None), ("eth1", None)]


def test_bridges_and_bonds_would_count_twice_and_real_ones_hide_virtual_ones(write_tree: WriteTree) -> None:
    function = "sys/devices/pci0000:00/0000:00:03.0"
    tree = write_tree(
        {
            **interface("ens1", 5, speed="100000"),
            f"{function}/driver": "-> sys/bus/pci/drivers/ice",
            "sys/class/net/ens1/device": f"-> {function}",
            **interface("bond0", 5),
            "sys/class/net/bond0/bonding/mode": "802.3ad 4\n",
            **interface("docker0", 5),
            "sys/class/net/docker0/bridge/stp_state": "0\n",
            **interface("veth7", 5),
        }
    )
    assert [(each.device, each.gb_per_s) for each in read_counters(sysfs=tree / "sys")] == [("ens1", 12.5)]


@pytest.mark.parametrize(
    ("counters", "links"),
    [
        (1, [("link 0", 1000 * 1024, 500 * 1024), ("link 1", 1001 * 1024, 501 * 1024)]),
        (2, [("all links", 2001 * 1024, 1001 * 1024)]),
        (5, [("link 0", 1000, 500), ("link 1", 1001, 501)]),
    ],
)
def test_nvlinks_by_link_or_in_sum(
    build_library: BuildLibrary, counters: int, links: list[tuple[str, int, int]]
) -> None:
    found = read_nvlinks(UUID, library=str(build_library("nvml", f"COUNTERS={counters}", "ALL_ACTIVE=1")))
    assert [(each.link, each.values["tx_bytes"], each.values["rx_bytes"]) for each in found] == links
    assert {each.gb_per_s for each in found} == {26.562 * (2 if counters == 2 else 1)}


def test_the_sockets_of_this_process_are_counted_and_stay_as_they_were() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(type=socket.SOCK_DGRAM) as datagrams,
    ):
        one.setblocking(False)
        counted = resent_by_socket()
        assert counted is not None
        inodes = [os.fstat(each.fileno()).st_ino for each in (server, one, other, local, datagrams)]
        assert [inode in counted for inode in inodes] == [True, True, True, False, False]
        assert not one.getblocking()
        one.send(b"still open")
        assert other.recv(64) == b"still open"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({1: 5, 2: 7}, {1: 8, 2: 7}, 3),
        ({1: 5}, {1: 5, 9: 4}, 4),  # new
        ({1: 5, 2: 7}, {1: 6}, 1),  # one was closed
        ({1: 5}, {1: 2}, 2),  # a new one has its inode
        ({}, {}, 0),
        (None, {1: 5}, None),
        ({1: 5}, None, None),
    ],
)
def test_what_was_sent_again_between_two_looks(
    before: Resent | None, after: Resent | None, expected: int | None
) -> None:
    assert resent_since(before, after) == expected


def test_where_the_system_does_not_say_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        monkeypatch.setattr("socket.TCP_INFO", 9999)  # a kernel that knows no counter
        assert resent_by_socket() is None
    monkeypatch.setattr("busbw.machine.counters._OPEN", tmp_path / "none")
    assert resent_by_socket() is None
