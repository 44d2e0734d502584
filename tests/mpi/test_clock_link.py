"""Clock synchronisation over a link that is slower one way than the other: an error no exchange sees.

Two network namespaces with host names of their own, joined by a relay (clock_relay.py) with 1 ms forth and
3 ms back. Both ends are on one machine, so the truth is known. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ

PROGRAM = Path(__file__).with_name("clock_program.py")
RELAY = Path(__file__).with_name("clock_relay.py")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
TOOLS = [tool for tool in ("ip", "nsenter", "unshare", "mount", "hostname") if shutil.which(tool) is None]
FORTH_MS, BACK_MS = 1.0, 3.0
ADDRESSES = ("10.213.77.1", "10.213.77.2")

# Hydra's agent in place of ssh: the flags, the host, then words for its shell. A private /sys shows the
# namespace's own devices, a private /dev/shm keeps MPI from believing in one host.
AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1; shift
case $host in {first}) name={names[0]};; *) name={names[1]};; esac
exec nsenter --net=/run/netns/$name unshare --mount --uts --ipc --propagation private sh -c \
    "hostname $name && mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /dev/shm && exec $*"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here"),
    pytest.mark.skipif(bool(TOOLS), reason=f"not installed here: {', '.join(TOOLS)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces takes root"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="the kernel offers no TAP devices"),
]


@dataclass(frozen=True)
class Link:
    names: tuple[str, str]
    agent: Path


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 0, (words, done.stderr)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    names = (f"busbw{os.getpid()}a", f"busbw{os.getpid()}b")
    devices = [f"bb{os.getpid()}{end}" for end in "ab"]
    with ExitStack() as undo:
        for name in names:
            ip("netns", "add", name)
            undo.callback(ip, "netns", "del", name)
        relay = subprocess.Popen(
            [sys.executable, str(RELAY), *devices, str(FORTH_MS), str(BACK_MS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Its end removes the devices, wherever they are.
        undo.callback(end, relay)
        assert relay.stdout is not None
        assert relay.stdout.readline() == "up\n"
        for name, device, address in zip(names, devices, ADDRESSES, strict=True):
            ip("link", "set", device, "netns", name, "name", "eth0")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        agent = tmp_path / "agent"
        agent.write_text(AGENT.format(first=ADDRESSES[0], names=names))
        agent.chmod(0o700)
        yield Link(names, agent)


def run(link: Link, asked: dict[str, Any]) -> list[dict[str, Any]]:
    # TCP only: the processes could reach each other's memory, as those of two hosts cannot.
    transport = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
    hydra = [
        str(MPIEXEC),
        "-launcher",
        "ssh",
        "-launcher-exec",
        str(link.agent),
        "-hosts",
        ",".join(ADDRESSES),
    ]
    done = subprocess.run(
        [
            str(link.agent),
            ADDRESSES[0],
            *hydra,
            "-n",
            "2",
            sys.executable,
            str(PROGRAM),
            f"'{json.dumps(asked)}'",
        ],
        env=clean_environ(**transport),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_half_the_asymmetry_is_missed_and_lies_within_the_bound(link: Link) -> None:
    missed_ns = (BACK_MS - FORTH_MS) / 2 * 1e6
    least_bound_ns = (BACK_MS + FORTH_MS) / 2 * 1e6
    found = []
    # The bound must hold in every attempt. How much is missed is only exact where the relay is: on a busy
    # machine it delays by more than it was told.
    for _ in range(3):
        child = run(link, {"separate": True, "ppm": 50.0, "offset_s": 5.0, "wait_s": 0.5})[1]
        assert abs(child["true_ns"][0]) <= child["error_ns"]
        assert child["error_ns"] > least_bound_ns
        error_ns, excess_ns, *_ = child["recheck"]
        assert abs(child["true_at_recheck_ns"]) <= error_ns
        assert excess_ns == 0
        found.append(child["true_ns"][0])
        if abs(found[-1] - missed_ns) < missed_ns / 2:
            return
    raise AssertionError(f"expected an error of about {missed_ns} ns, found {found}")


def test_two_host_names_on_one_machine_share_the_clock(link: Link) -> None:
    found = run(link, {})
    assert {rank["host"] for rank in found} == set(link.names)
    for rank in found:
        assert rank["leader_of"] == [0, 0]
        assert rank["error_ns"] == 0
        # Seen over the link: 0 was inside the bounds, which are as wide as the link is slow.
        assert rank["agreement_ns"] >= BACK_MS * 1e6
