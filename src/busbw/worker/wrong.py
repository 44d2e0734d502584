"""Bring the tensors of failed checks to rank 0, bounded (--save-wrong)."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from busbw.worker.verify import Checkable, OnWrong
from busbw.world.base import World

KEPT_RANKS: Final = 4  # of one check
KEPT_CHECKS: Final = 16  # of a run


class Saves(Protocol):
    """Who takes the files, on rank 0."""

    def saved(self, name: str, content: bytes) -> None:
        """One file."""


class WrongKeeper:
    """Keeps the first checks of a run that failed, of the first ranks that found something."""

    def __init__(self, world: World, saves: Saves | None) -> None:
        self._world = world
        self._saves = saves
        self._left = KEPT_CHECKS

    def of(self, case: int, prepared: Checkable) -> OnWrong:
        """What ``verify`` calls after a failed check of the case; collective over the world."""

        def keep(seed: int, slot: int, first_wrong: int) -> None:
            if self._left == 0:
                return
            self._left -= 1
            world = self._world
            found = np.zeros(world.size, np.int64)
            found[world.rank] = first_wrong >= 0
            speakers = np.flatnonzero(world.sum(found))[:KEPT_RANKS].tolist()
            own = prepared.tensors(seed, slot, first_wrong) if world.rank in speakers else b""
            gathered = world.gather(own)
            if gathered is None or self._saves is None:
                return
            for rank in speakers:
                self._saves.saved(f"case-{case}-seed-{seed}-rank-{rank}.npz", gathered[rank])

        return keep
