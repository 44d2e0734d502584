"""Hosts as users name them, and how many ranks each gets. Pure, but for reading the host file.

A host file has one host a line: ``name``, ``name:N`` (MPICH) or ``name slots=N`` (Open MPI, DeepSpeed), with
spaces around ``=`` or not, and comments from ``#`` on. Ranks follow the order of the lines; a host may come
again, further down. ``n[01-03,7]`` is n01, n02, n03 and n7, as Slurm writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.files import read_input
from busbw.launch.settle import refuse_other_count, refuse_too_few
from busbw.plan.flags.launch import LaunchSettings
from busbw.rank.world.slurm_text import expand_hosts

# What ssh and the MPI launchers can take: a name, an IPv4 address or an IPv6 address in brackets, maybe with
# a user. A leading hyphen would be an option of ssh.
_HOST: Final = re.compile(r"([A-Za-z0-9_][\w.-]*@)?([A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:.]+\])\Z", re.ASCII)
_SLOTS: Final = re.compile(r"slots=(\d+)\Z")
_AROUND_EQUALS: Final = re.compile(r"\s*=\s*")
# Said by other programs' host files, of no concern here.
_IGNORED: Final = re.compile(r"max[-_]slots=\d+\Z")
_BETWEEN_HOSTS: Final = re.compile(r",(?![^\[]*\])")
_RANGE: Final = re.compile(r"\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\]")


@dataclass(frozen=True)
class Place:
    """A host, as ssh takes it, and its ranks; ``slots`` None where nobody said how many it can have."""

    host: str
    slots: int | None = None

    @property
    def name(self) -> str:
        """The host without a user, and an IPv6 address without brackets."""
        return self.host.rpartition("@")[2].strip("[]")


def read_places(launch: LaunchSettings) -> tuple[Place, ...]:
    """The hosts of --hosts or --hostfile, in order. Raises UsageError, naming the line where there is one."""
    if bool(launch.hosts) == (launch.hostfile is not None):
        raise UsageError(
            "--on hosts needs either --hosts or --hostfile", hint="give --hosts a,b or --hostfile FILE"
        )
    if launch.hostfile is None:
        words = [word.strip() for word in _BETWEEN_HOSTS.split(launch.hosts)]
        return tuple(_place(host, (), "--hosts") for word in words if word for host in _expanded(word))
    text = read_input(launch.hostfile, "name a file with one host a line", "--hostfile")
    places = parse_hostfile(text.removeprefix("\ufeff"), str(launch.hostfile))  # a mark of some editors
    if not places:
        raise UsageError(f"{launch.hostfile} names no host", hint="write one host a line")
    return places


def parse_hostfile(text: str, where: str) -> tuple[Place, ...]:
    """The file's hosts, in its order. Raises UsageError naming the line."""
    places = []
    for number, line in enumerate(text.splitlines(), 1):
        if words := _AROUND_EQUALS.sub("=", line.partition("#")[0]).split():
            places += [_place(host, words[1:], f"{where}, line {number}") for host in _expanded(words[0])]
    return tuple(places)


def _expanded(word: str) -> tuple[str, ...]:
    """The hosts that a word with a range names; the word itself where it has none."""
    return expand_hosts(word) if _RANGE.search(word) else (word,)


def _place(word: str, rest: Iterable[str], where: str) -> Place:
    host, slots = word, None
    if match := re.match(r"(.*[^:]):(\d+)\Z", word):
        host, slots = match[1], int(match[2])
    for more in rest:
        if match := _SLOTS.match(more):
            slots = int(match[1])
        elif not _IGNORED.match(more):
            raise UsageError(f"{where}: {more!r} is not understood", hint="write: name slots=N")
    if not _HOST.match(host):
        raise UsageError(
            f"{where}: {host!r} is not a host name", hint="write a name or an address ([...] for IPv6)"
        )
    if slots == 0:
        raise UsageError(f"{where}: {host} has 0 slots", hint="leave the host out, or give it slots")
    return Place(host, slots)


def first_nodes(places: tuple[Place, ...], nodes: str) -> tuple[Place, ...]:
    """The places of the first ``nodes`` hosts. Raises UsageError where there are not so many."""
    if not nodes:
        return places
    hosts = list(dict.fromkeys(place.host for place in places))
    if int(nodes) > len(hosts):
        raise UsageError(
            f"-N {nodes}, but {len(hosts)} host{'s' if len(hosts) != 1 else ''}",
            hint="name more hosts, or ask for fewer nodes",
        )
    wanted = set(hosts[: int(nodes)])
    return tuple(place for place in places if place.host in wanted)


def distribute(
    places: tuple[Place, ...], ranks: int | None, each: int | None, default: int
) -> tuple[str, ...]:
    """The host of each rank. A place gets ``each`` ranks, else its slots, else ``default``; or ``ranks`` in
    all, filled in the order of the places where they have slots, else spread evenly, the first getting more.

    Raises UsageError for more ranks than slots, and for ``ranks`` that are not ``each``.
    """
    refuse_other_count(ranks, each, len(places))
    slots = [place.slots or default for place in places]
    if ranks is None:
        counts = [each or own for own in slots]
    elif all(place.slots is None for place in places):
        least, more = divmod(ranks, len(places))
        counts = [least + (number < more) for number in range(len(places))]
    else:
        if ranks > sum(slots):
            raise UsageError(
                f"--ranks {ranks}, but {sum(slots)} slots on {len(places)} hosts",
                hint="give more slots, or fewer ranks",
            )
        counts = [max(0, min(own, ranks - sum(slots[:number]))) for number, own in enumerate(slots)]
    return tuple(place.host for place, count in zip(places, counts, strict=True) for _ in range(count))


def refuse_idle(hosts: tuple[str, ...], ranks: int | None, nodes: str) -> None:
    """Nodes that -N asks for are measured, all of them. ``hosts`` are those of the ranks. Raises
    UsageError.
    """
    if not nodes:
        return
    refuse_too_few(ranks, int(nodes))
    used = len(set(hosts))
    if used < int(nodes):
        raise UsageError(
            f"--ranks {ranks} fill the slots of {used} of {nodes} nodes; the others would have no rank",
            hint=f"give --ranks-per-node instead, or -N {used}",
        )
