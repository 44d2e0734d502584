"""By how much launches of one thing differ: from this machine's earlier launches, else by a default.

A verdict on one launch needs it, for a launch cannot know how the next one will differ. Scatter depends most
on what sets the pace: below 1 MiB the host's part of a call, above it the links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median
from typing import Final

from busbw.judge.compare_arms import Arm
from busbw.model.case import LARGE

# Three sweeps on 4 x H200 (NCCL 2.28.9, 2026-11-27): 2 to 9 % below 512 KiB, 0.03 to 0.4 % from 1 MiB.
HOST_BOUND: Final = 0.15
DEVICE_BOUND: Final = 0.01
SMALL: Final = 4 << 10


class SizeClass(StrEnum):
    """Sizes whose launches scatter alike."""

    SMALL = "below 4 KiB"
    MEDIUM = "4 KiB to 1 MiB"
    LARGE = "from 1 MiB"


def size_class(size_bytes: int) -> SizeClass:
    """The class of a size in bytes."""
    if size_bytes < SMALL:
        return SizeClass.SMALL
    return SizeClass.MEDIUM if size_bytes < LARGE else SizeClass.LARGE


@dataclass(frozen=True)
class Scatter:
    """The relative standard deviation between launches, and from how many earlier ones; 0: from the launches
    that are judged (``at_hand``), or a default.
    """

    deviation: float
    launches: int = 0
    at_hand: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nothing that was measured says it."""
        return not self.launches and not self.at_hand


@dataclass(frozen=True)
class Prior:
    """What is known of launches of one kind of machine. ``known`` has what its history says, by operation and
    size class; the operation "" is all together. ``on_device``: the operation runs on a GPU or accelerator.
    ``passes`` has how far the passes of the launches at hand were apart, which the default is no less than.
    """

    on_device: bool
    known: Mapping[tuple[str, SizeClass], Scatter] = field(default_factory=dict)
    passes: Mapping[tuple[str, SizeClass], float] = field(default_factory=dict)

    def of(self, operation: str, size_bytes: int) -> Scatter:
        """That of the operation, else that of all operations, else the default."""
        of_size = size_class(size_bytes)
        for name in (operation, ""):
            if (name, of_size) in self.known:
                return self.known[name, of_size]
        large_on_device = self.on_device and of_size is SizeClass.LARGE
        default = Scatter(DEVICE_BOUND if large_on_device else HOST_BOUND)
        seen = Scatter(self.passes.get((operation, of_size), 0.0), at_hand=True)
        return max(default, seen, key=lambda each: each.deviation)


def beside(prior: Prior, arms: Iterable[Arm]) -> Prior:
    """With what the passes of these launches show: the middle one of the standard errors of a class of sizes,
    of the arm that is the worse.
    """
    errors: dict[tuple[str, SizeClass], float] = defaultdict(float)
    for arm in arms:
        of_class: dict[tuple[str, SizeClass], list[float]] = defaultdict(list)
        for key, seen in arm.cases.items():
            if seen.error_share is not None:
                of_class[key.collective, size_class(key.size_bytes)].append(seen.error_share)
        for kind, own in of_class.items():
            errors[kind] = max(errors[kind], median(own))
    return replace(prior, passes=errors)


def assumption(deviation: float) -> str:
    """What a verdict on one launch a side rests on where earlier runs of the machine are too few to know."""
    return f"assumes launches differ by {deviation:.0%} (too little history here)"
