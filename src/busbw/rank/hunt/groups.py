"""Rounds of groups: every group has a communicator of its own, and all of them run a collective at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from busbw.errors import ExitCode
from busbw.hunt.compare_groups import COLLECTIVE, wants_more
from busbw.hunt.field import Field
from busbw.hunt.rounds import rails
from busbw.model.hunt import GroupTest, Hunt, Round, RoundResult, Stage
from busbw.model.layout import SHARE_ALIGNMENT_BYTES
from busbw.rank.backends.base import float_case
from busbw.rank.hunt.round_time import Messages
from busbw.rank.world.base import RefusedTogether, gathered, of_rank_0

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbw.rank.backends.base import Backend, PreparedCase
    from busbw.rank.process import Deadline
    from busbw.rank.world.base import World


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


class GroupTester(Messages):
    """Runs the rounds of a stage."""

    def __init__(
        self, world: World, hunt: Hunt, backend: Backend, deadline: Deadline, *, sleeps: bool
    ) -> None:
        super().__init__(world, hunt, backend, sleeps=sleeps)
        self._deadline = deadline

    def run(
        self, stage: Stage, field: Field, first: int, tell: Callable[[RoundResult], None] | None
    ) -> tuple[RoundResult, ...]:
        """Round after round, from number ``first`` on, until rank 0 has enough; all of them on rank 0, none
        elsewhere. The backend's communicators are the groups' afterwards. Collective.
        """
        self._require_shares(field)
        case = float_case(COLLECTIVE, self.hunt.size_bytes)
        mine = next(
            (name for name, ranks in zip(field.names, field.ranks, strict=True) if self.world.rank in ranks),
            "",
        )
        doing = f"{COLLECTIVE} in {mine}" if mine else f"{COLLECTIVE} in other groups"
        history: tuple[RoundResult, ...] = ()
        with self._deadline.watch(self.hunt.timeout_s, doing):
            self.backend.regroup(self.world, field.ranks)
            pace = self.pace(case, (), field.kind)
        with self.prepared(case, (), pace.pause_ns) as prepared:
            while self._goes_on(history):
                start_s = time.monotonic()
                with self._deadline.watch(self.hunt.timeout_s, doing):
                    everyone = self._measure(prepared, pace.calls)
                if everyone is not None:
                    chosen = Round(first + len(history), stage, (), field.ranks)
                    found = _result(chosen, everyone, time.monotonic() - start_s)
                    history = (*history, found)
                    if tell is not None:
                        tell(found)
        return history

    def _goes_on(self, history: Sequence[RoundResult]) -> bool:
        return bool(of_rank_0(self.world, wants_more(self.hunt.rules, history)))

    def _measure(self, prepared: PreparedCase, calls: int) -> list[list[float]] | None:
        """Nanoseconds of a call in each sample, of every rank; on rank 0. All groups run at once."""
        everyone = gathered(self.world, self.samples(prepared, calls))
        # A rank that left early could not report that a round does not end, and would seem to hang.
        self.world.barrier()
        return everyone

    def _require_shares(self, field: Field) -> None:
        """Every rank has something for every other one. Raises RefusedTogether."""
        least = SHARE_ALIGNMENT_BYTES * max(map(len, field.ranks))
        if self.hunt.size_bytes < least:
            raise RefusedTogether(
                f"{self.hunt.size_bytes} B are less than {SHARE_ALIGNMENT_BYTES} for each rank"
                f" of a {field.kind}",
                hint=f"give -b {least} or more",
                exit_code=ExitCode.USAGE,
            )


def _result(chosen: Round, everyone: Sequence[Sequence[float]], seconds: float) -> RoundResult:
    """A collective has ended when it has for the slowest rank of its group."""
    tests = tuple(
        GroupTest(ranks, tuple(max(each) for each in zip(*(everyone[rank] for rank in ranks), strict=True)))
        for ranks in chosen.groups
    )
    return RoundResult(chosen, (), round(seconds, 4), groups=tests)
