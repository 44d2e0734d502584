"""What links carry during an untimed burst of calls: read on every host and GPU, before, between and after.

The first window has no calls: what flows then is not ours. Three more follow, and how they differ shows how
far the traffic can be trusted. Counters lag, by NICs' firmware and the kernel's cache of them (``lifespan``,
10 ms), so the links rest before each reading.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Final

from busbw.machine.counters import Counted, events, read_counters, sent_received
from busbw.model.case import Case
from busbw.model.plain import from_plain
from busbw.model.plan import Plan
from busbw.model.traffic import NVLINK, Burst, Link, Window
from busbw.rank.backends.base import PreparedCase
from busbw.rank.measure import agreed_call_ns
from busbw.rank.world.base import World, gathered, speaks_for_host

IDLE_S: Final = 0.2
WINDOWS: Final = 3
WINDOW_S: Final = 0.25  # of calls; three of them are more than half a second
REST_S: Final = 0.05
_ROUND_S: Final = 0.05  # between two agreements on the time

Read = Callable[[], Sequence[Counted]]


def burst_cases(plan: Plan) -> tuple[Case, ...]:
    """The largest size of every operation and type, in its first placement: where links matter most."""
    largest: dict[tuple[str, str, str], Case] = {}
    for case in plan.cases:
        key = (case.collective, case.dtype, case.op)
        before = getattr(largest.get(key), "size_bytes", -1)
        if case.applicable and case.row.sized and case.size_bytes > before:
            largest[key] = case
    return tuple(largest.values())


def reader(world: World, device_uuid: str) -> Read:
    """What this rank reads: its GPU's NVLinks, and as the first of its host the NICs."""
    first = speaks_for_host(world)

    def read() -> Sequence[Counted]:
        nics = read_counters() if first else ()
        if not device_uuid:
            return nics
        from busbw.machine.nvlink import read_nvlinks

        return (*nics, *read_nvlinks(device_uuid))

    return read


def burst(case: Case, prepared: PreparedCase, world: World, read: Read) -> Burst | None:
    """Issue calls and read what they moved; on rank 0, None elsewhere. Collective over the world."""
    group = prepared.calls_per_issue
    world.barrier()
    call_ns = agreed_call_ns(prepared, world, group)
    most = prepared.max_calls // group * group
    calls = min(most, max(1, math.ceil(_ROUND_S * 1e9 / call_ns / group)) * group)
    readings = [read()]
    started_s = time.monotonic()
    world.barrier()
    time.sleep(IDLE_S)
    readings.append(read())
    windows = [Window(time.monotonic() - started_s, 0)]
    for _ in range(WINDOWS):
        world.barrier()
        windows.append(_window(prepared, world, calls))
        time.sleep(REST_S)
        readings.append(read())
    everyone = gathered(world, [asdict(link) for link in _links(world.members[world.rank].host, readings)])
    if everyone is None:
        return None
    links = tuple(from_plain(Link, fields) for own in everyone for fields in own)
    return Burst(case.index, tuple(windows), links)


def _window(prepared: PreparedCase, world: World, calls: int) -> Window:
    """Calls for a while that all ranks agree on; ``seconds`` are those of the slowest rank's calls."""
    spent_ns, done = 0.0, 0
    while spent_ns < WINDOW_S * 1e9:
        spent_ns += calls * agreed_call_ns(prepared, world, calls)
        done += calls
    return Window(spent_ns / 1e9, done)


def _links(host: str, readings: Sequence[Sequence[Counted]]) -> Iterator[Link]:
    """The differences between readings, of every port that all of them have."""
    by_port = [{(each.kind, each.device, each.link): each for each in reading} for reading in readings]
    for port, first in by_port[0].items():
        if not all(port in reading for reading in by_port):
            continue
        values = [reading[port].values for reading in by_port]
        steps = [
            {name: after[name] - before[name] for name in before.keys() & after.keys()}
            for before, after in pairwise(values)
        ]
        kind = "ethernet" if first.kind == NVLINK else first.kind  # both have tx_bytes and rx_bytes
        sent, received = zip(*(sent_received(kind, step) or (0, 0) for step in steps), strict=True)
        backwards = any(value < 0 for step in steps for value in step.values())
        yield Link(
            *(host, *port, sent, received, first.gb_per_s),
            events=events({name: values[-1].get(name, 0) - values[1].get(name, 0) for name in values[1]}),
            note="a counter went backwards: it was reset, or its device was" if backwards else "",
        )
