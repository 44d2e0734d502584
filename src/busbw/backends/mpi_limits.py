"""Which MPI function does what, and what a library cannot do."""

from __future__ import annotations

from typing import Any, Final

from busbw.backends.mpi_handles import DATATYPES, address, symbol
from busbw.model.case import ALONE, Case
from busbw.units import format_approximate_size

# Per collective: the MPI function whose address the native loop calls.
FUNCTIONS: Final = {
    "all_reduce": "MPI_Allreduce",
    "all_gather": "MPI_Allgather",
    "reduce_scatter": "MPI_Reduce_scatter_block",
    "alltoall": "MPI_Alltoall",
    "broadcast": "MPI_Bcast",
    "reduce": "MPI_Reduce",
    "gather": "MPI_Gather",
    "scatter": "MPI_Scatter",
    "sendrecv": "MPI_Sendrecv",
    "hypercube": "MPI_Sendrecv",
    "alltoallv": "MPI_Alltoallv",
    "all_gatherv": "MPI_Allgatherv",
    "permute": "MPI_Sendrecv",
    "barrier": "MPI_Barrier",
}
SCALED_OPS: Final = ("avg", "mulsum")  # MPI sums, and the core scales within the call
INT_MAX: Final = 2**31 - 1


def started(name: str) -> str:
    """The nonblocking form of a function: MPI_Iallreduce of MPI_Allreduce."""
    return f"MPI_I{name.removeprefix('MPI_').lower()}"


def refused_at_once(mpi: Any, case: Case) -> str:  # noqa: ANN401 (the mpi4py module)
    """Why the case cannot run at once with others, parts or streams; empty where it can, or does not."""
    if not case.coalesce and case.stream == ALONE:
        return ""
    if case.collective == "hypercube":
        return "the steps of hypercube depend on one another: it cannot be started and waited for"
    if case.op in SCALED_OPS:
        return f"MPI has no {case.op}: busbw scales after the sum, which cannot be started and waited for"
    name = started(FUNCTIONS[case.collective])
    return "" if address(mpi, name) else f"this MPI library has no {name}"


def refused_count(mpi: Any, case: Case, ranks: int) -> str:  # noqa: ANN401 (the mpi4py module)
    """Why a count of the case cannot be given to this library; empty where it can. Counts are C ints unless
    the library has the functions of MPI 4 (MPI_Allreduce_c, ...).
    """
    largest = largest_count(case, ranks)
    if not beyond_int(largest):
        return ""
    needed = [symbol(FUNCTIONS[case.collective], large=True)]
    if case.op and case.dtype not in DATATYPES:
        needed.append(symbol("MPI_Op_create", large=True))
    missing = [name for name in needed if not address(mpi, name)]
    if not missing:
        return ""
    fits = INT_MAX * case.size_bytes // largest
    return (
        f"this MPI library has no {missing[0]}, so counts end at {INT_MAX} elements: the largest size is"
        f" {format_approximate_size(fits)} (-e {fits // 2**20}M)"
    )


def beyond_int(count: int) -> bool:
    """Whether the count, or offset, needs MPI 4's functions with large counts."""
    return count > INT_MAX


def largest_count(case: Case, ranks: int) -> int:
    """The largest count of any MPI function that a call uses: the last step of a hypercube moves half of all
    blocks at once. Where ranks differ, that of a rank which moves all of its bytes with one other.
    """
    if case.row.variable is not None:
        return case.size_bytes // case.data_type.size_bytes
    return case.count * max(1, ranks // 2) if case.collective == "hypercube" else case.count
