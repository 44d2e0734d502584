"""Groups that ran at once, compared: who is named, and who never is."""

from __future__ import annotations

import random
from typing import Final

import pytest

from busbw.hunt.compare_groups import (
    FRESH,
    SCREENS,
    GroupComparison,
    compare,
    decisions,
    findings,
    to_fields,
    wants_more,
)
from busbw.hunt.field import Field
from busbw.hunt.verdict import Decision
from busbw.model.hunt import GroupTest, Round, RoundResult, Rules, Stage

RULES: Final = Rules()
SIZE: Final = 1 << 20


def rounds(
    count: int,
    slow: dict[int, float] | None = None,
    *,
    groups: tuple[int, ...] = (4, 4, 4, 4),
    noise: float = 0.01,
    shared: float = 0.0,
    seed: int = 0,
) -> tuple[RoundResult, ...]:
    """Groups of so many ranks that take 1 ms; those in ``slow`` have lost that share. ``shared`` disturbs all
    groups of a round alike.
    """
    generator = random.Random(seed)
    ranks = [tuple(range(100 * at, 100 * at + size)) for at, size in enumerate(groups)]

    def test(group: int, beside: float) -> GroupTest:
        took = 1e6 / (1 - (slow or {}).get(group, 0.0)) * beside
        samples = tuple(took * generator.lognormvariate(0, noise) for _ in range(5))
        return GroupTest(ranks[group], samples)

    def one(number: int) -> RoundResult:
        beside = generator.lognormvariate(0, shared)
        tests = tuple(test(group, beside) for group in range(len(groups)))
        return RoundResult(Round(number, Stage.EACH_RAIL, (), tuple(ranks)), (), 0.1, groups=tests)

    return tuple(one(number) for number in range(count))


def hunted(**how: object) -> tuple[GroupComparison, int]:
    """As the ranks do it: rounds until they are enough."""
    everything = rounds(SCREENS + FRESH, **how)  # type: ignore[arg-type]
    run = next(count for count in range(len(everything) + 1) if not wants_more(RULES, everything[:count]))
    return compare(RULES, everything[:run]), run


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_alike_groups_take_the_first_rounds_alone(seed: int, shared: float) -> None:
    found, run = hunted(seed=seed, shared=shared)
    assert (found.decision, run) == (Decision.HEALTHY, SCREENS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("groups", [(4, 4), (4, 4, 4, 4)])
def test_a_slow_group_is_named_by_fresh_rounds(seed: int, groups: tuple[int, ...]) -> None:
    found, run = hunted(slow={1: 0.1}, seed=seed, groups=groups, shared=0.2)
    assert (found.decision, run) == (Decision.SLOW, SCREENS + FRESH)
    slow = [each for each in found.groups if each.decision is Decision.SLOW]
    assert [(each.group, each.rounds, each.fresh) for each in slow] == [(1, FRESH, True)]
    assert slow[0].low < 0.1 < slow[0].high or abs(slow[0].loss - 0.1) < 0.02


@pytest.mark.parametrize("seed", range(20))
def test_noise_accuses_nobody(seed: int) -> None:
    """Not even of more than it hides: one group may have had the bad luck of a busy core throughout."""
    found, _ = hunted(slow={2: 0.6}, noise=1.0, seed=seed)
    assert found.decision is Decision.UNDECIDED
    assert "noise hides" in found.reason


def test_only_groups_of_as_many_ranks_are_compared() -> None:
    found = compare(RULES, rounds(SCREENS, groups=(4, 4, 2)))
    assert (sorted(each.group for each in found.groups), found.alone) == ([0, 1], (2,))
    lonely = compare(RULES, rounds(SCREENS, groups=(8,)))
    assert (lonely.decision, lonely.groups) == (Decision.UNDECIDED, ())
    assert decisions([found, lonely]) == [Decision.HEALTHY]


def test_a_slow_host_is_told_in_a_line_and_can_be_left_out() -> None:
    history = rounds(SCREENS + FRESH, {1: 0.5}, groups=(2, 2, 2), noise=0.0)
    field = Field("host", ("a", "b", "c"), tuple(each.ranks for each in history[0].groups), ((0, 1, 2),))
    found = compare(RULES, history)
    slow, covers = findings(RULES, SIZE, field, found, history)
    assert slow.claim.startswith("b: 50.0% less bandwidth than the 2 other hosts at the same time (95 %: ")
    assert "0.262 GB/s, the 2 other hosts 0.524 GB/s" in slow.evidence
    assert (slow.host, covers.claim[:12]) == ("b", "not covered:")
    fields = to_fields(field, found, history, ())
    assert fields["exclude"]["slurm"] == "--exclude=b"
    assert fields["groups"][0]["name"] == "b"
