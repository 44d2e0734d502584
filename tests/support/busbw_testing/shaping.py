"""Links of namespace hosts made slow: the rate at which a host sends, and packets that it loses.

The kernel's htb and nft do it, on the host's own eth0; what was set is taken away by ``clear``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from busbw_testing.namespaces import Hosts

NOMINAL_MBIT = 200.0  # well below what two cores carry, so that the link and not the machine decides


def require_named(field: Mapping[str, Any], slow: str) -> None:
    """Fail where a hunt names another part than the slow one. Skip where this machine was too busy: nothing
    was decided, or one path between two parts got too little of its cores for as long as the hunt took.
    """
    named = [suspect["names"] for suspect in field["suspects"]]
    paths = [names for names in named if names != [slow]]
    assert all(len(names) == 2 for names in paths), named
    if paths or not named:
        pytest.skip(f"this machine is too busy to decide: {field['reason']}, {named}")


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


def send_at(hosts: Hosts, name: str, mbit: float = NOMINAL_MBIT, nic: str = "eth0") -> None:
    """Let the host send no faster than this by a NIC."""
    if nic == "eth0":
        clear(hosts, name)
    hosts.run(name, "tc", "qdisc", "add", "dev", nic, "root", "handle", "1:", "htb", "default", "1")
    rate = ("htb", "rate", f"{mbit:g}mbit", "burst", "16k")
    hosts.run(name, "tc", "class", "add", "dev", nic, "parent", "1:", "classid", "1:1", *rate)


def lose(hosts: Hosts, name: str, percent: int) -> None:
    """Drop so many of the packets that arrive at the host: packets of a wire's size. The kernel carries TCP
    between namespaces in packets of up to 64 KiB, so they are cut at the switch's port. Uncut, 1 of 100 is
    three lost packets in 20 MiB, by chance none.
    """
    hosts.run_on_switch("ip", "link", "set", f"{name}p0", "gso_max_segs", "1")
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
    hosts.run_on_switch("ip", "link", "set", f"{name}p0", "gso_max_segs", "65535")
    hosts.run(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
    hosts.run(name, "nft", "delete", "table", "netdev", "busbw", check=False)
