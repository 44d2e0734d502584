"""Where the launches of a series were: what differs between setups may be nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from busbw.model.record import HostInfo, RunRecord

if TYPE_CHECKING:
    from busbw.analysis.compare_arms import Arm

# Engines whose launches are jobs of their own, and how they can be on the same nodes instead.
_OWN_JOBS: Final = {
    "slurm": "in one allocation (--job-id) they have the same ones",
    "kubernetes": "`--set only=` names those to keep to",
    "pbs": "inside one job, `busbw compare ... --on hosts` keeps to its nodes",
    "batch": "AWS Batch has no allocation for several jobs",
}
# There a host's name is that of a container, another one in each job on the same machine.
_IN_CONTAINERS: Final = ("kubernetes", "batch")
_MOST_NAMED: Final = 4


def before_launches(engine: str) -> str:
    """What to know of nodes before the first launch; empty where they are the same for all."""
    if engine != "batch":
        return ""
    return (
        f"each launch is a job of its own on {engine}, on nodes that may differ: what differs between setups"
        f" may be nodes; {_OWN_JOBS[engine]}"
    )


def own_jobs(record: RunRecord) -> str:
    """The engine that chose the nodes of this launch alone; empty where they were those of all launches."""
    launch = record.settings.get("launch", {})
    engine = str(launch.get("on", ""))
    return engine if engine in _OWN_JOBS and not launch.get("job_id") else ""


def nodes_of(record: RunRecord) -> tuple[str, ...]:
    """The machines of a launch, by name in order; empty where any is not known."""
    if record.world is None:
        return ()
    places = {place.host: place for place in record.world.places}
    in_containers = own_jobs(record) in _IN_CONTAINERS
    names = set()
    for host in record.world.hosts:
        place = places.get(host, HostInfo(host))
        own = "" if in_containers or place.pod else host
        names.add(place.kubernetes_node or place.instance or own)
    return () if "" in names else tuple(sorted(names))


def apart(baseline: Arm, arm: Arm) -> list[int]:
    """Blocks in which two setups were on other nodes, as far as that is known."""
    ours, theirs = arm.places, baseline.places
    return sorted(
        block
        for block in ours.keys() & theirs.keys()
        if ours[block] and theirs[block] and ours[block] != theirs[block]
    )


def of_arm(baseline: Arm, arm: Arm) -> Iterator[str]:
    """That an arm's launches were not on the nodes of the baseline's."""
    if not (blocks := apart(baseline, arm)):
        return
    first = blocks[0]
    both = len(arm.places.keys() & baseline.places.keys())
    yield (
        f"{arm.name}: on other nodes than {baseline.name} in {len(blocks)} of {both} blocks (block"
        f" {first + 1}: {named(arm.places[first])} against {named(baseline.places[first])}): what differs"
        " may be the nodes"
    )


def of_all(arms: Sequence[Arm]) -> Iterator[str]:
    """That launches were jobs of their own, unless all are known to have been on the nodes of the baseline's
    of their block.
    """
    engine = next((arm.own_jobs for arm in arms if arm.own_jobs), "")
    unknown = any(not nodes for arm in arms for nodes in arm.places.values())
    if engine and (unknown or any(apart(arms[0], arm) for arm in arms[1:])):
        which = "which the records do not name" if unknown else "which differed"
        yield f"each launch was a job of its own on {engine}, with nodes {which}; {_OWN_JOBS[engine]}"


def named(nodes: Sequence[str]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ",".join(nodes[:_MOST_NAMED]) + more
