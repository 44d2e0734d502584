"""Real ranks of the bundled MPI, each delayed at moments of its own, issue the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from busbw_testing.mpi_ranks import YIELDING, needs_mpiexec, said_by_ranks

PROGRAM = Path(__file__).with_name("program.py")
RANKS, MODES, MEASURED = 4, 3, 5  # all_reduce and reduce in both placements, and a barrier

pytestmark = needs_mpiexec


def test_delayed_ranks_issue_the_same_calls_and_find_the_same() -> None:
    ranks: list[list[dict[str, Any]]] = said_by_ranks(RANKS, PROGRAM, "1", **YIELDING)  # [rank][mode]
    assert [len(modes) for modes in ranks] == [MODES] * RANKS
    for mode in range(MODES):
        first, *others = (modes[mode] for modes in ranks)
        assert len(first["samples"]) == MEASURED
        assert first["calls"] > 5 * MEASURED
        assert all(other == first for other in others)
