"""What confines each library to one NIC, and names that are none."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.launchers.nic_variables import confining, read_nics

NCCL_OF_ETH = {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
MPI_OF_ETH = {
    "UCX_NET_DEVICES": "eth1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_tcp_if_include": "eth1",
}


@pytest.mark.parametrize(
    ("nic", "backend", "variables"),
    [
        ("eth1", "nccl", NCCL_OF_ETH),
        ("eth1", "mpi", MPI_OF_ETH),
        ("eth1", "auto", {**NCCL_OF_ETH, **MPI_OF_ETH}),
        ("mlx5_1", "nccl", {"NCCL_IB_HCA": "=mlx5_1", "NCCL_IB_DISABLE": "0"}),
        ("mlx5_1:2", "nccl", {"NCCL_IB_HCA": "=mlx5_1:2", "NCCL_IB_DISABLE": "0"}),
        ("mlx5_bond_0", "nccl", {"NCCL_IB_HCA": "=mlx5_bond_0", "NCCL_IB_DISABLE": "0"}),
        ("mlx5_1", "mpi", {"UCX_NET_DEVICES": "mlx5_1:1", "OMPI_MCA_pml": "ucx"}),
        ("rocep65s0f0", "mpi", {"UCX_NET_DEVICES": "rocep65s0f0:1", "OMPI_MCA_pml": "ucx"}),
        # The name of an interface and of a device alike: the port makes it a device.
        ("ibp12s0:1", "mpi", {"UCX_NET_DEVICES": "ibp12s0:1", "OMPI_MCA_pml": "ucx"}),
        ("eth1", "null", {}),
    ],
)
def test_a_row_for_each_library(nic: str, backend: str, variables: dict[str, str]) -> None:
    assert confining(nic, backend) == variables


def test_names_are_read_in_their_order() -> None:
    assert read_nics("mlx5_1, eth0,mlx5_0:2") == ("mlx5_1", "eth0", "mlx5_0:2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all", "--each-nic all: hosts have NICs"),
        (",", "--each-nic ,: hosts have NICs"),
        ("eth0,eth0", "names eth0 twice"),
        ("eth0;reboot", "is no name of a NIC"),
        ("=mlx5_0", "is no name of a NIC"),
        ("rdmap0s6", "libfabric has no variable"),
        ("cxi0", "libfabric has no variable"),
    ],
)
def test_what_is_no_list_of_nics_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_nics(text)
