"""When a registration is made anew: NCCL itself runs in tests/gpu."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from busbw.backends.nccl_registration import LOCAL, SYMMETRIC, Registration

PAIR: Any = SimpleNamespace(send=1, recv=2, allocated_bytes=8)
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


@pytest.mark.parametrize("kind", [LOCAL, SYMMETRIC])
@pytest.mark.parametrize("version_code", [22300, 22809, 22901])
def test_a_collective_after_sends_finds_a_fresh_one(version_code: int, kind: int) -> None:
    assert after(version_code, kind) == (6, 4)


@pytest.mark.parametrize("version_code", [22205, 22902, 23007])
def test_elsewhere_one_is_enough(version_code: int) -> None:
    assert after(version_code, SYMMETRIC) == (2, 0)


def test_without_registration_there_is_none() -> None:
    assert after(22809, 0) == (0, 0)
