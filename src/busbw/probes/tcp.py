"""What the kernel's TCP counted of the sockets that this process holds: a library's, whatever library it is.

The counters of a whole host would have every other program's in them as well: a daemon that keeps calling a
server that is gone resends for as long as it is tested.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_OPEN: Final = Path("/proc/self/fd")
# tcp_info of linux/tcp.h: 8 bytes, then words of 4, of which tcpi_total_retrans is the 24th.
_TOTAL_RETRANS: Final = struct.Struct("=8x92xI")

Resent = dict[int, int]
"""Segments that each TCP socket sent again since it was made, by its inode."""


def resent_by_socket() -> Resent | None:
    """Of the TCP sockets of this process; None where the system does not say."""
    try:
        descriptors = [int(each.name) for each in _OPEN.iterdir()]
    except OSError:
        return None
    counted: Resent = {}
    for descriptor in descriptors:
        try:
            inode = os.fstat(descriptor).st_ino
            held = socket.socket(fileno=descriptor)
        except OSError:  # no socket, or closed meanwhile
            continue
        try:
            if _is_tcp(held):
                info = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS.size)
                counted[inode] = int(_TOTAL_RETRANS.unpack(info)[0])
        except (OSError, struct.error):  # a kernel that is not Linux's own, under a container
            return None
        finally:
            held.detach()  # it is the library's, and stays open
    return counted


def resent_since(before: Resent | None, after: Mapping[int, int] | None) -> int | None:
    """What was sent again between two looks; None where one of them saw nothing. A socket that is new, or
    has the inode of one that was closed, began at 0.
    """
    if before is None or after is None:
        return None
    known = ((count, before.get(inode, 0)) for inode, count in after.items())
    return sum(count - had if count >= had else count for count, had in known)


def _is_tcp(held: socket.socket) -> bool:
    families = (socket.AF_INET, socket.AF_INET6)
    return held.family in families and held.type == socket.SOCK_STREAM and held.proto == socket.IPPROTO_TCP
