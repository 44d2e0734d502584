"""A link with a delay of its own in each direction: two TAP devices, and this process in between.

`clock_relay.py NAME_A NAME_B FORTH_MS BACK_MS` makes the devices in its own network namespace (they may be
moved afterwards), says `up`, and ends with its standard input. (netem is not in every kernel.)
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def tap(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def main() -> None:
    a, b = tap(sys.argv[1]), tap(sys.argv[2])
    paths = {a: (b, float(sys.argv[3]) / 1e3), b: (a, float(sys.argv[4]) / 1e3)}
    waiting: dict[int, deque[tuple[float, bytes]]] = {a: deque(), b: deque()}
    print("up", flush=True)
    while True:
        due = min((queue[0][0] for queue in waiting.values() if queue), default=None)
        timeout = None if due is None else max(0.0, due - time.monotonic())
        ready, _, _ = select.select([a, b, 0], [], [], timeout)
        if 0 in ready:
            return
        for source in ready:
            target, delay_s = paths[source]
            try:
                waiting[target].append((time.monotonic() + delay_s, os.read(source, 65536)))
            except OSError:  # the device is down yet
                time.sleep(1e-3)
        for target, queue in waiting.items():
            while queue and queue[0][0] <= time.monotonic():
                try:
                    os.write(target, queue.popleft()[1])
                except OSError:
                    continue


if __name__ == "__main__":
    main()
