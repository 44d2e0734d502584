"""Where the NCCL backend's buffers come from, and how they are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from busbw.errors import SiteError, UsageError
from busbw.model.plan import CallOptions
from busbw.rank.backends.buffers import BAND_BYTES
from busbw.rank.backends.device_memory import DeviceMemory

MakeSite = Callable[..., Any]
COMM = str(0x4001)
BYTES = 65536
ALLOCATED = DeviceMemory.alignment_bytes + BYTES + BAND_BYTES


@pytest.mark.parametrize(
    ("options", "version", "allocator", "asked"),
    [
        (CallOptions(), 22809, "cuMemAlloc", None),
        (CallOptions(register=1), 21903, "ncclMemAlloc", ("MemAlloc", str(ALLOCATED))),
        (CallOptions(graph=1), 22809, "ncclMemAlloc", ("MemAlloc", str(ALLOCATED))),
        (CallOptions(graph=1), 21805, "cuMemAlloc", None),
        (CallOptions(memory="managed"), 22809, "cuMemAllocManaged", ("MemAllocManaged", str(ALLOCATED), "1")),
        (CallOptions(memory="host"), 22809, "cuMemHostAlloc", ("MemHostAlloc", str(ALLOCATED), "3")),
    ],
)
def test_allocator(
    make_site: MakeSite, options: CallOptions, version: int, allocator: str, asked: tuple[str, ...] | None
) -> None:
    site = make_site(options=options, version=version, connect=False)
    allocations = [line for line in site.asked() if "Alloc" in line[0]]
    assert allocations == ([asked, asked] if asked else [])
    assert site.backend.identity.facts["allocator"] == allocator


def test_host_memory_goes_back_by_its_own_address(make_site: MakeSite) -> None:
    site = make_site(options=CallOptions(memory="host"), connect=False)
    pair = site.backend.pair
    site.backend.close()
    freed = [line[1] for line in site.asked() if line[0] == "MemFreeHost"]
    assert freed == [str(address - 16) for address in pair.allocations]


@pytest.mark.parametrize(("memory", "words"), [("managed", "managed memory"), ("host", "mapped host memory")])
def test_a_gpu_without_such_memory_is_refused(make_site: MakeSite, memory: str, words: str) -> None:
    with pytest.raises(SiteError, match=f"GPU one has no {words}") as caught:
        make_site(options=CallOptions(memory=memory), cuda_defines=("PLAIN",))
    assert "--buffers" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "register", "deregister", "flags", "handle", "how"),
    [
        (1, "CommRegister", "CommDeregister", (), 1, "ncclCommRegister"),
        (2, "CommWindowRegister", "CommWindowDeregister", ("1",), 2, "ncclCommWindowRegister, symmetric"),
    ],
)
def test_registration_covers_both_allocations(
    make_site: MakeSite,
    kind: int,
    register: str,
    deregister: str,
    flags: tuple[str, ...],
    handle: int,
    how: str,
) -> None:
    site = make_site(options=CallOptions(register=kind, unalign=3))
    pair, size = site.backend.pair, str(ALLOCATED + 3 * 8)
    registered = [line for line in site.asked() if line[0] == register]
    assert registered == [(register, COMM, str(at), size, *flags) for at in pair.allocations]
    assert site.backend.identity.facts["registration"] == how
    site.forget()
    site.backend.close()
    given_back = [line for line in site.asked() if line[0] == deregister]
    assert given_back == [(deregister, COMM, str(at + handle)) for at in pair.allocations]


def test_a_registration_that_nccl_skips_is_said_and_not_undone(make_site: MakeSite) -> None:
    site = make_site(options=CallOptions(register=1), nccl_defines=("SKIPS",))
    assert site.backend.identity.facts["registration"] == "ncclCommRegister, skipped by NCCL"
    site.forget()
    site.backend.close()
    assert "CommDeregister" not in site.names()


def test_a_communicator_without_windows_is_an_error(make_site: MakeSite) -> None:
    with pytest.raises(SiteError, match="no symmetric windows") as caught:
        make_site(options=CallOptions(register=2), nccl_defines=("NO_WINDOWS",))
    assert "-R 2" in caught.value.hint


@pytest.mark.parametrize(("kind", "version", "since"), [(1, 21805, "2.19.0"), (2, 22602, "2.27.0")])
def test_an_older_nccl_is_refused_before_connecting(
    make_site: MakeSite, kind: int, version: int, since: str
) -> None:
    with pytest.raises(SiteError, match=rf"-R {kind} needs NCCL {since}"):
        make_site(options=CallOptions(register=kind), version=version, connect=False)


def test_memory_that_cannot_be_registered_is_a_usage_error(make_site: MakeSite) -> None:
    with pytest.raises(UsageError, match="managed cannot be registered"):
        make_site(options=CallOptions(register=1, memory="managed"), connect=False)
