"""Which samples are kept: the maximum over ranks, a digest of every rank, raw samples of some or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, SAMPLE_DTYPE
from busbw.worker.measure import Samples
from busbw.world.base import World

# Up to this many ranks every rank's raw samples are kept; beyond, those of the slowest few.
RAW_RANKS: Final = 16
SLOWEST_RANKS: Final = 4

RULE: Final = (
    "per sample the maximum over ranks; a digest of every rank;"
    f" raw samples of all ranks up to {RAW_RANKS} ranks,"
    f" beyond that of the {SLOWEST_RANKS} with the largest median"
)


@dataclass(frozen=True)
class Kept:
    """Rows for the record; empty on ranks other than 0."""

    samples: npt.NDArray[np.void]
    digests: npt.NDArray[np.void]


NOTHING_KEPT: Final = Kept(np.empty(0, SAMPLE_DTYPE), np.empty(0, DIGEST_DTYPE))


def retain(case: int, samples: Samples, world: World) -> Kept:
    """Bring the rows of one case to rank 0. Collective over the world."""
    digests = world.gather(_digest(case, world.rank, samples).tobytes())
    speakers = _speakers(digests, world)
    own = _rows(case, world.rank, samples, samples.own_ns, samples.issue_ns)
    raw = world.gather(own.tobytes() if world.rank in speakers else b"")
    if digests is None or raw is None:
        return NOTHING_KEPT
    worst = _rows(case, MAX_OVER_RANKS, samples, samples.worst_ns, samples.worst_ns)
    return Kept(
        np.concatenate((worst, np.frombuffer(b"".join(raw), SAMPLE_DTYPE))),
        np.frombuffer(b"".join(digests), DIGEST_DTYPE),
    )


def _speakers(digests: list[bytes] | None, world: World) -> list[int]:
    if world.size <= RAW_RANKS:
        return list(range(world.size))
    chosen = None
    if digests is not None:
        medians = np.frombuffer(b"".join(digests), DIGEST_DTYPE)["median_ns"]
        chosen = np.argsort(-medians, kind="stable")[:SLOWEST_RANKS].astype(np.int64).tobytes()
    return [int(rank) for rank in np.frombuffer(world.broadcast(chosen), np.int64)]


def _digest(case: int, rank: int, samples: Samples) -> npt.NDArray[np.void]:
    times = samples.own_ns / samples.k
    low, median, p95, high = np.percentile(times, (0, 50, 95, 100))
    return np.array([(case, rank, len(times), low, median, times.mean(), p95, high)], DIGEST_DTYPE)


def _rows(
    case: int, rank: int, samples: Samples, elapsed_ns: npt.NDArray[np.int64], issue_ns: npt.NDArray[np.int64]
) -> npt.NDArray[np.void]:
    rows = np.zeros(len(elapsed_ns), SAMPLE_DTYPE)
    rows["case"], rows["rank"], rows["k"] = case, rank, samples.k
    rows["sample"] = np.arange(len(elapsed_ns))
    rows["elapsed_ns"], rows["issue_ns"] = elapsed_ns, issue_ns
    return rows
