"""Which backends can be used here, why the others cannot, and which one a run takes.

One rule stands above convenience: a machine with GPUs never gets a CPU measurement by accident.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from busbw.errors import SiteError, UsageError
from busbw.machine.gpus import GpuPresence, gpu_presence
from busbw.machine.libraries import wheel_of
from busbw.machine.mpi import MpiSearch, find_mpi
from busbw.machine.native.nccl import EXPLICIT_VARIABLE, LIBRARY, NcclLibrary, find_nccl

BACKENDS: Final = ("auto", "nccl", "mpi", "null")
NCCL_VARIABLE: Final = EXPLICIT_VARIABLE  # a path of libnccl, as --nccl


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a backend is not usable, and what to try: one sentence each."""

    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """``usable`` exactly when ``reasons`` is empty. ``detail`` says in a line what would be used."""

    name: str
    reasons: tuple[Reason, ...]
    detail: str

    @property
    def usable(self) -> bool:
        """Whether a run may take this backend."""
        return not self.reasons


def backend_status(nccl: str | None = None) -> tuple[BackendStatus, ...]:
    """Status of nccl and mpi, in this order. ``nccl`` is the path that the user gave for libnccl.

    MPI is not initialised, nor is a CUDA context made; libnccl is loaded (to ask its version) only where a
    GPU is visible.
    """
    return _nccl_status(gpu_presence(), nccl), _mpi_status(find_mpi(os.environ))


def choose_backend(requested: str = "auto", nccl: str | None = None) -> str:
    """``nccl``, ``mpi`` or ``null``. ``auto`` is nccl where this process sees a GPU, else mpi.

    Raises SiteError when the backend that was asked for, or that the GPUs call for, is not usable; UsageError
    for an unknown name. A path of libnccl is never ignored: one that nothing would use is refused too, also
    that of BUSBW_NCCL.
    """
    if requested not in BACKENDS:
        raise UsageError(f"unknown backend {requested!r}", hint=f"choose one of {', '.join(BACKENDS)}")
    nccl = nccl or os.environ.get(NCCL_VARIABLE)
    if nccl and requested not in ("auto", "nccl"):
        raise UsageError(
            f"--nccl names {nccl}, but --backend {requested} does not use NCCL",
            hint="leave out that path, or --backend",
        )
    if requested == "null":
        return requested
    presence = gpu_presence() if requested != "mpi" else None
    if presence is not None and (requested == "nccl" or presence.count or presence.broken):
        # The ranks load it, all at once, and report what is wrong with it.
        status = _nccl_status(presence, nccl, loads=False)
    else:
        status = _mpi_status(find_mpi(os.environ))
    if not status.usable:
        raise _refusal(status, automatic=requested == "auto")
    if nccl and presence is not None and status.name != "nccl":
        raise SiteError(
            f"--nccl names {nccl}, but no GPU is visible: {presence.problem}",
            hint="leave out that path to measure host memory instead",
        )
    return status.name


def _unusable(name: str, why: str, hint: str) -> BackendStatus:
    return BackendStatus(name, (Reason(why, hint),), "")


def _refusal(status: BackendStatus, *, automatic: bool) -> SiteError:
    hints = [reason.hint for reason in status.reasons if reason.hint]
    if automatic and status.name == "nccl":
        hints.append("use --backend mpi to measure host memory instead")
    text = "; ".join(reason.text for reason in status.reasons)
    return SiteError(f"backend {status.name} is not usable: {text}", hint="; or ".join(hints))


# ---- nccl --------------------------------------------------------------------------------------------


def _nccl_status(presence: GpuPresence, explicit: str | None, *, loads: bool = True) -> BackendStatus:
    """``loads``: load the library too, which takes a tenth of a second and more, and ask its version."""
    if presence.count == 0:
        return _unusable("nccl", presence.problem, presence.hint)
    visible = f"{presence.count} GPU{'s' if presence.count > 1 else ''} visible"
    try:
        search = find_nccl(explicit)
    except SiteError as error:
        return _unusable("nccl", error.message, error.hint)
    if not search.path:
        text = f"{visible} but no {LIBRARY} found: looked at {', '.join(search.looked_at) or 'nothing'}"
        return _unusable("nccl", text, _install_hint(presence))
    reasons, name = _driver_too_old(search.path, presence), "libnccl"
    try:
        name = f"NCCL {NcclLibrary(search.path).version}" if loads else name
    except SiteError as error:
        reasons = (*reasons, Reason(error.message, error.hint))
    return BackendStatus("nccl", reasons, f"{visible}; {name} at {search.path} ({search.found})")


def _cuda_major(presence: GpuPresence) -> str:
    return presence.cuda_version.partition(".")[0]


def _install_hint(presence: GpuPresence) -> str:
    return f"pip install nvidia-nccl-cu{_cuda_major(presence) or '12'}, or name one with --nccl or BUSBW_NCCL"


def _driver_too_old(path: str, presence: GpuPresence) -> tuple[Reason, ...]:
    """A wheel for CUDA 13 loads under a driver for CUDA 12, and fails only when the communicator is made."""
    name, version = wheel_of(path)
    needs, serves = name.rpartition("_cu")[2], _cuda_major(presence)
    if not (needs.isdecimal() and serves.isdecimal()) or int(needs) <= int(serves):
        return ()
    serves = presence.cuda_version
    text = f"NCCL {version} at {path} needs CUDA {needs}, but the driver supports CUDA {serves}"
    return (Reason(text, _install_hint(presence)),)


# ---- mpi ---------------------------------------------------------------------------------------------


def _mpi_status(search: MpiSearch) -> BackendStatus:
    if not search.mpi4py:
        return _unusable("mpi", "mpi4py is not installed", "pip install mpi4py mpich")
    library = search.library
    if library is None:
        return _unusable(
            "mpi",
            f"no MPI library found: looked at {', '.join(search.looked_at) or 'nothing'}",
            "pip install mpich, or load the site's MPI (module load ...), or set MPI4PY_LIBMPI",
        )
    where = "the MPI that mpi4py was built with"
    if library.path:
        where = f"{library.family} library at {library.path} ({library.found})".lstrip()
    return BackendStatus("mpi", (), f"{where}; mpiexec {library.mpiexec or 'not found'}")
