"""Durations of kernels that a profiler saw: how they are spread, by operation, size and rank. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.profile import Kernels, Profile

PERCENTS: Final = (1, 5, 25, 75, 90, 95, 99)
_FAR_MAD: Final = 5.0  # as for modes: beyond so many median absolute deviations a value stands apart


@dataclass(frozen=True)
class Spread:
    """Times in ns. ``cv`` is sd / mean, ``sd`` of a sample (n - 1); percentiles are nearest ranks.
    ``outliers`` are further than 5 MAD from the median.
    """

    n: int
    mean: float
    median: float
    sd: float
    cv: float
    low: float
    high: float
    percentiles: tuple[float, ...]  # of PERCENTS
    outliers: int

    @classmethod
    def of(cls, durations_ns: Sequence[int]) -> Spread:
        """Of at least one duration."""
        values = np.sort(np.asarray(durations_ns, np.float64))
        mean, middle = float(values.mean()), float(np.median(values))
        sd = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        away = np.abs(values - middle)
        mad = float(np.median(away))
        return cls(
            n=len(values),
            mean=mean,
            median=middle,
            sd=sd,
            cv=sd / mean if mean else 0.0,
            low=float(values[0]),
            high=float(values[-1]),
            percentiles=tuple(_nearest(values, percent) for percent in PERCENTS),
            outliers=int((away > _FAR_MAD * mad).sum()) if mad else 0,
        )


def _nearest(ordered: npt.NDArray[np.float64], percent: int) -> float:
    return float(ordered[max(0, -(-percent * len(ordered) // 100) - 1)])


@dataclass(frozen=True)
class OfSize:
    """One operation at one message size, by rank. ``ranks`` has None where a kernel's rank is not known."""

    collective: str
    size_bytes: int | None
    placement: str
    ranks: Mapping[int | None, Spread]

    @property
    def apart(self) -> float | None:
        """(largest - smallest) / median of the ranks' medians; None below two known ranks."""
        medians = [spread.median for rank, spread in self.ranks.items() if rank is not None]
        middle = float(np.median(medians)) if medians else 0.0
        return (max(medians) - min(medians)) / middle if len(medians) > 1 and middle else None

    @property
    def worst(self) -> Spread:
        """Of the rank whose durations vary most."""
        return max(self.ranks.values(), key=lambda spread: spread.cv)


def by_size(profiles: Iterable[Profile]) -> tuple[OfSize, ...]:
    """All kernels of all exports, small sizes first. Kernels that have only one rank's part as size are left
    out: it is another size.
    """
    found: dict[tuple[str, int | None, str], dict[int | None, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in _all(profiles):
        found[each.name.collective, each.size_bytes, each.placement][each.rank] += each.durations_ns
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[0][1] or 0, item[0][2]))
    return tuple(
        OfSize(*key, {rank: Spread.of(times) for rank, times in ranks.items()}) for key, ranks in ordered
    )


def _all(profiles: Iterable[Profile]) -> Iterable[Kernels]:
    return (each for profile in profiles for each in profile.kernels if not each.is_part)
