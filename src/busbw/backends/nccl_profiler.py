"""What NCCL chose for a call, as it tells its profiler plugin (2.23 on): the native core, loaded only where
that is asked for, and asked for events only while one untimed call runs.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Final

from busbw._native import profiler
from busbw._native.core import LIBRARY_PATH
from busbw.model.choice import Choice
from busbw.probes.environment import read_nccl_config

VARIABLE: Final = "NCCL_PROFILER_PLUGIN"
_LONGEST_PATH: Final = 254  # NCCL copies the name into 255 bytes
# Not the kernels' own events (64): those cost a timed kernel something, and a proxy operation.
_MASK: Final = profiler.COLLECTIVE | profiler.TRANSFER | profiler.CALL | profiler.ENGINE_COPIES


@contextmanager
def offered(environ: MutableMapping[str, str]) -> Iterator[None]:
    """While a communicator is made: NCCL loads the native core as its plugin. The user's own stays, whether a
    variable or a file of settings names it (``none`` too); ``environ`` is this process's, and as before
    afterwards.
    """
    files = (name for file in read_nccl_config(environ) for name, _ in file.settings)
    path = str(LIBRARY_PATH)
    if VARIABLE in environ or VARIABLE in files or len(path.encode()) > _LONGEST_PATH:
        yield
        return
    environ[VARIABLE] = path
    try:
        yield
    finally:
        del environ[VARIABLE]


class ProfilerWatch:
    """A ``with`` around one untimed call; ``choice`` is what NCCL told of it, None where it told nothing."""

    def __init__(self) -> None:
        self._version = profiler.version()
        self.choice: Choice | None = None

    def __enter__(self) -> ProfilerWatch:
        if self._version:
            profiler.watch(_MASK)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._version:
            profiler.watch(0)
            events, told = profiler.events()
            self.choice = choice_of(events, self._version, told)


def choice_of(events: Sequence[profiler.NcclEvent], version: int, told: int) -> Choice | None:
    """What the events of one call tell. Of kernels for symmetric memory there are none before NCCL 2.31."""
    done = [event for event in events if event.kind != profiler.CALL]
    if not done:
        return None
    first = next((event for event in done if event.kind != profiler.TRANSFER), done[0])
    kernel = first.kernel.decode()
    special = "SYMMETRIC" if kernel else "COPY ENGINE" if first.kind == profiler.ENGINE_COPIES else ""
    # Of more events than are kept, the first are gone: then nobody knows how many there were of what.
    transfers = [event for event in done if event.kind == profiler.TRANSFER and told == len(events)]
    return Choice(
        source=f"profiler v{version}",
        algorithm=special or first.algorithm.decode(),
        protocol=first.protocol.decode(),
        kernel=kernel,
        functions=tuple(dict.fromkeys(event.function.decode() for event in done)),
        tasks=len(done) if told == len(events) else None,
        channels=_most(event.channels for event in done),
        warps=_most(event.warps for event in done),
        peers=len({event.peer for event in transfers} - {transfers[0].rank}) if transfers else None,
        sequence=first.sequence if first.kind != profiler.TRANSFER else None,
    )


def _most(numbers: Iterator[int]) -> int | None:
    most = max(numbers)
    return most if most >= 0 else None
