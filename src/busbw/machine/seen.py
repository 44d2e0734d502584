"""What hosts and their kernels say of a job that does not go on, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from busbw.model.hang import HostSeen, LinkSeen, ProcessSeen
from busbw.units import first_of

_MOST: Final = 4


def host_words(host: str, seen: HostSeen) -> Iterator[str]:
    """What its links did within a second, those first that carried least, and its kernel's log of GPUs."""
    links = [link for link in seen.links if link.carried is not None and link.name != "lo"]
    if links:
        links.sort(key=lambda link: sum(link.carried or ()))
        yield f"{host} within 1 s: {first_of(map(_carried, links), _MOST)}"
    wrong = [f"{link.name} {name} {count:,}" for link in seen.links for name, count in link.events.items()]
    if wrong:
        yield f"{host} counted within 1 s: {first_of(wrong, _MOST)}"
    for line in seen.log:
        yield f"{host}'s kernel log: {line}"


def process_words(who: str, seen: ProcessSeen) -> Iterator[str]:
    """Where a process is: its Python stack, or the kernel's function; and whom it does not reach."""
    if seen.stack:
        yield f"{who} is in {first_of(seen.stack, 3, ' < ')}"
    elif kernel := seen.kernel or ((seen.waits_in,) if seen.waits_in else ()):
        yield f"{who} is in the kernel's {first_of(kernel, 3, ' < ')}"
    if seen.unanswered:
        yield f"{who} sends the same again and again to {first_of(seen.unanswered, _MOST)}"


def _carried(link: LinkSeen) -> str:
    sent, received = link.carried or (0, 0)
    if not sent and not received:
        return f"{link.name} nothing"
    return f"{link.name} sent {sent:,} B, received {received:,} B"


def of_ranks(hosts: Mapping[str, HostSeen], ranks: Mapping[tuple[str, int], int]) -> Iterator[str]:
    """All of it, for hosts by name and ranks by host and process id."""
    for (host, pid), rank in ranks.items():
        if host in hosts and (process := hosts[host].processes.get(pid)) is not None:
            yield from process_words(f"rank {rank}", process)
    for host, seen in hosts.items():
        yield from host_words(host, seen)
