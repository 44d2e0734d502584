"""Settings of ``busbw isolate`` and ``busbw pairs`` to a plan."""

from __future__ import annotations

import secrets
from typing import Final

from busbw.errors import UsageError
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, METRICS, QUICKEST, RESENT, Hunt, Rules
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.planning.preflight import make_preflight
from busbw.planning.values import MOST_SEED, at_least, positive
from busbw.settings.hunt import HuntSettings
from busbw.settings.run import RunSettings
from busbw.units import parse_duration, parse_fraction, parse_size

# Long enough a message that the wire decides, short enough a test that a round takes a moment.
_DEFAULT_SIZE: Final = {"nccl": 64 << 20, "mpi": 4 << 20, "null": 4 << 20}

# Latency that is so many times longer is a message that hangs.
MOST_TIMES: Final = 1000.0

# By kind of hunt. Where nothing of the ranks goes over TCP, nothing of theirs is resent.
_METRICS: Final = {
    "isolate": (*METRICS, RESENT),
    "pairs": (BANDWIDTH, LATENCY, BOTH_WAYS),
    "rails": (BANDWIDTH,),
}


def make_hunt_plan(settings: RunSettings, backend: str) -> Plan:
    """The plan of a hunt. Raises UsageError for what cannot be meant."""
    kind, own = HuntSettings.from_word(settings.hunt)
    if settings.format == "csv" and kind != "pairs":
        raise UsageError(f"--format csv is of pairs, not of {kind}", hint="use --format json")
    text = settings.minbytes
    size_bytes = parse_size(text, "-b") if text else _DEFAULT_SIZE[backend]
    if size_bytes < 4:
        raise UsageError(f"-b {text} is less than an element", hint="give -b 4 or more")
    seed = secrets.randbits(48) if settings.seed is None else at_least("--seed", settings.seed, 0, MOST_SEED)
    return Plan(
        backend=backend,
        cases=(),
        buffer_bytes=size_bytes // 4 * 4,
        limits=Limits(),
        checks=0,
        seed=seed,
        rotate=not settings.hot,
        nccl_path=settings.nccl,
        # A wait for a GPU gives up by itself, and says for whom.
        options=CallOptions(timeout_s=parse_duration(own.round_timeout, "--round-timeout")),
        pin=settings.pin,
        preflight=make_preflight(settings),
        hunt=Hunt(
            kind,
            size_bytes // 4 * 4,
            make_rules(own, seed, metrics=_METRICS[kind]),
            wait=own.wait,
            timeout_s=positive("--round-timeout", parse_duration(own.round_timeout, "--round-timeout")),
            nic=own.each_nic,
            halves=own.halves,
            doubted=own.doubted,
        ),
    )


def make_rules(own: HuntSettings, seed: int, metrics: tuple[str, ...] = METRICS) -> Rules:
    """When a part is slow. Raises UsageError."""
    slower = parse_fraction(own.slower, "--slower", below=MOST_TIMES)
    floors = Rules().floors | {
        BANDWIDTH: parse_fraction(own.loss, "--loss"),
        LATENCY: slower,
        QUICKEST: slower,
    }
    return Rules(metrics=metrics, floors=floors, most_screens=at_least("--rounds", own.rounds, 2), seed=seed)
