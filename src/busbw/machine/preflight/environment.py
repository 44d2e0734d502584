"""Which variables must be the same on every rank, which may differ, and how much a difference matters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from busbw.machine.environment import is_recorded, read_nccl_config
from busbw.model.finding import Severity
from busbw.redact import redact

# Who, where and in which job a process is, what a launcher tells its own processes, and which of a host's
# devices a rank was given: these differ by design. Not so the IMEX channels that a container is to get: a
# rank without them has no MNNVL.
_OWN: Final = re.compile(
    r"""(?x)
    ( BUSBW | SLURM | SLURMD | PALS | ALPS | PBS | LSB | FLUX | PMI | PMIX | MASTER | TORCH\w* | HYDRA
    | PRTE | OPAL | JOB_COMPLETION | MPI_LOCAL\w* | MPI4PY | NVIDIA(?!_IMEX) | OMPI(?!_MCA_) )_\w+
    | JOB_COMPLETION_INDEX | (\w+_)?RANK | (\w+_)?WORLD_SIZE | MPI_LOCALRANKID | MPI_LOCALNRANKS
    | OMPI_MCA_(orte|prte|ess|pmix|plm|hwloc|rmaps|shmem_RUNTIME|initial_wdir|mpi_oversubscribe)\w*
    | \w+_VISIBLE_(DEVICES|CORES) | CUDA_MPS_\w+ | NEURON_RT_ROOT_COMM_ID | LOADEDMODULES | _LMFILES_
    | CONDA_PREFIX | VIRTUAL_ENV | NCCL_TESTS_DEVICE
    """
)
# What is said, not what is done: often set on one rank alone.
_SPEECH: Final = re.compile(r"(\w+_)?(DEBUG|LOG|VERBOSE|DUMP|TRACE)(_\w+)?")
# Chosen for each host or rank where NICs have other names, or belong to a GPU each.
_OF_A_PLACE: Final = re.compile(
    r"\w*(IFNAME|IFACE|_HCA|_NET_DEVICES|_TOPO_FILE|_GRAPH_FILE|_NETDEV|_HOSTID|_CONF_FILE|AFFINITY)\w*"
)
# Ranks that disagree in one of these choose other algorithms, protocols or transports, and hang or crash.
_AGREED: Final = re.compile(r"(OFI_NCCL|UCX|UCC|FI|RDMAV|SHARP|HCOLL|OMPI_MCA|MPIR_CVAR|MPICH|I_MPI|MV2)_\w+")
_NCCL: Final = re.compile(r"(NCCL|RCCL|NVSHMEM)_\w+")

CONFIG: Final = "nccl.conf: "


def compared_variables(environ: Mapping[str, str], *, root: Path = Path("/")) -> dict[str, str]:
    """The variables that ranks compare, by name, secrets replaced; settings of NCCL's files among them."""
    found = {
        name: redact(name, value)
        for name, value in environ.items()
        if is_recorded(name) and is_compared(name)
    }
    for file in reversed(read_nccl_config(environ, root=root)):  # the first one wins
        found.update({CONFIG + name: value for name, value in file.settings})
    return dict(sorted(found.items()))


def is_compared(name: str) -> bool:
    """Whether a variable is neither a job's or process's own nor about what is said."""
    return not _OWN.fullmatch(name) and not _SPEECH.fullmatch(name)


def setting(environ: Mapping[str, str], name: str) -> str:
    """A variable's value among a rank's: of the environment, else of a file of NCCL's settings."""
    return environ.get(name, environ.get(f"{CONFIG}{name}", ""))


def weight(name: str, backend: str) -> Severity:
    """What a difference means. NCCL's variables mean nothing to ranks that only use MPI."""
    name = name.removeprefix(CONFIG)
    if _OF_A_PLACE.fullmatch(name):
        return Severity.WARNING
    if _AGREED.fullmatch(name) or (_NCCL.fullmatch(name) and backend != "mpi"):
        return Severity.ERROR
    return Severity.WARNING
