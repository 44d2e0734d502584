"""Which samples are kept: the maximum over ranks, a digest of every rank, raw samples of some or all.

Up to ``raw_ranks`` ranks every rank's raw samples are kept; beyond, those of rank 0, whose host time some
columns are of, and of the slowest few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.plan import RAW_RANKS
from busbw.model.sample import (
    DIGEST_DTYPE,
    EXCLUDING,
    HEADLINE,
    MAX_OVER_RANKS,
    MIN_OVER_RANKS,
    SAMPLE_DTYPE,
    SampleFlag,
)
from busbw.rank.backends.base import Int64Array
from busbw.rank.measure import Samples, Taken
from busbw.rank.world.base import World

SLOWEST_RANKS: Final = 4


def rule(raw_ranks: int) -> str:
    """What is kept, in words for the record."""
    return (
        "per sample the maximum and minimum over ranks; a digest of every rank;"
        f" raw samples of all ranks up to {raw_ranks} ranks,"
        f" beyond that of rank 0 and of the {SLOWEST_RANKS} with the largest median"
    )


@dataclass(frozen=True)
class Kept:
    """Rows for the record; empty on ranks other than 0. ``ended_s``: see Samples."""

    samples: npt.NDArray[np.void]
    digests: npt.NDArray[np.void]
    ended_s: float = 0.0


NOTHING_KEPT: Final = Kept(np.empty(0, SAMPLE_DTYPE), np.empty(0, DIGEST_DTYPE))


def retain(
    case: int, samples: Samples, world: World, raw_ranks: int = RAW_RANKS, *, took_part: bool = True
) -> Kept:
    """Bring the rows of one case to rank 0. Collective over the world; a rank that sat out has none."""
    digest = _digest(case, world.rank, samples).tobytes() if took_part else b""
    if world.size <= raw_ranks:  # one message has both
        told = world.gather(digest + _raw(case, world.rank, samples) if took_part else b"")
        digests = None if told is None else [part[: DIGEST_DTYPE.itemsize] for part in told]
        raw = None if told is None else [part[DIGEST_DTYPE.itemsize :] for part in told]
    else:
        digests = world.gather(digest)
        speaks = world.rank in _speakers(digests, world)
        raw = world.gather(_raw(case, world.rank, samples) if speaks else b"")
    if digests is None or raw is None:
        return NOTHING_KEPT
    return Kept(
        np.concatenate((*shared_rows(case, samples), np.frombuffer(b"".join(raw), SAMPLE_DTYPE))),
        np.frombuffer(b"".join(digests), DIGEST_DTYPE),
        samples.ended_s,
    )


def _raw(case: int, rank: int, samples: Samples) -> bytes:
    """This rank's own samples."""
    parts = (_rows(case, rank, part, part.own_ns, part.issue_ns, flag) for part, flag in _parts(samples))
    return b"".join(rows.tobytes() for rows in parts)


def _parts(samples: Samples) -> list[tuple[Taken, int]]:
    """Samples, and what their flags say of how they were taken."""
    single = [] if samples.singles is None else [(samples.singles, int(SampleFlag.SINGLE_CALL))]
    return [(samples.taken, 0), *single]


def shared_rows(case: int, samples: Samples) -> list[npt.NDArray[np.void]]:
    """What all ranks have in common: maximum, minimum, and the headline where it is neither."""
    found = []
    for part, flag in _parts(samples):
        across = part.across
        found.append(_rows(case, MAX_OVER_RANKS, part, across.worst, across.issue, flag))
        found.append(_rows(case, MIN_OVER_RANKS, part, across.best, across.issue, flag))
        if not np.array_equal(across.headline, across.worst):
            found.append(_rows(case, HEADLINE, part, across.headline, across.issue, flag))
    return found


def _speakers(digests: list[bytes] | None, world: World) -> list[int]:
    """The ranks whose raw samples are kept. Collective."""
    chosen = None
    if digests is not None:
        rows = np.frombuffer(b"".join(digests), DIGEST_DTYPE)
        slowest = np.argsort(-rows["median_ns"], kind="stable")[:SLOWEST_RANKS]
        chosen = np.union1d(rows["rank"][slowest], rows["rank"][rows["rank"] == 0]).astype(np.int64).tobytes()
    return [int(rank) for rank in np.frombuffer(world.broadcast(chosen), np.int64)]


def _digest(case: int, rank: int, samples: Samples) -> npt.NDArray[np.void]:
    times = samples.taken.own_ns / samples.taken.k
    low, median, p95, high = np.percentile(times, (0, 50, 95, 100))
    flagged = int(np.count_nonzero(samples.taken.across.flags & EXCLUDING))
    row = (case, rank, len(times), low, median, times.mean(), p95, high, samples.lost_ns, flagged)
    return np.array([row], DIGEST_DTYPE)


def _rows(
    case: int, rank: int, taken: Taken, elapsed_ns: Int64Array, issue_ns: Int64Array, flag: int
) -> npt.NDArray[np.void]:
    rows = np.zeros(len(elapsed_ns), SAMPLE_DTYPE)
    rows["case"], rows["rank"], rows["k"] = case, rank, taken.k
    rows["flags"] = taken.across.flags | flag
    rows["sample"] = np.arange(len(elapsed_ns))
    rows["elapsed_ns"], rows["issue_ns"] = elapsed_ns, issue_ns
    return rows
