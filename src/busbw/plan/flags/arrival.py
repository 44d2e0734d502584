"""The value of ``--arrival``."""

from __future__ import annotations

from busbw.model.arrival import Arrival
from busbw.plan.flags.values import Written


class ArrivalText(Written, str):
    """How late ranks come, as ``Arrival.of`` reads it."""

    @classmethod
    def read(cls, written: str, flag: str) -> str:
        Arrival.of(written, flag or "--arrival")
        return written
