"""Groups of ranks on NCCL: which communicators are made, and what a rank without one does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from busbw_testing.cases import case_of

from busbw.rank.backends.base import IdleCase

MakeSite = Callable[..., Any]
GROUPS = ((0, 2), (3, 1))


def communicators(site: Any) -> list[tuple[str, ...]]:
    return [line for line in site.asked() if line[0].startswith("Comm")]


def test_the_world_is_split_by_group_and_the_number_in_it(make_site: MakeSite) -> None:
    site = make_site(rank=1, size=5, groups=GROUPS)
    world = 0x1000 * 5 + 1
    assert communicators(site) == [("CommInitRank", "5", "1"), ("CommSplit", str(world), "1", "1")]
    site.forget()
    site.backend.close()
    part = world + 0x200000 + 1
    assert communicators(site) == [("CommDestroy", str(part)), ("CommDestroy", str(world))]


def test_the_groups_of_a_run_change_without_another_world(make_site: MakeSite) -> None:
    """First by rail, then by host, then the world again, each split from the one communicator of the run."""
    site = make_site(rank=1, size=4)
    world = 0x1000 * 4 + 1
    assert communicators(site) == [("CommInitRank", "4", "1")]
    own: Any = SimpleNamespace(rank=1, size=4)
    for groups, split in ((((0, 2), (1, 3)), ("1", "0")), (((0, 1), (2, 3)), ("0", "1"))):
        site.forget()
        site.backend.regroup(own, groups)
        assert communicators(site)[-1] == ("CommSplit", str(world), *split)
    site.forget()
    site.backend.regroup(own, ())
    ended = [line for line in communicators(site) if line[0] == "CommDestroy"]
    assert (len(ended), ended[0][1] != str(world)) == (1, True)
    site.forget()
    site.backend.close()
    assert communicators(site) == [("CommDestroy", str(world))]


def test_calls_go_to_the_groups_communicator_by_the_number_in_it(make_site: MakeSite) -> None:
    site = make_site(rank=1, size=5, groups=GROUPS)
    site.forget()
    site.backend.prepare(case_of("sendrecv", 2)).run(0)
    sends = [line for line in site.asked() if line[0] == "Send"]
    assert [(line[4], line[5]) for line in sends] == [("0", str(0x1000 * 5 + 1 + 0x200000 + 1))]


def test_a_rank_in_no_group_issues_nothing(make_site: MakeSite) -> None:
    site = make_site(rank=4, size=5, groups=GROUPS)
    case = case_of("all_reduce", 2)
    site.forget()
    prepared = site.backend.prepare(case)
    assert isinstance(prepared, IdleCase)
    prepared.run(0)
    look = prepared.time(3, 2, 5)
    assert (look.elapsed_ns.tolist(), look.took_part) == ([0, 0], False)
    assert site.backend.inapplicable(case) == ""
    prepared.close()
    site.backend.close()
    names = {line[0] for line in site.asked()}
    assert not names & {"AllReduce", "Send", "Recv", "EventRecord"}
