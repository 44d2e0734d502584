"""NCCL told how to do its calls: the native core is its tuner while a run has arms or a table of choices."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Final

from busbw.errors import SiteError
from busbw.machine.environment import read_nccl_config
from busbw.machine.native import tuner
from busbw.machine.native.core import LIBRARY_PATH
from busbw.model.arm import Arm
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.rank.backends.nccl_variables import exchanged

PLUGIN: Final = "NCCL_TUNER_PLUGIN"
TABLE: Final = "BUSBW_TUNER_FILE"
# The tuner that ours takes the place of, and asks where it has no answer.
SITE: Final = "BUSBW_TUNER_SITE"
_KNOWS_CHUNKS: Final = 6  # the interface of NCCL 2.30
# What wins over a tuner, in the environment and in files of settings.
_STRONGER: Final = ("NCCL_ALGO", "NCCL_PROTO")


@contextmanager
def offered(plan: Plan, environ: MutableMapping[str, str]) -> Iterator[None]:
    """While a communicator is made: NCCL loads the native core as its tuner, and that the site's.
    ``environ`` is this process's, and as before afterwards. Raises SiteError where settings win over any
    tuner.
    """
    files = {name: value for file in read_nccl_config(environ) for name, value in file.settings}
    for name in _STRONGER:
        if environ.get(name) or name in files:
            raise SiteError(
                f"{name} is set, and NCCL follows it whatever a tuner says",
                hint=f"unset {name}, in the environment and in nccl.conf",
            )
    with tempfile.NamedTemporaryFile("w", prefix="busbw-tuner-", suffix=".csv") as file:
        file.write(plan.tuner_table)
        file.flush()
        site, table = environ.get(SITE) or environ.get(PLUGIN, ""), file.name if plan.tuner_table else ""
        with exchanged(environ, {PLUGIN: str(LIBRARY_PATH), TABLE: table, SITE: site}):
            yield
    if tuner.version() == 0:
        raise SiteError(
            "NCCL did not load busbw as its tuner",
            hint="it needs NCCL 2.21 or later; NCCL_DEBUG=INFO shows what it loads",
        )


def steer(arm: str) -> None:
    """The calls from now on are done by this arm; by the site's own choice where it is empty."""
    if arm:
        chosen = Arm.of(arm)
        tuner.choose(*chosen.numbers, chosen.channels, chosen.chunk_bytes)
    else:
        tuner.choose(*tuner.SITES_OWN)


class Possible:
    """What NCCL can do at all, by its own costs: asked once an operation and size, by one call of it."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], frozenset[tuple[int, int]]] = {}

    def refuses(self, arm: Arm, case: Case, call: Callable[[], None]) -> str:
        """Why not; empty where NCCL can. ``call`` does the case once, and is collective."""
        key = (case.collective, case.size_bytes)
        if key not in self._asked:
            steer("")
            before = tuner.last().calls
            call()
            found = tuner.last()
            self._asked[key] = found.possible if found.calls > before else frozenset()
        possible = self._asked[key]
        if not possible:
            return f"NCCL does not ask a tuner about {case.collective} here"
        if arm.chunk_bytes and tuner.version() < _KNOWS_CHUNKS:
            return "NCCL asks about chunks since 2.30"
        return "" if arm.numbers in possible else f"NCCL has no {arm.words} for it here"
