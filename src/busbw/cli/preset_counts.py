"""Ranks, nodes and slots of a preset that an engine would refuse, whatever cluster it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from busbw.errors import UsageError
from busbw.launchers.hosts_list import distribute, first_nodes, read_places, refuse_idle
from busbw.launchers.rank_counts import refuse_other_count, refuse_too_few, refuse_uneven

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings


def check_counts(ranks: int | None, launch: LaunchSettings, engine: str) -> None:
    """Raises UsageError. ``nodes`` are read where the engine is not said either."""
    counts = [word.strip() for word in launch.nodes.split(",") if word.strip()]
    for count in counts:
        if not (count.isdecimal() and int(count)):
            raise UsageError(f"nodes: {count!r} is no number of nodes", hint='write nodes: "8"')
    each = launch.ranks_per_node
    if (launch.hosts or launch.hostfile is not None) and engine == "hosts":
        for nodes in counts or [""]:
            _check_places(ranks, each, launch, nodes)
        return
    for number in map(int, counts if engine else ()):
        _check_nodes(ranks, each, number, engine)


def _check_nodes(ranks: int | None, each: int | None, nodes: int, engine: str) -> None:
    """On Kubernetes ranks on each node are slots, which may stay open."""
    refuse_too_few(ranks, nodes)
    if engine == "pbs" and ranks is not None:
        refuse_uneven(ranks, nodes)
    slots_may_be_open = ranks is not None and each is not None and ranks < nodes * each
    if engine != "kubernetes" or not slots_may_be_open:
        refuse_other_count(ranks, each, nodes)


def _check_places(ranks: int | None, each: int | None, launch: LaunchSettings, nodes: str) -> None:
    """How many ranks a host without slots gets is only known where there are some, or from the host."""
    places = first_nodes(read_places(launch), nodes)
    refuse_other_count(ranks, each, len(places))
    if len({place.slots is None for place in places}) == 1:
        refuse_idle(distribute(places, ranks, each, 1), ranks, nodes)
