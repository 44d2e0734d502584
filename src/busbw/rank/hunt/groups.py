"""Rounds of groups: every group has a communicator of its own, and all of them run a collective at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from busbw.errors import ExitCode
from busbw.hunt.compare_groups import COLLECTIVE, wants_more
from busbw.hunt.field import Field
from busbw.hunt.rounds import rails
from busbw.model.hunt import GroupTest, Round, RoundResult, Stage
from busbw.model.layout import SHARE_ALIGNMENT_BYTES
from busbw.rank.backends.base import float_case
from busbw.rank.hunt.round_time import Messages
from busbw.rank.world.base import RefusedTogether, of_rank_0


def stages(hosts: Sequence[str]) -> tuple[tuple[Stage, Field], ...]:
    """The rails of ranks on ``hosts`` (one name a rank), and then the hosts. Groups of one rank have no
    partner and are left out, and so is a stage without groups.
    """
    names = tuple(dict.fromkeys(hosts))
    nodes = [tuple(rank for rank, own in enumerate(hosts) if own == name) for name in names]
    found = (
        (Stage.EACH_RAIL, "rail", [(f"rail {number}", own) for number, own in enumerate(rails(nodes))]),
        (Stage.EACH_HOST, "host", list(zip(names, nodes, strict=True))),
    )
    return tuple(
        (stage, _field(kind, several))
        for stage, kind, groups in found
        if (several := [(name, ranks) for name, ranks in groups if len(ranks) > 1])
    )


def _field(kind: str, groups: Sequence[tuple[str, tuple[int, ...]]]) -> Field:
    names, ranks = zip(*groups, strict=True)
    return Field(kind, names, ranks, (tuple(range(len(groups))),))


def run(
    by: Messages, stage: Stage, field: Field, first: int, tell: Callable[[RoundResult], None] | None
) -> tuple[RoundResult, ...]:
    """The rounds of a stage, from number ``first`` on, until rank 0 has enough; all of them on rank 0, none
    elsewhere. The backend's communicators are the groups' afterwards. Collective; raises RefusedTogether
    where a rank has nothing for another one.
    """
    world, hunt, least = by.world, by.hunt, SHARE_ALIGNMENT_BYTES * max(map(len, field.ranks))
    if hunt.size_bytes < least:
        raise RefusedTogether(
            f"{hunt.size_bytes} B are less than {SHARE_ALIGNMENT_BYTES} for each rank of a {field.kind}",
            hint=f"give -b {least} or more",
            exit_code=ExitCode.USAGE,
        )
    case = float_case(COLLECTIVE, hunt.size_bytes)
    groups = zip(field.names, field.ranks, strict=True)
    mine = next((name for name, ranks in groups if world.rank in ranks), "other groups")
    doing, history = f"{COLLECTIVE} in {mine}", tuple[RoundResult, ...]()
    with by.deadline.watch(hunt.timeout_s, doing):
        by.backend.regroup(world, field.ranks)
        pace = by.pace(case, (), field.kind)
    with by.prepared(case, (), pace.pause_ns) as prepared:
        while of_rank_0(world, wants_more(hunt.rules, history)):
            # All groups run at once.
            found = by.everyone(doing, lambda: by.samples(prepared, pace.calls))
            if found is not None:
                chosen = Round(first + len(history), stage, (), field.ranks)
                history = (*history, _result(chosen, *found))
                if tell is not None:
                    tell(history[-1])
    return history


def _result(chosen: Round, everyone: Sequence[Sequence[float]], seconds: float) -> RoundResult:
    """A collective has ended when it has for the slowest rank of its group."""
    tests = tuple(
        GroupTest(ranks, tuple(max(each) for each in zip(*(everyone[rank] for rank in ranks), strict=True)))
        for ranks in chosen.groups
    )
    return RoundResult(chosen, (), seconds, groups=tests)
