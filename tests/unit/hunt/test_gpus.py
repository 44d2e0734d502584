"""The rules among the GPUs of one host: few parts, and small messages that wait for the host as often as not.

The recorded hunts are those of ``busbw_testing.few_gpus``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from busbw_testing.few_gpus import METRICS, gpus, recorded, small_messages

from busbw.hunt.decide import next_round
from busbw.hunt.fabric import Fabric, hunt, simulate
from busbw.hunt.field import fields
from busbw.hunt.findings import findings
from busbw.hunt.standing import stand
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, PairTest, Round, RoundResult, Rules, Stage

HUNTS = recorded()
SMALL = small_messages()
RULES = Rules(metrics=METRICS)
FOUR = ((0, 1, 2, 3),)


def screening(hunted_before: dict[str, Any]) -> tuple[RoundResult, ...]:
    """The random pairs of a recorded hunt: which pairs came after them, the rules of that day chose."""
    rounds = [each for each in hunted_before["rounds"] if each["stage"] == Stage.SCREEN]
    return tuple(
        RoundResult(
            Round(each["number"], Stage.SCREEN, tuple((one, other) for one, other, _ in each["tests"])),
            tuple(PairTest(one, other, times_ns) for one, other, times_ns in each["tests"]),
        )
        for each in rounds
    )


@pytest.mark.parametrize("recorded", [each for each in HUNTS if each["slowed"] is None])
def test_recorded_healthy_gpus_are_healthy(recorded: dict[str, Any]) -> None:
    rounds = screening(recorded)
    assert next_round(RULES, FOUR, rounds) is None
    assert conclude(RULES, FOUR, rounds).decision is Decision.HEALTHY


@pytest.mark.parametrize("recorded", [each for each in HUNTS if each["slowed"] is not None])
def test_a_recorded_slowed_gpu_is_the_one_to_be_tested_afresh(recorded: dict[str, Any]) -> None:
    rounds, slowed = screening(recorded), recorded["slowed"]
    standing = stand(RULES, FOUR, rounds)
    assert [each.parts for each in standing.open if each.metric == BANDWIDTH] == [(slowed,)]
    turn = next_round(RULES, FOUR, rounds)
    assert turn is not None
    assert turn.stage is Stage.CONFIRM
    (own,) = [pair for pair in turn.pairs if slowed in pair]
    assert [set(range(4)) - set(own)] == [set(pair) for pair in turn.pairs if pair != own]  # its control


def hunted(count: int, seed: int, *, is_slow: bool) -> tuple[int | None, Verdict]:
    generator = random.Random(f"{count} {seed}")
    slow = generator.randrange(count) if is_slow else None
    everyone, rules = (tuple(range(count)),), Rules(metrics=RULES.metrics, seed=seed)
    return slow, conclude(rules, everyone, hunt(rules, everyone, gpus(slow, generator, SMALL)))


@pytest.mark.parametrize("count", [4, 5, 6, 8])
def test_healthy_gpus_are_found_healthy(count: int) -> None:
    verdicts = [hunted(count, seed, is_slow=False)[1] for seed in range(24)]
    assert not [each for each in verdicts if each.suspects]
    assert sum(each.decision is Decision.HEALTHY for each in verdicts) >= 22


@pytest.mark.parametrize("count", [4, 5, 6, 8])
def test_a_gpu_at_half_its_bandwidth_is_named(count: int) -> None:
    hits = 0
    for seed in range(12):
        slow, verdict = hunted(count, seed, is_slow=True)
        found = [each.parts for each in verdict.suspects]
        assert found in ([], [(slow,)])
        hits += bool(found)
    assert hits >= 11


def made(late: dict[int, float], count: int, rounds: int = 8) -> tuple[RoundResult, ...]:
    """Rounds of pairs that take alike, but that all of a round take ``late`` times as long."""
    history: tuple[RoundResult, ...] = ()
    generator = random.Random(0)
    for number in range(rounds):
        turn = next_round(Rules(metrics=RULES.metrics, least_values=99), (tuple(range(count)),), history)
        assert turn is not None
        factor = late.get(number, 1.0)
        tests = []
        for one, other in turn.pairs:
            wide, small = (each * generator.lognormvariate(0, 0.01) for each in (1e6, 1e4))
            times = {BANDWIDTH: ((wide,), (wide,)), LATENCY: ((small * factor,),), QUICKEST: ((small,),)}
            tests.append(PairTest(one, other, times))
        history = (*history, RoundResult(turn, tuple(tests)))
    return history


@pytest.mark.parametrize(("count", "rounds"), [(4, 8), (8, 4), (64, 3)])
def test_a_round_that_was_late_as_a_whole_suspects_nobody(count: int, rounds: int) -> None:
    history = made({1: 5.0}, count, rounds)
    assert not stand(RULES, (tuple(range(count)),), history).candidates
    assert conclude(RULES, (tuple(range(count)),), history).decision is Decision.HEALTHY


@pytest.mark.parametrize("count", [4, 5])
def test_two_paths_that_are_late_whenever_they_are_tested_are_not_left_out(count: int) -> None:
    """Both are in the same rounds, whose every test is late: of four parts, again and again."""
    late, rules = {(0, 1), (2, 3)}, Rules(metrics=RULES.metrics)

    def run(turn: Round) -> RoundResult:
        tests = []
        for pair in turn.pairs:
            small = 5e4 if pair in late else 1e4
            times = {BANDWIDTH: ((1e6,),), LATENCY: ((small,),), QUICKEST: ((small,),)}
            tests.append(PairTest(*pair, times))
        return RoundResult(turn, tuple(tests))

    everyone = (tuple(range(count)),)
    verdict = conclude(rules, everyone, hunt(rules, everyone, run))
    assert verdict.decision is not Decision.HEALTHY
    assert not verdict.moved


def test_rounds_that_were_left_out_are_told() -> None:
    verdict = conclude(RULES, FOUR, made({1: 5.0}, 4))
    assert verdict.moved == {LATENCY: 1}
    (told,) = [each for each in findings(fields(["h"] * 4)[0], verdict) if "not covered" in each.claim]
    assert "latency in 1 of 8 rounds, in which all pairs were slow" in told.claim


def test_of_two_rounds_one_of_which_was_late_latency_is_not_covered() -> None:
    verdict = conclude(RULES, (tuple(range(64)),), made({1: 5.0}, 64, rounds=2))
    assert verdict.unobserved == (LATENCY,)
    assert not verdict.open


def test_suspects_wait_where_no_control_would_be_left() -> None:
    """Two slow paths of four parts, of eight: with a partner each, nobody were left to compare them with.
    (The seed is the first whose random pairs have both.)
    """
    ends, rules = {0, 1, 2, 3}, Rules(metrics=(BANDWIDTH,), seed=7)
    rounds = simulate(Fabric(8, slow_pairs={(0, 1): 0.2, (2, 3): 0.2}, noise=0.002), rules, 7)
    confirming = [each.round.pairs for each in rounds if each.round.stage is Stage.CONFIRM]
    for pairs in confirming[:2]:
        assert any(len(ends.intersection(each)) == 1 for each in pairs)
        assert any(ends.isdisjoint(each) for each in pairs)
    verdict = conclude(rules, (tuple(range(8)),), rounds)
    assert {each.parts for each in verdict.suspects} == {(0, 1), (2, 3)}
