"""Parts that something else spoke against before the hunt are tested afresh, whatever random pairs say."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from busbw.errors import ExitCode
from busbw.hunt.fabric import Fabric, hunt, simulate
from busbw.hunt.field import doubting, fields, on_switches
from busbw.hunt.findings import exit_code, findings, to_fields
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import Hunt, Round, RoundResult, Rules, Stage

EVERYONE = (tuple(range(16)),)


def now_and_then(share: float, seed: int, doubted: tuple[int, ...]) -> Verdict:
    """Part 3 of 16 at half speed in so many of the rounds."""
    generator = np.random.default_rng(seed)

    def run(turn: Round) -> RoundResult:
        slow = {3: 0.5} if generator.random() < share else {}
        return Fabric(16, slow).run(turn, generator)

    rules = Rules(seed=seed, doubted=doubted)
    return conclude(rules, EVERYONE, hunt(rules, EVERYONE, run))


def test_who_is_slow_now_and_then_is_passed_less_often_where_it_is_doubted() -> None:
    healthy = {
        doubted: sum(now_and_then(0.6, seed, doubted).decision is Decision.HEALTHY for seed in range(30))
        for doubted in ((), (3,))
    }
    assert healthy[()] >= 4
    assert healthy[(3,)] <= 1


@pytest.mark.parametrize(
    ("parts", "doubted"),
    [(4, (2,)), (4, (1, 2)), (5, (0, 1, 2)), (6, (0, 1, 2, 3)), (8, (0, 3)), (64, (2,)), (64, (0, 3))],
)
def test_a_healthy_doubted_part_is_cleared_and_nobody_accused(parts: int, doubted: tuple[int, ...]) -> None:
    for seed in range(8):
        rules = Rules(seed=seed, doubted=doubted)
        everyone = (tuple(range(parts)),)
        history = simulate(Fabric(parts), rules, seed)
        verdict = conclude(rules, everyone, history)
        assert verdict.decision is Decision.HEALTHY
        assert [part for part, *_ in verdict.acquitted] == list(doubted)
        assert all(tests >= 2 for _, tests, _ in verdict.acquitted)
        confirms = [each for each in history if each.round.stage is Stage.CONFIRM]
        for part in doubted:
            assert sum(part in pair for each in confirms for pair in each.round.pairs) >= 2


@pytest.mark.parametrize(
    ("parts", "doubted"), [(4, (1,)), (4, (0, 1)), (5, (1, 2)), (6, (0, 1, 2, 3)), (16, (0,)), (16, (9,))]
)
def test_a_slow_part_is_named_whoever_is_doubted(parts: int, doubted: tuple[int, ...]) -> None:
    for seed in range(8):
        rules = Rules(seed=seed, doubted=doubted)
        everyone = (tuple(range(parts)),)
        verdict = conclude(rules, everyone, simulate(Fabric(parts, slow={0: 0.1}), rules, seed))
        assert [each.parts for each in verdict.suspects] == [(0,)]
        healthy = [part for part in doubted if part]
        if parts > 4:
            assert [part for part, *_ in verdict.acquitted] == healthy
            assert not verdict.open
        else:  # two are left: of them and of it nobody can be control
            assert [(each.parts, each.doubted) for each in verdict.open] == [
                ((part,), True) for part in healthy
            ]


def test_two_doubted_parts_are_not_each_others_partner() -> None:
    for seed in range(10):
        history = simulate(Fabric(8), Rules(seed=seed, doubted=(1, 6)), seed)
        pairs = [pair for each in history if each.round.stage is Stage.CONFIRM for pair in each.round.pairs]
        assert pairs
        assert (1, 6) not in pairs


@pytest.mark.parametrize(
    ("parts", "slow", "doubted"),
    [
        (4, {0: 0.3}, (0, 1)),
        (4, {0: 0.06}, (0, 1)),
        (5, {0: 0.3}, (0, 1)),
        (6, {0: 0.3}, (0, 1, 2)),
        (6, {3: 0.3}, (0, 1, 2, 3)),
        (6, {3: 0.1}, (1, 2, 3, 5)),
        (8, {0: 0.3, 1: 0.3}, (0, 1, 2, 3)),
        (16, {0: 0.06}, (0, 1, 15)),
    ],
)
def test_who_is_slow_after_its_random_pairs_only_is_named_where_it_is_doubted(
    parts: int, slow: dict[int, float], doubted: tuple[int, ...]
) -> None:
    """Beside healthy parts that are doubted too, as those next to it in a ring."""
    everyone = (tuple(range(parts)),)
    for seed in range(6):
        generator, rules = np.random.default_rng(seed), Rules(seed=seed, doubted=doubted)

        def run(turn: Round, generator: np.random.Generator = generator) -> RoundResult:
            return Fabric(parts, slow if turn.stage is Stage.CONFIRM else {}).run(turn, generator)

        verdict = conclude(rules, everyone, hunt(rules, everyone, run))
        assert sorted(each.parts for each in verdict.suspects) == [(part,) for part in slow]
        assert not {part for part, *_ in verdict.acquitted} & {*slow}


def test_of_a_slow_path_nobody_is_accused_who_is_doubted() -> None:
    """All parts of one of its switches are; that may leave it undecided."""
    for seed in range(6):
        rules = Rules(seed=seed, doubted=(0, 1, 2, 3))
        fabric = Fabric(16, per_leaf=4, slow_paths={(0, 2): 0.3})
        verdict = conclude(rules, EVERYONE, simulate(fabric, rules, seed), fabric.leaves)
        named = [(each.parts, each.beyond) for each in verdict.suspects]
        assert named in ([], [((0, 1, 2, 3), (8, 9, 10, 11))])


def test_a_path_that_fresh_tests_of_doubted_parts_are_slow_over_is_tested_itself() -> None:
    """Random pairs crossed it once; fresh tests of doubted parts did more often, and all were slow."""
    rules = Rules(seed=11, doubted=(0, 1, 5, 10, 11, 12, 14, 15))
    fabric = Fabric(16, per_leaf=4, slow_paths={(0, 3): 0.2})
    verdict = conclude(rules, EVERYONE, simulate(fabric, rules, 11), fabric.leaves)
    assert [(each.parts, each.beyond) for each in verdict.suspects] == [((0, 1, 2, 3), (12, 13, 14, 15))]
    assert 0.15 < verdict.suspects[0].loss < 0.25


@pytest.mark.parametrize("doubted", [(), (15,), (0, 1, 6, 11)])
def test_a_slow_host_alone_on_its_switch_is_not_told_as_a_path(doubted: tuple[int, ...]) -> None:
    """It is in every test of each of its paths: its tests over other ones tell."""
    named = 0
    for seed in range(20):
        fabric = Fabric(16, leaf_sizes=(5, 5, 5, 1), latency_noise=0.05)
        slow = replace(fabric, slow={15: 0.2})
        generator, rules = np.random.default_rng(seed), Rules(seed=seed, doubted=doubted)

        def run(turn: Round, generator: np.random.Generator = generator, slow: Fabric = slow) -> RoundResult:
            return (replace(slow, slow={}) if turn.stage is Stage.SCREEN else slow).run(turn, generator)

        verdict = conclude(rules, EVERYONE, hunt(rules, EVERYONE, run, fabric.leaves), fabric.leaves)
        assert [each.parts for each in verdict.suspects] in ([], [(15,)])
        assert not [each for each in verdict.open if each.beyond]
        named += bool(verdict.suspects)
    assert named >= 17


def test_slow_tests_of_who_was_cleared_are_told() -> None:
    """Half of the doubted parts' tests cross a slow path, which is not named where rounds run out."""
    told = []
    (plain,) = fields([f"n{number}" for number in range(16)])
    field = on_switches(plain, {f"n{number}": f"leaf{number // 4}" for number in range(16)})
    for seed in range(12):
        rules = Rules(seed=seed, doubted=(0, 1, 5, 10, 11, 12, 14, 15))
        fabric = Fabric(16, per_leaf=4, slow_paths={(0, 3): 0.2})
        verdict = conclude(rules, EVERYONE, simulate(fabric, rules, seed), fabric.leaves)
        for part, tests, slow in verdict.acquitted:
            (claim,) = [
                each.claim for each in findings(field, verdict) if each.claim.startswith(f"n{part}: doubted")
            ]
            assert (f"{slow} of {tests} fresh tests were slow" in claim) == (slow > 0)
            told.append(slow)
    assert any(told)
    assert not all(told)


def test_who_could_not_be_tested_afresh_is_told_as_doubted_and_not_as_slow() -> None:
    """No round of fresh tests is left."""
    rules = Rules(doubted=(1, 2), most_confirms=0)
    verdict = conclude(rules, (tuple(range(8)),), simulate(Fabric(8), rules, 1))
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.reason == "2 doubted before the hunt, and not cleared"
    (field,) = fields([f"n{number}" for number in range(8)])
    claims = [each.claim for each in findings(field, verdict)]
    assert "n1: doubted before the hunt, and not cleared: no fresh test of it counted" in claims
    assert not any("less bandwidth than" in claim for claim in claims)


def test_a_path_of_a_confirmed_part_is_not_one_more_suspect() -> None:
    named = 0
    for seed in range(30):
        verdict = now_and_then(0.8, seed, ())
        slow = {part for each in verdict.suspects if len(each.parts) == 1 for part in each.parts}
        named += bool(slow)
        assert not [each for each in verdict.open if slow.intersection(each.parts)]
    assert named > 20


def test_words_mean_hosts_and_ranks() -> None:
    hosts = ["a", "a", "a", "b", "b", "b"]
    places = [(host, number % 3) for number, host in enumerate(hosts)]
    words = ("b", "a/1", "5", "c", "a/7")  # a/7: of a run with more ranks a host
    of_ranks, of_hosts = (doubting(each, words, places) for each in fields(hosts))
    assert of_ranks.doubted == {"a/1": 1, "5": 5}
    assert of_hosts.doubted == {"a/1": 0, "b": 1, "5": 1, "a/7": 0}


def test_who_was_cleared_is_told_with_its_tests() -> None:
    rules = Rules(doubted=(3,))
    verdict = conclude(rules, EVERYONE, simulate(Fabric(16), rules, 1))
    (field,) = fields([f"n{number}" for number in range(16)])
    claims = [each.claim for each in findings(field, verdict)]
    tests = verdict.acquitted[0][1]
    told = (
        f"n3: doubted before the hunt, and cleared: {tests} fresh tests did not find it slow by 5.0% or more"
    )
    assert told in claims
    assert to_fields(field, verdict, [], 1.0)["acquitted"] == [
        {"name": "n3", "tests": tests, "slow_tests": 0}
    ]
    assert exit_code([verdict]) is ExitCode.OK


def test_a_plan_with_doubts_comes_back_from_json() -> None:
    plan = Hunt("isolate", 64, Rules(seed=3, doubted=(1,)), doubted=("h3", "h5/0"))
    assert Hunt.from_fields(json.loads(json.dumps(asdict(plan)))) == plan
