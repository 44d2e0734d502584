"""The processes of a launcher come together once, before there are ranks: process 0 says something to all of
them, and they part for good.

For launches whose processes each start several ranks: those have to know where to meet, and MPI takes in no
more of them.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.rank.world.base import Member, RefusedTogether, World, agreed, distinct_hosts
from busbw.rank.world.select import WorldChoice, create
from busbw.rank.world.sockets import resolve

if TYPE_CHECKING:
    from busbw.rank.world.identity import Identity

# TEST-NET-1 (RFC 5737): nothing is sent there, the route is only looked up.
_ELSEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True)
class Met:
    """What a process knows afterwards. ``members`` are the launcher's processes."""

    rank: int
    members: tuple[Member, ...]
    answer: bytes

    @property
    def me(self) -> Member:
        """This process."""
        return self.members[self.rank]

    @property
    def here(self) -> int:
        """How many processes are on this host."""
        return sum(member.host == self.me.host for member in self.members)


def meet(identity: Identity, choice: WorldChoice, answer: Callable[[World], bytes]) -> Met:
    """Collective over the launcher's processes; ``answer`` is called on process 0.

    Raises what ``create`` does, RankFailed where a process is lost, and RefusedTogether on all processes
    where ``answer`` raises.
    """
    # A process that waits for the others gets a failure where it waits.
    world = create(identity, choice, lambda failure: None)
    is_first, refused, said = world.rank == 0, None, b""
    try:
        own = agreed(world, lambda: answer(world) if is_first else b"")
        said = world.broadcast(own if is_first else None)
    except RefusedTogether as error:
        refused = error
    world.close()
    if world.kind == "mpi":
        # Processes that start others and wait for them must not look to the launcher as if they were
        # computing: an MPI job that ends without MPI_Finalize has failed.
        from mpi4py import MPI

        MPI.Finalize()
    if refused is not None:
        raise refused
    return Met(world.rank, world.members, said)


def root_for_ranks(world: World, identity: Identity, environ: Mapping[str, str]) -> str:
    """BUSBW_ROOT for ranks that the processes start: ``host``, or ``host:port`` where somebody gave a port.

    What has led the processes to each other leads their ranks too. MPI keeps that to itself: there it is
    loopback on one host, else an address of process 0's host, which calls this.
    """
    if given := environ.get("BUSBW_ROOT"):
        return given
    if world.kind == "nccl":
        return identity.root_host
    if len(distinct_hosts(world.members)) == 1:
        return "127.0.0.1"
    return own_address()


def own_address() -> str:
    """An address by which other hosts reach this one: of its name, else of the route to elsewhere. The name
    itself where there is neither.
    """
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        address = resolve(name)
        if not address.startswith("127.") and address != "::1":  # Debian's /etc/hosts: 127.0.1.1
            return address
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_ELSEWHERE)
        return str(probe.getsockname()[0])
    return name
