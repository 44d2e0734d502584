"""When a registration or a communicator is made anew: NCCL itself runs in tests/gpu."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from busbw_testing.cases import case_of

from busbw.model.plan import CallOptions
from busbw.rank.backends.nccl_registration import LOCAL, SYMMETRIC, Registration

PAIR: Any = SimpleNamespace(allocations=(1, 2), allocated_bytes=8)
SEQUENCE = ("all_reduce", "alltoall", "sendrecv", "broadcast", "all_gather", "gather", "reduce")


class Calls:
    """Counts what a library is asked for."""

    def __init__(self, version_code: int) -> None:
        self.version_code = version_code
        self.registered = self.deregistered = 0

    def _register(self, comm: int, address: int, size_bytes: int) -> int:
        self.registered += 1
        return self.registered

    def _deregister(self, comm: int, handle: int) -> None:
        self.deregistered += 1

    comm_register = window_register = _register
    comm_deregister = window_deregister = _deregister


def after(version_code: int, kind: int) -> tuple[int, int]:
    calls: Any = Calls(version_code)
    registration = Registration(calls, 7, PAIR, kind)
    for name in SEQUENCE:
        registration.before(name)
    return calls.registered, calls.deregistered


@pytest.mark.parametrize(
    ("version_code", "kind", "calls"),
    [
        (22300, LOCAL, (6, 4)),
        (22901, SYMMETRIC, (6, 4)),
        (22205, SYMMETRIC, (2, 0)),
        (22902, LOCAL, (2, 0)),
        (22809, 0, (0, 0)),
    ],
)
def test_a_collective_after_sends_finds_a_fresh_one_where_nccl_would_hang(
    version_code: int, kind: int, calls: tuple[int, int]
) -> None:
    assert after(version_code, kind) == calls


def measured(site: Any, case: Any) -> list[tuple[str, ...]]:
    """What was asked for while the case was prepared, timed and closed."""
    site.forget()
    prepared = site.backend.prepare(case)
    prepared.time(0, 1, 3)
    prepared.close()
    return list(site.asked("EventRecord"))


def communicators(asked: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [line for line in asked if line[0] in ("CommSplit", "CommDestroy")]


GRAPH = CallOptions(graph=1)
WORLD, RENEWED = str(0x4001), str(0x4001 + 0x100000 + 1)


class TestGraphs:
    """NCCL itself registers what is captured: only another communicator knows nothing of it."""

    def test_a_collective_after_sends_has_a_communicator_of_its_own(
        self, make_site: Callable[..., Any]
    ) -> None:
        site = make_site(rank=1, size=4, options=GRAPH)
        for name in ("all_gather", "alltoall", "sendrecv"):
            assert communicators(measured(site, case_of(name, 4))) == []
        asked = measured(site, case_of("broadcast", 4))
        assert asked[:2] == [("CommSplit", WORLD, "0", "1"), ("CommDestroy", WORLD)]
        assert {line[-2] for line in asked if line[0] == "Broadcast"} == {RENEWED}
        assert communicators(measured(site, case_of("all_gather", 4))) == []
        site.forget()
        site.backend.close()
        assert communicators(site.asked()) == [("CommDestroy", RENEWED)]

    def test_registered_buffers_go_along(self, make_site: Callable[..., Any]) -> None:
        site = make_site(rank=1, size=4, options=CallOptions(graph=1, register=LOCAL))
        measured(site, case_of("alltoall", 4))
        asked = [line[:2] for line in measured(site, case_of("broadcast", 4))]
        assert asked[:6] == [
            ("CommSplit", WORLD), *2 * [("CommDeregister", WORLD)], ("CommDestroy", WORLD),
            *2 * [("CommRegister", RENEWED)],
        ]  # fmt: skip

    def test_of_groups_each_renews_its_own(self, make_site: Callable[..., Any]) -> None:
        site = make_site(rank=1, size=5, options=GRAPH, groups=((0, 2), (3, 1)))
        world, part = 0x1000 * 5 + 1, 0x1000 * 5 + 1 + 0x200000 + 1
        measured(site, case_of("sendrecv", 2))
        asked = communicators(measured(site, case_of("all_reduce", 2)))
        assert asked == [("CommSplit", str(part), "0", "1"), ("CommDestroy", str(part))]
        site.forget()
        site.backend.close()
        destroyed = [("CommDestroy", str(comm)) for comm in (part + 0x100000 + 1, world)]
        assert communicators(site.asked()) == destroyed

    @pytest.mark.parametrize(("options", "version"), [(GRAPH, 22205), (GRAPH, 22902), (CallOptions(), 22809)])
    def test_elsewhere_one_communicator_is_enough(
        self, make_site: Callable[..., Any], options: CallOptions, version: int
    ) -> None:
        site = make_site(rank=1, size=4, options=options, version=version)
        for name in ("sendrecv", "broadcast"):
            assert communicators(measured(site, case_of(name, 4))) == []
