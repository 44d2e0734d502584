"""A board in memory, over which the ranks of one host reduce in microseconds: a message over the channel
wakes six threads, one after the other.

The memory has no name (memfd_create(2)), so nothing is left of it whatever ends the ranks. They open it
through /proc, which takes one user and one name space of processes and of users: ranks in pods or containers
of their own cannot, and keep to the channel.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.machine.native.board import BOARD_BYTES, arrive, wait
from busbw.rank.world.base import Number, World, distinct_hosts

if TYPE_CHECKING:
    from numpy.typing import NDArray


# How long a rank keeps its core while it waits. At most for as long as it takes to wake a sleeping core of a
# virtual machine (50 to 100 us): it never costs more than twice the best choice. Less where it does not pay:
# where others want the core, to keep it makes all wait longer.
_LEAST_SPIN_NS: Final = 20_000
_MOST_SPIN_NS: Final = 100_000
# A rank comes back to Python so often: for signals, and for what the channel reports.
_SLEEP_NS: Final = 10_000_000
# Numbers of 8 bytes. A row begins with what the rank calls, on a cache line of its own; the longest look of
# the GPU backend (1024 samples, 7 numbers each) fits.
_ROW_NUMBERS: Final = 8192
_HEAD_NUMBERS: Final = 8
MOST_NUMBERS: Final = _ROW_NUMBERS - _HEAD_NUMBERS


class Board:
    """The board as one rank has it. A rank has two rows, used in turn: a fast one writes the next while a
    slow one still reads.
    """

    def __init__(self, memory: mmap.mmap, rank: int, ranks: int) -> None:
        self._address = np.frombuffer(memory, np.uint8).ctypes.data
        numbers = np.frombuffer(memory, np.int64, offset=BOARD_BYTES)
        self._rows: NDArray[np.int64] = numbers.reshape(2, ranks, _ROW_NUMBERS)
        self._rank, self._ranks, self._meeting = rank, ranks, 0
        self._spin_ns = _LEAST_SPIN_NS

    def meet(self, call: int, op: int, values: NDArray[Number], is_quiet: Callable[[], bool]) -> bool:
        """Post what this rank calls with ``values``, at most ``MOST_NUMBERS``, and wait until all have
        posted. False where it is not quiet any more, and they have not.
        """
        self._meeting += 1
        row = self._rows[self._meeting % 2, self._rank]
        row[:3] = call, op, values.size
        row[_HEAD_NUMBERS : _HEAD_NUMBERS + values.size] = values.view(np.int64)
        arrive(self._address, self._ranks, self._meeting)
        met, was_quiet = wait(self._address, self._meeting, 0, 0) or self._spin(), True
        while not met and was_quiet:
            was_quiet = is_quiet()  # before the look: what all have posted may be what made the noise
            met = wait(self._address, self._meeting, 0, _SLEEP_NS)
        return met

    def calls(self) -> NDArray[np.int64]:
        """What each rank posted, [rank]: the call's number, its operation, how many values."""
        return self._rows[self._meeting % 2, :, :3]

    def values(self, like: NDArray[Number]) -> NDArray[Number]:
        """The values that each rank posted, [rank, value], where all posted as many and of this type."""
        end = _HEAD_NUMBERS + like.size
        return self._rows[self._meeting % 2, :, _HEAD_NUMBERS:end].view(like.dtype)

    def _spin(self) -> bool:
        """Whether all come while this rank keeps its core: longer next time where that paid, else less."""
        met = wait(self._address, self._meeting, self._spin_ns, 0)
        wanted_ns = self._spin_ns * 2 if met else self._spin_ns // 2
        self._spin_ns = min(max(wanted_ns, _LEAST_SPIN_NS), _MOST_SPIN_NS)
        return met


def share(world: World) -> Board | None:
    """The board of all ranks; None where they are on several hosts or one cannot open it. Collective."""
    if len(distinct_hosts(world.members)) > 1:
        return None
    fd, offer = _offer(_size_bytes(world.size)) if world.rank == 0 else (-1, None)
    board = _opened(world.broadcast(offer).decode(), world.rank, world.size)
    lacking = world.max(np.array([board is None], np.int64))[0]
    if fd >= 0:
        os.close(fd)  # each rank has it mapped
    return None if lacking else board


def _size_bytes(ranks: int) -> int:
    return BOARD_BYTES + 2 * ranks * _ROW_NUMBERS * 8


def _offer(size_bytes: int) -> tuple[int, bytes]:
    """New memory, all zero, as a descriptor, and what others need to open it. The kernel may give none, or
    not so much: -1, which nobody can open.
    """
    name, fd = f"busbw-board-{os.urandom(8).hex()}", -1
    with contextlib.suppress(OSError):
        made = os.memfd_create(name)
        os.ftruncate(made, size_bytes)
        fd = made
    return fd, f"/proc/{os.getpid()}/fd/{fd} /memfd:{name} (deleted)".encode()


def _opened(offer: str, rank: int, ranks: int) -> Board | None:
    """Rank 0's board. In another name space something else has its path, but never its link."""
    place, _, link = offer.partition(" ")
    path = Path(place)
    with contextlib.suppress(OSError):
        if str(path.readlink()) == link:
            with path.open("r+b", buffering=0) as file:
                return Board(mmap.mmap(file.fileno(), _size_bytes(ranks)), rank, ranks)
    return None
