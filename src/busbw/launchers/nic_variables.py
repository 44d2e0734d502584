"""The variables that confine a library to one NIC of every host: a row for each library. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.probes.nics import is_rdma_name

_OF_LIBFABRIC: Final = re.compile(r"(efa_\d+|rdmap\w+|cxi\d+)(:\d+)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@-]*(:\d+)?")


@dataclass(frozen=True)
class _Row:
    """What a library is told of an RDMA device and of an Ethernet interface; ``{nic}`` is its name,
    ``{port}`` that with its port.
    """

    backend: str
    verbs: Mapping[str, str]
    ethernet: Mapping[str, str]


_ROWS: Final[Mapping[str, _Row]] = {
    # Without "=" a name is a beginning of names: mlx5_1 would be mlx5_10 as well. Turning verbs off leaves a
    # plugin its devices; NCCL's own sockets by name do not.
    "NCCL": _Row(
        "nccl",
        {"NCCL_IB_HCA": "={nic}", "NCCL_IB_DISABLE": "0"},
        {"NCCL_SOCKET_IFNAME": "={nic}", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"},
    ),
    "UCX": _Row("mpi", {"UCX_NET_DEVICES": "{port}"}, {"UCX_NET_DEVICES": "{nic}"}),
    # Of its two ways, UCX's is for RDMA devices and its own for TCP.
    "Open MPI": _Row(
        "mpi",
        {"OMPI_MCA_pml": "ucx"},
        {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "{nic}"},
    ),
}


def read_nics(text: str) -> tuple[str, ...]:
    """The names of --each-nic. Raises UsageError."""
    nics = tuple(word.strip() for word in text.split(",") if word.strip())
    if not nics or "all" in nics:
        raise UsageError(
            f"--each-nic {text}: hosts have NICs that no collective is to use",
            hint="name those that it is, as in --each-nic mlx5_0,mlx5_1 or eth0,eth1",
        )
    for nic in nics:
        if not _NAME.fullmatch(nic):
            raise UsageError(f"--each-nic: {nic!r} is no name of a NIC", hint="give names, as mlx5_0 or eth1")
        if _OF_LIBFABRIC.fullmatch(nic):
            raise UsageError(
                f"--each-nic {nic}: libfabric has no variable that confines NCCL or MPI to it",
                hint="leave it out; `busbw rails` compares ranks, each with the NIC near it",
            )
        if nics.count(nic) > 1:
            raise UsageError(f"--each-nic names {nic} twice", hint="name each NIC once")
    return nics


def confining(nic: str, backend: str) -> dict[str, str]:
    """The variables that confine the libraries of a backend, or of all where that is not known yet."""
    is_verbs = is_rdma_name(nic)
    port = nic if ":" in nic else f"{nic}:1"
    rows = (row for row in _ROWS.values() if backend in (row.backend, "auto"))
    return {
        name: value.format(nic=nic, port=port)
        for row in rows
        for name, value in (row.verbs if is_verbs else row.ethernet).items()
    }
