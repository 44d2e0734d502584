"""A program: what passes between a port of the switch and the bridge does so later, both ways.

    nsenter -t SWITCH -n python delay_line.py PORT TAP SECONDS

The kernel's own delay (netem) is not in every kernel. PORT (a veth, its other end is the host's NIC) must not
be in the bridge; a TAP of the given name is made, to be put there in its place. The program goes to the
background once both are open, and ends when the TAP is deleted or the host is gone. Frames keep their
offloads (segments of 64 KiB, open checksums) behind the header that both kinds of file speak, so a link of
200 Mbit/s is some 400 frames a second; the delay is exact to 0.1 ms where a core is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from typing import Final

# linux/if_tun.h, linux/if_packet.h, linux/if_ether.h, asm-generic/socket.h
_TUNSETIFF: Final = 0x400454CA
_TUNSETOFFLOAD: Final = 0x400454D0
_TAP: Final = 0x0002 | 0x1000 | 0x4000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR
_OFFLOADS: Final = 1 | 2 | 4  # TUN_F_CSUM, _TSO4, _TSO6
_SOL_PACKET, _VNET_HDR, _IGNORE_OUTGOING = 263, 15, 23
_ALL_PROTOCOLS: Final = 0x0003
_SNDBUFFORCE, _RCVBUFFORCE = 32, 33
_BUFFER_BYTES: Final = 16 << 20
_FRAME_BYTES: Final = 70_000
_AT_ONCE: Final = 32


def open_tap(name: str) -> int:
    """A TAP in this process's network, with offloads."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP))
    fcntl.ioctl(tap, _TUNSETOFFLOAD, _OFFLOADS)
    return tap


def open_port(name: str) -> socket.socket:
    """Everything that arrives at the NIC, whoever it is for; what is written to it leaves there."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    for option in (_VNET_HDR, _IGNORE_OUTGOING):
        port.setsockopt(_SOL_PACKET, option, 1)
    for option in (_SNDBUFFORCE, _RCVBUFFORCE):
        port.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    port.setblocking(False)
    port.bind((name, _ALL_PROTOCOLS))
    return port


def forward(one: int, other: int, delay_s: float) -> None:
    """Carry frames for ever. Raises OSError when one of the ends is gone."""
    to = {one: other, other: one}
    waiting: deque[tuple[float, int, bytes]] = deque()  # by the time at which they are due
    while True:
        now_s = time.monotonic()
        while waiting and waiting[0][0] <= now_s:
            _, target, frame = waiting.popleft()
            with contextlib.suppress(BlockingIOError):  # the queue is full: a switch drops it too
                os.write(target, frame)
        ready, _, _ = select.select(to, (), (), waiting[0][0] - now_s if waiting else None)
        for source in ready:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_AT_ONCE):
                    frame = os.read(source, _FRAME_BYTES)
                    waiting.append((time.monotonic() + delay_s, to[source], frame))


def main() -> None:
    """See the module."""
    name, tap_name, seconds = sys.argv[1:]
    tap, port = open_tap(tap_name), open_port(name)
    if os.fork():
        return
    os.setsid()
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # a link does not wait for a core
    with contextlib.suppress(OSError):
        forward(tap, port.fileno(), float(seconds))


if __name__ == "__main__":
    main()
