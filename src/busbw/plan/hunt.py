"""Settings of ``busbw isolate`` and ``busbw pairs`` to a plan."""

from __future__ import annotations

import secrets
from typing import Final

from busbw.errors import UsageError
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, METRICS, QUICKEST, RESENT, Hunt, Rules
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.preflight import make_preflight

# Long enough a message that the wire decides, short enough a test that a round takes a moment.
_DEFAULT_SIZE: Final = {"nccl": 64 << 20, "mpi": 4 << 20, "null": 4 << 20}
_ELEMENT_BYTES: Final = 4

# By kind of hunt. Where nothing of the ranks goes over TCP, nothing of theirs is resent.
_METRICS: Final = {
    "isolate": (*METRICS, RESENT),
    "pairs": (BANDWIDTH, LATENCY, BOTH_WAYS),
    "rails": (BANDWIDTH,),
}


def check_hunt(settings: RunSettings) -> None:
    """Raises UsageError for what no hunt can have."""
    if settings.minbytes is not None and settings.minbytes < _ELEMENT_BYTES:
        raise UsageError(f"-b {settings.minbytes.text} is less than an element", hint="give -b 4 or more")
    make_preflight(settings)


def make_hunt_plan(own: HuntSettings, settings: RunSettings, backend: str) -> Plan:
    """The plan of a hunt. Raises UsageError for what cannot be meant."""
    check_hunt(settings)
    asked_bytes = _DEFAULT_SIZE[backend] if settings.minbytes is None else settings.minbytes
    size_bytes = asked_bytes // _ELEMENT_BYTES * _ELEMENT_BYTES
    seed = secrets.randbits(48) if settings.seed is None else settings.seed
    loss, slower = float(own.loss), float(own.slower)  # from which on a part is slow
    floors = Rules().floors | {BANDWIDTH: loss, LATENCY: slower, QUICKEST: slower}
    return Plan(
        backend=backend,
        cases=(),
        buffer_bytes=size_bytes,
        limits=Limits(),
        checks=0,
        seed=seed,
        rotate=not settings.hot,
        nccl_path=settings.nccl,
        # A wait for a GPU gives up by itself, and says for whom.
        options=CallOptions(timeout_s=float(own.round_timeout)),
        pin=settings.pin,
        preflight=make_preflight(settings),
        hunt=Hunt(
            own.kind,
            size_bytes,
            Rules(metrics=_METRICS[own.kind], floors=floors, rounds=own.rounds, seed=seed),
            wait=own.wait,
            timeout_s=float(own.round_timeout),
            nic=own.each_nic,
            halves=own.halves,
        ),
    )
