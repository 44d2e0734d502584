"""``NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY``: each rank's bytes and bandwidth, above a row."""

from __future__ import annotations

from busbw.frontdoors.nccl_tests_environment import Variables
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.model.plan import Plan
from busbw.units import NS_PER_US, gb_per_s


def summary(plan: Plan, case: Case, first: Role, variables: Variables, time_us: float) -> list[str]:
    """A line of the pattern, then one a rank of the group that the row is of: that of rank 0, which plays
    ``first``.
    """
    ranks = first.ranks
    members = plan.groups[first.group] if plan.groups else range(ranks)
    sent_received = [plan.rank_bytes(case, member, ranks) for member in members]
    table = plan.role(case, first).counts
    if table is not None and table.file_ranks:
        scale = f"scale={variables.matrix_scale:.3f}"
        pattern = f"mode=matrix nranks={ranks} matrix_dim={table.file_ranks} {scale}"
    else:
        share = case.shape(ranks).call_count * case.data_type.size_bytes
        pattern = f"mode=generated nranks={ranks} total_bytes={share * ranks} spread={variables.spread:.3f}"
    lines = [f"# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: {pattern} time_usec={time_us:.2f}"]
    for rank, (sent, received) in enumerate(sent_received):
        algbw = gb_per_s(max(sent, received), time_us * NS_PER_US)
        lines.append(
            f"#   rank={rank} send_bytes={sent} recv_bytes={received}"
            f" alg_bw={algbw:.2f} bus_bw={algbw * case.row.busbw_factor(ranks):.2f}"
        )
    return lines
