"""What --deep does on the ranks: copies between host and GPU and between ranks, and other tools, where they
are installed. Nothing here is a measurement of the run: it is compared between ranks and hosts only.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from busbw.errors import BusbwError
from busbw.machine.place import nvlink_domain
from busbw.machine.preflight.deep import (
    NEXT_RANK,
    DeepFacts,
    ToolReport,
    judge_deep,
    read_dcgmi,
    read_ib_write_bw,
    read_nvbandwidth,
)
from busbw.machine.preflight.facts import NicFacts
from busbw.model.finding import Finding
from busbw.model.plain import from_bytes, to_bytes
from busbw.model.plan import Plan
from busbw.rank.backends.base import Backend, float_case
from busbw.rank.facts import read_node
from busbw.rank.world.base import World, distinct_hosts, gathered, of_rank_0, speaks_for_host

_BETWEEN_BYTES: Final = 64 << 20
_SAMPLES: Final = 8
# Level 1 takes seconds, the bandwidth tests of 8 GPUs half a minute.
_TOOL_SECONDS: Final = 180.0
_IB_SECONDS: Final = 30.0
_IB_PORT: Final = 18515  # ib_write_bw's own default; one more for each device
_TRIES: Final = 5
_BETWEEN_TRIES_SECONDS: Final = 0.5
_MOST_DEVICES: Final = 16
_NOT_INSTALLED: Final = "it is not installed"
_NO_PARTNER: Final = "hosts are tested in pairs, and this host's partner has no active RC device of that name"

# Tool -> its words, what reads its output.
_TOOLS: Final[Mapping[str, tuple[str, Callable[[str], ToolReport]]]] = {
    "dcgmi": ("diag -r 1 -j", read_dcgmi),
    "nvbandwidth": (
        "-j -t host_to_device_memcpy_ce device_to_host_memcpy_ce device_to_device_memcpy_read_ce",
        read_nvbandwidth,
    ),
}


def examine(
    world: World, plan: Plan, backend: Backend
) -> tuple[bytes, Callable[[list[bytes]], tuple[Finding, ...]]]:
    """This rank's part, and what rank 0 makes of all. Collective over the world."""
    me = world.members[world.rank]
    found: dict[str, float] = {}
    reasons: list[str] = []
    _copy_host(plan, me.local_rank, found, reasons)
    world.barrier()
    _copy_between(world, plan, backend, found, reasons)
    reports = [_run(*tool) for tool in _TOOLS.items()] if speaks_for_host(world) else []
    rates: dict[str, float] = {}
    reports += _between_hosts(world, rates)
    domain = nvlink_domain(backend.identity.device_uuid)
    facts = DeepFacts(world.rank, me.host, found, tuple(reasons), tuple(reports), rates, domain)

    def judge(parts: list[bytes]) -> tuple[Finding, ...]:
        return judge_deep(tuple(from_bytes(DeepFacts, part) for part in parts), strict=plan.preflight.strict)

    return to_bytes(facts), judge


def _copy_host(plan: Plan, local_rank: int, found: dict[str, float], reasons: list[str]) -> None:
    if plan.backend != "nccl":
        reasons.append(f"copies between host and GPU were left out: the backend is {plan.backend}")
        return
    from busbw.machine.gpus import copy_rates

    try:
        found |= copy_rates(local_rank)
    except BusbwError as error:
        reasons.append(f"copies between host and GPU were left out: {error.message}")


def _copy_between(
    world: World, plan: Plan, backend: Backend, found: dict[str, float], reasons: list[str]
) -> None:
    """Every rank sends to the next: isolated calls, so that a slow pair slows its neighbours alone."""
    size_bytes = min(plan.buffer_bytes, _BETWEEN_BYTES) // 4 * 4
    if world.size == 1 or plan.groups or plan.streams or size_bytes == 0:
        reasons.append("copies between ranks were left out: one rank, groups, streams or no buffer")
        return
    prepared = backend.prepare(float_case("sendrecv", size_bytes))
    try:
        prepared.run(0, 2)
        look = prepared.time_isolated(_SAMPLES, None, barrier=True)
    finally:
        prepared.close()
    # The best: what else runs on the host disturbs some calls, a slow link all of them.
    found[NEXT_RANK] = size_bytes / int(look.elapsed_ns.min())


def _run(tool: str, how: tuple[str, Callable[[str], ToolReport]]) -> ToolReport:
    words, read = how
    if shutil.which(tool) is None:
        return ToolReport(tool, left_out=_NOT_INSTALLED, ran=False)
    return read(_output((tool, *words.split()), _TOOL_SECONDS))


def _output(words: Sequence[str], seconds: float) -> str:
    """What a tool printed, errors last; also where it failed or took too long."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{words[0]} did not end within {seconds:g} s"
    except OSError as error:
        return f"{words[0]} could not be started: {error.strerror}"
    told = done.stdout if done.returncode == 0 else done.stdout + b"\n" + done.stderr
    return told.decode(errors="replace")


# ---- ib_write_bw between neighbouring hosts ----------------------------------------------------------


def _between_hosts(world: World, rates: dict[str, float]) -> list[ToolReport]:
    """The second host of every pair writes to the first, over each device that both have. Collective."""
    me = world.members[world.rank]
    first_of = {member.host: member.rank for member in reversed(world.members)}
    leads = speaks_for_host(world)
    installed = leads and shutil.which("ib_write_bw") is not None
    ports = _testable(read_node().nics) if installed else {}
    answers = of_rank_0(world, gathered(world, [installed, list(ports)]))
    hosts = list(distinct_hosts(world.members))
    place = hosts.index(me.host)
    other = place ^ 1  # 0 with 1, 2 with 3, ...
    shared: list[str] = []
    if leads and len(hosts) > 1 and other < len(hosts):
        theirs = answers[first_of[hosts[other]]]
        shared = [name for name in ports if name in theirs[1]][:_MOST_DEVICES] if theirs[0] else []
    servers = [_serve(name, number) for number, name in enumerate(shared)] if place % 2 == 0 else []
    world.barrier()
    reports = []
    if shared and place % 2:
        reports = [_write(name, number, hosts[other]) for number, name in enumerate(shared)]
        rates |= {name: ports[name] for name in shared}
    world.barrier()
    for server in servers:
        try:  # it ends with its client; where none came, it is told to
            server.wait(1.0)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    if leads and len(hosts) > 1 and not shared:
        reason = _NO_PARTNER if installed else _NOT_INSTALLED
        reports.append(ToolReport("ib_write_bw", left_out=reason, ran=False))
    return reports


def _testable(nics: Sequence[NicFacts]) -> dict[str, float]:
    """Devices that ib_write_bw can use, with their rates in GB/s: it connects by RC, which EFA lacks."""
    return {
        nic.name.partition(":")[0]: (nic.rate_gbit_per_s or 0.0) / 8
        for nic in nics
        if nic.kind == "rdma" and nic.up and not nic.efa
    }


def _words(device: str, number: int) -> tuple[str, ...]:
    return ("ib_write_bw", "-F", "--report_gbits", "-d", device, "-p", str(_IB_PORT + number))


def _serve(device: str, number: int) -> subprocess.Popen[bytes]:
    none = subprocess.DEVNULL
    return subprocess.Popen(_words(device, number), stdin=none, stdout=none, stderr=none)


def _write(device: str, number: int, host: str) -> ToolReport:
    """The server may still be opening its device: then the client is turned away, and comes again."""
    text = ""
    for _ in range(_TRIES):
        text = _output((*_words(device, number), host), _IB_SECONDS)
        if "Couldn't connect" not in text:
            break
        time.sleep(_BETWEEN_TRIES_SECONDS)
    return read_ib_write_bw(text, device)
