"""Where ranks meet that a launcher's processes start."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from busbw.rank.world import meet
from busbw.rank.world.identity import identify

MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2"}
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a", "MASTER_ADDR": "node7"}
SRUN = {
    "SLURM_PROCID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "node[3-4]",
    "SLURM_JOB_NODELIST": "node[1-4]",
}


@pytest.mark.parametrize(
    ("environ", "kind", "hosts", "root"),
    [
        (TORCHRUN, "nccl", ("a", "b"), "node7"),
        (SRUN, "nccl", ("a", "b"), "node3"),
        (MPICH, "mpi", ("a",), "127.0.0.1"),
        (MPICH, "mpi", ("a", "b"), "10.0.0.1"),
        # An mpirun in a job of Slurm need not have its first process on the job's first host.
        (MPICH | {"SLURM_JOB_NODELIST": "node[1-4]"}, "mpi", ("a", "b"), "10.0.0.1"),
        (MPICH | {"BUSBW_ROOT": "node9:20500"}, "mpi", ("a", "b"), "node9:20500"),
        (TORCHRUN | {"BUSBW_ROOT": "node9"}, "nccl", ("a", "b"), "node9"),
    ],
)
def test_the_address_where_ranks_meet(
    environ: dict[str, str], kind: str, hosts: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meet, "own_address", lambda: "10.0.0.1")
    identity = identify(environ)
    assert identity is not None
    world: Any = SimpleNamespace(kind=kind, members=[SimpleNamespace(host=host) for host in hosts])
    assert meet.root_for_ranks(world, identity, environ) == root


class Probe:
    """A socket with a route."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def connect(self, address: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return "10.9.9.9", 1


@pytest.mark.parametrize(
    ("of_name", "has_route", "address"),
    [
        ("10.1.2.3", True, "10.1.2.3"),
        ("127.0.1.1", True, "10.9.9.9"),  # Debian's own name: the address of the route is better
        (None, False, socket.gethostname()),
    ],
)
def test_an_address_that_other_hosts_can_use(
    monkeypatch: pytest.MonkeyPatch, of_name: str | None, has_route: bool, address: str
) -> None:
    def given(value: Any) -> Any:
        if not value:
            raise OSError("no network")
        return value

    monkeypatch.setattr(meet, "resolve", lambda name: given(of_name))
    monkeypatch.setattr(meet.socket, "socket", lambda *kind: given(has_route and Probe()))
    assert meet.own_address() == address
