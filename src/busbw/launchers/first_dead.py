"""Which of a launcher's ranks ended first, from what agents on all hosts saw and ranks said. Pure.

The words of launchers do not settle it: a survivor of Open MPI whose connection closes may abort before
mpirun knows of the death that closed it, and then mpirun names the survivor and nobody the dead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What a survivor of Open MPI (5.0) says, and nobody else: its TCP transport lost a connection.
_LOST_A_PEER = re.compile(
    r"\*\*\* An error occurred in Socket closed|peer process has unexpectedly disconnected"
)
# mpirun: a rank that called MPI_Abort, or an error handler that does.
_ABORTED = re.compile(r"due to process rank (\d+) with PID \d+ on node \S+ calling\s+\"abort\"", re.DOTALL)


@dataclass(frozen=True)
class RankEnd:
    """A rank's end as its host's agent saw it. ``said``: it took its leave, by itself or told to by a
    signal. ``swept``: the agent was ending what was left.
    """

    rank: int
    said: bool
    swept: bool


def first_dead(
    ranks: Sequence[int],
    ends: Sequence[RankEnd],
    words: Mapping[int, Sequence[str]],
    launcher_words: Sequence[str],
) -> int | None:
    """The first of ``ranks`` that ended without a goodbye and did not leave because it had lost another.

    ``ends`` are in the order in which they were heard, from all hosts; ``words`` is what ranks printed. None
    where the end of a rank was not seen: that one may be the cause; or where nobody died.
    """
    if not set(ranks) <= {end.rank for end in ends}:
        return None
    left = survivors(words, launcher_words)
    for end in ends:
        if end.rank in ranks and not (end.said or end.swept or end.rank in left):
            return end.rank
    return None


def survivors(words: Mapping[int, Sequence[str]], launcher_words: Sequence[str]) -> set[int]:
    """Ranks that ended because they had lost another one, by their own words. An abort alone may be a cause:
    it counts where somebody lost a connection.
    """
    found = {rank for rank, lines in words.items() if _LOST_A_PEER.search("\n".join(lines))}
    if found:
        found |= {int(rank) for rank in _ABORTED.findall("\n".join(launcher_words))}
    return found
