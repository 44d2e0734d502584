"""Variables that NCCL is given while a communicator is made, and at no other time: a record and a comparison
are of the user's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from busbw.machine.environment import read_nccl_config
from busbw.rank.world.base import World, of_rank_0

_RAS: Final = "NCCL_RAS_ADDR"


@contextmanager
def exchanged(environ: MutableMapping[str, str], values: Mapping[str, str]) -> Iterator[None]:
    """The variables have these values meanwhile, and afterwards those that they had before."""
    before = {name: environ.get(name) for name in values}
    environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            environ.pop(name, None)
            if value is not None:
                environ[name] = value


@contextmanager
def lent(environ: MutableMapping[str, str], name: str, value: str) -> Iterator[str]:
    """The variable has this value meanwhile, or the user's own where a variable or a file of settings names
    it. Yields the one that holds.
    """
    files = dict(setting for file in read_nccl_config(environ) for setting in file.settings)
    if name in environ or name in files:
        yield environ.get(name, files.get(name, ""))
        return
    with exchanged(environ, {name: value}):
        yield value


@contextmanager
def own_ras(world: World, environ: MutableMapping[str, str]) -> Iterator[str]:
    """NCCL answers questions about a hang at a port of this run's own, which is yielded: where it is NCCL's
    usual one, another job of the user may answer. A port that is free on rank 0's host. Collective.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = f"127.0.0.1:{probe.getsockname()[1]}"
    with lent(environ, _RAS, of_rank_0(world, own)) as holds:
        yield holds
