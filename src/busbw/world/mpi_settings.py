"""Settings by which MPI chooses how a collective works, compared before busbw's first collective.

Ranks that disagree about them crash or hang in MPI's own calls, duplicating a communicator among them, where
nobody would name the variable. Sends and receives do not read these settings.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mpi4py import MPI

# MPICH's (src/mpi/coll/cvars.txt: MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM, ...),
# Open MPI's coll framework, Intel MPI's. Others, as the NIC of a rank, may differ on purpose.
_OF_COLLECTIVES: Final = re.compile(
    r"""(?x)
    MPIR_CVAR_I?(ALLGATHERV?|ALLREDUCE|ALLTOALL[VW]?|BARRIER|BCAST|EXSCAN|GATHERV?|NEIGHBOR|REDUCE|SCAN)_\w+
    | MPIR_CVAR_I?SCATTERV?_\w+
    | MPIR_CVAR_\w*(COLL|COMPOSITION)\w* | OMPI_MCA_coll\w* | I_MPI_(ADJUST|COLL)_\w+
    """
)
_TAG: Final = 7
_POLL_INTERVAL_S: Final = 100e-6

# Settings -> the ranks that have them.
Groups = dict[tuple[tuple[str, str], ...], list[int]]


def settings_of_collectives(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(name, value) of those that are set, by name."""
    return tuple(sorted((name, value) for name, value in environ.items() if _OF_COLLECTIVES.fullmatch(name)))


def difference_of_settings(comm: MPI.Intracomm, environ: Mapping[str, str]) -> str:
    """The first variable about which ranks disagree, in words that are the same on all; empty where none is.

    Collective over ``comm``: up and down a binomial tree, by sends and receives alone.
    """
    rank, size, step = comm.Get_rank(), comm.Get_size(), 1
    found: Groups = {settings_of_collectives(environ): [rank]}
    while step < size and not rank & step:
        if rank + step < size:
            for settings, ranks in _receive(comm, rank + step).items():
                found.setdefault(settings, []).extend(ranks)
        step *= 2
    if rank:
        comm.send(found, rank - step, _TAG)
        words: str = _receive(comm, rank - step)
    else:
        words = _in_words(found)
    while step > 1:
        step //= 2
        if rank + step < size:
            comm.send(words, rank + step, _TAG)
    return words


def _receive(comm: MPI.Intracomm, source: int) -> Any:  # noqa: ANN401 (what was sent)
    while not comm.iprobe(source, _TAG):
        time.sleep(_POLL_INTERVAL_S)  # ranks may outnumber cores
    return comm.recv(None, source, _TAG)


def _in_words(found: Groups) -> str:
    for name in sorted({name for settings in found for name, _ in settings}):
        by_value: dict[str, list[int]] = {}
        for settings, ranks in found.items():
            value = dict(settings).get(name)
            by_value.setdefault("unset" if value is None else repr(value), []).extend(ranks)
        if len(by_value) > 1:
            (odd, ranks), *others = sorted(by_value.items(), key=lambda item: (len(item[1]), max(item[1])))
            where = f"rank {min(ranks)}" + (f" and {len(ranks) - 1} more" if len(ranks) > 1 else "")
            return f"{name}: {odd} on {where}, {others[-1][0]} on the other {len(others[-1][1])}"
    return ""
