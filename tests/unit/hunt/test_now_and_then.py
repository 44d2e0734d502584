"""What is slow now and then, what resends a little, and what nobody is left to test with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from busbw.hunt.fabric import Fabric, hunt
from busbw.hunt.field import fields
from busbw.hunt.findings import findings
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import RESENT, PairTest, Round, RoundResult, Rules, Stage

EVERYONE = (tuple(range(16)),)
HOSTS = [f"n{number}" for number in range(16)]


def now_and_then(share: float, seed: int) -> tuple[Verdict, int]:
    """Part 3 at half speed in so many of the rounds; the verdict, and how many of its tests were slow."""
    generator = np.random.default_rng(seed)
    slow = 0

    def run(turn: Round) -> RoundResult:
        nonlocal slow
        is_slow = bool(generator.random() < share)
        slow += is_slow and any(3 in each for each in turn.pairs)
        return Fabric(16, {3: 0.5} if is_slow else {}).run(turn, generator)

    rules = Rules(seed=seed)
    return conclude(rules, EVERYONE, hunt(rules, EVERYONE, run)), slow


def test_one_good_test_does_not_clear_who_is_slow_in_most() -> None:
    named = 0
    for seed in range(60):
        verdict, slow = now_and_then(0.8, seed)
        assert all(3 in suspect.parts for suspect in verdict.suspects)  # it, or a path to it
        named += bool(verdict.suspects)
        if slow > 2:
            assert verdict.decision is not Decision.HEALTHY, seed
    assert named >= 0.85 * 60


def test_parts_that_surely_lost_less_than_is_worth_naming_are_not_accused() -> None:
    """3.5 % where 5 % is: seen in every test, and no reason to take a host out."""
    for seed in range(20):
        for lost, expected in ((0.035, []), (0.05, [(3,)])):
            rules = Rules(seed=seed)
            fabric = Fabric(16, {3: lost}, noise=0.003)
            generator = np.random.default_rng(seed)
            history = hunt(rules, EVERYONE, lambda turn, f=fabric, g=generator: f.run(turn, g))  # type: ignore[misc]
            assert [each.parts for each in conclude(rules, EVERYONE, history).suspects] == expected


def scripted(slow: set[int], turn: Round) -> RoundResult:
    """A round with part 3 at half speed where its number is in ``slow``."""
    fabric = Fabric(16, {3: 0.5} if turn.number in slow else {}, latency_noise=0.01)
    return fabric.run(turn, np.random.default_rng(turn.number))


def test_who_was_cleared_and_yet_slow_too_often_is_no_healthy_part() -> None:
    """Slow in both rounds of screening and the third, then good in all that follow."""
    verdict = conclude(Rules(), EVERYONE, hunt(Rules(), EVERYONE, lambda turn: scripted({0, 1, 2}, turn)))
    assert verdict.decision is Decision.UNDECIDED
    (suspect,) = verdict.open
    assert (suspect.parts, suspect.flapping, suspect.slow_tests) == ((3,), True, 3)
    assert suspect.tests > 4
    assert verdict.reason == "1 suspected, slow in some of their tests and not in others"
    first = findings(fields(HOSTS)[0], verdict)[0]
    assert first.claim.startswith(f"n3: slow in 3 of {suspect.tests} tests: 50.")
    assert "and none in the rest; suspected" in first.claim


def test_once_slow_is_chance() -> None:
    verdict = conclude(Rules(), EVERYONE, hunt(Rules(), EVERYONE, lambda turn: scripted({0}, turn)))
    assert (verdict.decision, verdict.open) == (Decision.HEALTHY, ())


@pytest.mark.parametrize(("resent", "decision"), [(3, Decision.HEALTHY), (10, Decision.SLOW)])
def test_few_resent_segments_accuse_nobody(resent: int, decision: Decision) -> None:
    """Less than half of the 10 that are worth naming: on a quiet fabric too, where the others resend none."""
    for seed in range(10):
        generator = np.random.default_rng(seed)
        rules = Rules(metrics=(*Rules().metrics, RESENT), seed=seed)

        def run(turn: Round, generator: np.random.Generator = generator) -> RoundResult:
            found = Fabric(16).run(turn, generator)
            return replace(found, tests=tuple(map(with_resent, found.tests)))

        def with_resent(test: PairTest) -> PairTest:
            count = 1.0 + resent * (3 in (test.one, test.other))
            return replace(test, times_ns={**test.times_ns, RESENT: ((count,), (count,))})

        verdict = conclude(rules, EVERYONE, hunt(rules, EVERYONE, run))
        assert verdict.decision is decision
        for suspect in verdict.suspects:
            assert suspect.low < suspect.high - 2  # a count has the noise of one


def test_where_all_ranks_of_a_host_are_slow_it_is_said_that_none_could_be_tested_afresh() -> None:
    hosts = [f"h{rank // 4}" for rank in range(32)]
    field, _ = fields(hosts)
    generator = np.random.default_rng(1)
    fabric = Fabric(32, dict.fromkeys(range(12, 16), 0.3))
    history = hunt(Rules(), field.groups, lambda turn: fabric.run(turn, generator))
    assert {each.round.stage for each in history} == {Stage.SCREEN}
    verdict = conclude(Rules(), field.groups, history)
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.reason == "4 suspected, with nobody left that passes to test them with"
    assert {each.parts for each in verdict.open} == {(12,), (13,), (14,), (15,)}
