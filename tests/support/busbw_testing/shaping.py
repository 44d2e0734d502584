"""Links of namespace hosts made slow: the rate at which a host sends, and packets that it loses.

The kernel's htb and nft do it, on the host's own eth0; what was set is taken away by ``clear``.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw_testing.namespaces import Hosts

NOMINAL_MBIT = 200.0  # well below what two cores carry, so that the link and not the machine decides


def why_no_shaping(hosts: Hosts) -> str:
    """Why links cannot be shaped here; empty where they can."""
    first = hosts.names[0]
    for words in (("tc", "qdisc", "replace", "dev", "eth0", "root", "htb"), ("nft", "list", "tables")):
        try:
            hosts.run(first, *words)
        except (OSError, subprocess.SubprocessError) as error:
            return f"no shaping here: {error}"
    clear(hosts, first)
    return ""


def send_at(hosts: Hosts, name: str, mbit: float = NOMINAL_MBIT) -> None:
    """Let the host send no faster than this."""
    clear(hosts, name)
    hosts.run(name, "tc", "qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1")
    rate = ("htb", "rate", f"{mbit:g}mbit", "burst", "16k")
    hosts.run(name, "tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", *rate)


def lose(hosts: Hosts, name: str, percent: int) -> None:
    """Drop so many of the packets that arrive at the host."""
    hook = 'type filter hook ingress device "eth0" priority 0;'
    rule = f"numgen random mod 100 < {percent} counter drop"
    rules = f"table netdev busbw {{\nchain drops {{\n{hook}\n{rule}\n}}\n}}"
    done = subprocess.run(
        hosts.command(name, ["nft", "-f", "-"]), input=rules, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr)


def clear(hosts: Hosts, name: str) -> None:
    """As it was: whatever a test before this one left is gone too."""
    hosts.run(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
    hosts.run(name, "nft", "delete", "table", "netdev", "busbw", check=False)
