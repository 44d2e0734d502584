"""Registering a rank's buffers with NCCL, so that it may transfer from and into them without copies (-R)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.machine.native.nccl import REGISTER_VERSION, WINDOW_VERSION, NcclLibrary, version_text
from busbw.rank.backends.buffers import BufferPair

if TYPE_CHECKING:
    from busbw.model.plan import CallOptions

LOCAL: Final = 1
SYMMETRIC: Final = 2
_SINCE: Final = {LOCAL: REGISTER_VERSION, SYMMETRIC: WINDOW_VERSION}
# NVIDIA/nccl issue 1859: in these versions a registration that sends and receives have used leaves the
# devices without the peers' addresses, and the next broadcast or ring waits for them for ever
# (transport/p2p.cc, ipcRegisterBuffer; gone in 2.29.2). While a graph is captured NCCL registers by itself,
# and deregisters long after the graph is gone: at every eleventh call from 2.27 on (group.cc, groupLaunch).
_FORGETS_PEERS: Final = range(22300, 22902)
_BY_SENDS: Final = frozenset(
    ("alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube", "permute")
)


def require_registrable(options: CallOptions, nccl: NcclLibrary) -> None:
    """Raise SiteError where this NCCL is too old for -R, and UsageError for memory that it cannot register.

    nccl-tests lowers -R 2 to -R 1 below 2.27; a table that says windows and measures none helps nobody.
    """
    if not options.register:
        return
    if options.memory not in ("device", "nccl"):
        raise UsageError(
            f"--buffers {options.memory} cannot be registered", hint="leave out -R, or use device memory"
        )
    since = _SINCE[options.register]
    if nccl.version_code < since:
        raise SiteError(
            f"-R {options.register} needs NCCL {version_text(since)}, {nccl.path} is {nccl.version}",
            hint="name a newer libnccl with --nccl, or leave out -R",
        )


class Registration:
    """Both buffers of a rank, registered from construction to ``close``. Collective for windows. ``how`` says
    what came of it, for the record.
    """

    def __init__(self, nccl: NcclLibrary, comm: int, pair: BufferPair, kind: int) -> None:
        self._nccl = nccl
        self._comm = comm
        self._pair = pair
        self._kind = kind
        self._sent = False
        self._handles = self._register() if kind else []
        self.how = ("none", "ncclCommRegister", "ncclCommWindowRegister, symmetric")[kind]
        if kind == SYMMETRIC and not all(self._handles):
            raise SiteError(
                "this communicator has no symmetric windows: ncclCommWindowRegister gave none",
                hint="leave out -R 2; windows need cuMem memory (NCCL_CUMEM_ENABLE) and GPUs that reach each"
                " other, and NCCL_WIN_ENABLE or NCCL_LOCAL_REGISTER may turn them off",
            )
        if not all(self._handles):
            self.how += ", skipped by NCCL"

    def _register(self) -> list[int]:
        register = self._nccl.window_register if self._kind == SYMMETRIC else self._nccl.comm_register
        pair = self._pair
        return [register(self._comm, address, pair.allocated_bytes) for address in pair.allocations]

    def hangs(self, collective: str) -> bool:
        """Whether this NCCL would hang in the collective, as it follows sends and receives, if the buffers
        are still registered as they were for these.
        """
        return self._sent and collective not in _BY_SENDS and self._nccl.version_code in _FORGETS_PEERS

    def before(self, collective: str) -> None:
        """Register anew before a collective that would hang. Collective; nothing is under way."""
        if self._handles and self.hangs(collective):
            self.close()
            self._handles = self._register()
            self._sent = False
        self._sent = self._sent or collective in _BY_SENDS

    def close(self) -> None:
        """Deregister, before the communicator goes."""
        deregister = self._nccl.window_deregister if self._kind == SYMMETRIC else self._nccl.comm_deregister
        for handle in self._handles:
            if handle:
                deregister(self._comm, handle)
        self._handles = []
