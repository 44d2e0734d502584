"""The rules of a hunt, on a fabric with faults and on rounds made by hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.fabric import Fabric, hunt, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.hunt.decide import next_round
from busbw.hunt.field import fields
from busbw.hunt.findings import findings
from busbw.hunt.rounds import turns
from busbw.hunt.verdict import Decision, HuntVerdict, conclude
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT, PairTest, Round, RoundResult, Rules, Stage

RULES = Rules()


def everyone(count: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(count)),)


def verdict_of(fabric: Fabric, seed: int = 0, rules: Rules = RULES) -> HuntVerdict:
    rules = replace(rules, seed=seed)
    return conclude(rules, everyone(fabric.parts), simulate(fabric, rules, seed), fabric.leaves)


def named(verdict: HuntVerdict) -> list[tuple[int, ...]]:
    return [(*suspect.parts, *suspect.beyond) for suspect in verdict.suspects]


@pytest.mark.parametrize(("count", "bad"), [(4, 1), (4, 2), (8, 1), (8, 3), (16, 8), (32, 1), (64, 3)])
@pytest.mark.parametrize("lost", [0.06, 0.3])
def test_slow_parts_are_named_and_nobody_else(count: int, bad: int, lost: float) -> None:
    """A half of old NICs too."""
    for seed in range(2):
        slow = dict.fromkeys(random.Random(seed).sample(range(count), bad), lost)
        assert sorted(named(verdict_of(Fabric(count, slow), seed))) == [(part,) for part in sorted(slow)]


@pytest.mark.parametrize("count", [4, 15, 64])
@pytest.mark.parametrize("noise", [0.002, 0.05])
def test_a_healthy_fabric_is_healthy(count: int, noise: float) -> None:
    for seed in range(2):
        verdict = verdict_of(Fabric(count, noise=noise, latency_noise=0.3, stalls=0.05), seed)
        assert (verdict.suspects, verdict.decision) == ((), Decision.HEALTHY)


def test_parts_that_lack_less_than_is_worth_naming_are_healthy() -> None:
    for seed in range(3):
        slow = dict(enumerate(np.abs(np.random.default_rng(seed).normal(0, 0.012, 16)).tolist()))
        verdict = verdict_of(Fabric(16, {**slow, 5: 0.035}, noise=0.004), seed)
        assert (verdict.suspects, verdict.decision) == ((), Decision.HEALTHY)


def test_all_pairs_are_tested_up_to_32_parts_and_a_share_of_more() -> None:
    whole = verdict_of(Fabric(32))
    assert (whole.tested, whole.pairs) == (496, 496)
    share = verdict_of(Fabric(64))
    assert (share.tested, share.pairs) == (320, 2016)
    asked = verdict_of(Fabric(40), rules=replace(RULES, rounds=39))
    assert asked.tested == asked.pairs


def test_a_slow_path_is_named_as_a_path() -> None:
    for seed in range(4):
        one, other = sorted(random.Random(seed).sample(range(16), 2))
        verdict = verdict_of(Fabric(16, slow_pairs={(one, other): 0.2}), seed)
        assert [(each.parts, each.beyond) for each in verdict.suspects] == [((one,), (other,))]
        assert 0.17 < verdict.suspects[0].loss < 0.23


def test_slow_paths_between_groups_are_named_and_not_decided() -> None:
    """Two switches of which nothing is known: it may be built so."""
    verdict = verdict_of(Fabric(16, leaf_sizes=(10, 6), longer={BANDWIDTH: 0.4}, hidden=True))
    assert (verdict.decision, verdict.suspects) == (Decision.UNDECIDED, ())
    (paths,) = verdict.open
    assert (paths.parts, paths.beyond) == (tuple(range(10)), tuple(range(10, 16)))
    assert paths.loss == pytest.approx(1 - 1 / 1.4, abs=0.01)


def test_of_many_parts_two_kinds_of_paths_are_not_healthy() -> None:
    verdict = verdict_of(Fabric(64, per_leaf=8, longer={BANDWIDTH: 0.4}, hidden=True))
    assert (verdict.decision, verdict.suspects) == (Decision.UNDECIDED, ())
    assert "two kinds of parts or paths" in verdict.reason


@pytest.mark.parametrize("count", [16, 64])
def test_what_all_paths_between_known_switches_take_longer_is_no_fault(count: int) -> None:
    fabric = Fabric(count, {5: 0.3}, per_leaf=4, longer={BANDWIDTH: 0.4, LATENCY: 1.0, QUICKEST: 1.0})
    verdict = verdict_of(fabric)
    assert named(verdict) == [(5,)]
    assert verdict.longer[BANDWIDTH] == pytest.approx(1 - 1 / 1.4, abs=0.02)
    healthy = verdict_of(replace(fabric, slow={}))
    assert healthy.decision is Decision.HEALTHY


@pytest.mark.parametrize(("count", "per_leaf"), [(16, 4), (64, 8)])
def test_a_slow_uplink_is_the_switch_and_no_host(count: int, per_leaf: int) -> None:
    fabric = Fabric(count, per_leaf=per_leaf, slow_leaves={1: 0.3})
    found = verdict_of(fabric).suspects
    assert found
    assert all(each.leaf and fabric.leaves[1] in (each.parts, each.beyond) for each in found)


def test_a_slow_path_between_two_known_switches_is_one_suspect() -> None:
    fabric = Fabric(16, per_leaf=4, slow_paths={(0, 2): 0.3})
    (found,) = verdict_of(fabric).suspects
    assert (found.parts, found.beyond, found.leaf) == (fabric.leaves[0], fabric.leaves[2], True)


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_a_part_that_is_slow_now_and_then_is_named_or_undecided(share: float) -> None:
    for seed in range(5):
        generator = np.random.default_rng(seed)

        def run(turn: Round, generator: np.random.Generator = generator) -> RoundResult:
            return Fabric(16, {3: 0.5} if generator.random() < share else {}).run(turn, generator)

        verdict = hunted(run, 16)
        assert all(3 in parts for parts in named(verdict))


@given(st.integers(4, 40), st.integers(0, 2**32), st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_every_round_is_one_that_can_run(count: int, seed: int, bad: int) -> None:
    slow = dict.fromkeys(random.Random(seed).sample(range(count), bad), 0.3)
    rules = Rules(seed=seed)
    history = simulate(Fabric(count, slow), rules, seed)
    screened: Counter[tuple[int, int]] = Counter()
    for number, tested in enumerate(history):
        assert tested.round.number == number
        members = [part for pair in tested.round.pairs for part in pair]
        assert len(set(members)) == len(members)
        assert set(members) <= set(range(count))
        if tested.round.stage is Stage.SCREEN:
            screened.update(tested.round.pairs)
    asked = turns(count) if count <= 32 else rules.rounds
    assert len(screened) == asked * (count // 2)
    assert max(screened.values()) >= 2  # by these the noise is known
    assert next_round(rules, everyone(count), history) is None
    assert history == simulate(Fabric(count, slow), rules, seed)


def test_ranks_are_tested_within_their_hosts() -> None:
    groups = tuple(tuple(range(first, first + 8)) for first in range(0, 32, 8))
    rules = Rules(seed=1)
    generator = np.random.default_rng(1)
    fabric = Fabric(32, {10: 0.2})
    history = hunt(rules, groups, lambda turn: fabric.run(turn, generator))
    for tested in history:
        assert all(one // 8 == other // 8 for one, other in tested.round.pairs)
    assert named(conclude(rules, groups, history)) == [(10,)]


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("restless", [0.3, 0.6])
def test_hosts_that_share_cores_with_something_else_accuse_nobody_who_is_healthy(
    bad: int, restless: float
) -> None:
    for seed in range(10):
        slow = dict.fromkeys(random.Random(seed).sample(range(8), bad), 0.3)
        verdict = verdict_of(Fabric(8, slow, latency_noise=0.2, restless=restless), seed)
        assert set(named(verdict)) <= {(part,) for part in slow}


def late(
    turn: Round, generator: np.random.Generator, stalled: float, *metrics: str, of: tuple[int, ...] = (1,)
) -> RoundResult:
    """A round in which small messages take three times as long, those of one part or of the path between two;
    by ``metrics``, which.
    """
    healthy = Fabric(8).run(turn, generator)
    tests = []
    for test in healthy.tests:
        factor = 3.0 if {test.one, test.other}.issuperset(of) else 1.0
        times_ns = dict(test.times_ns)
        for metric in metrics or (LATENCY,):
            ((there,), (back,)) = times_ns[metric]
            times_ns[metric] = ((there * factor,), (back * factor,))
        tests.append(PairTest(test.one, test.other, times_ns))
    return RoundResult(turn, tuple(tests), stalled=stalled)


def hunted(run: Callable[[Round], RoundResult], count: int = 8, rules: Rules = RULES) -> HuntVerdict:
    return conclude(rules, everyone(count), hunt(rules, everyone(count), run))


@pytest.mark.parametrize(
    ("stalled", "metrics", "of", "found"),
    [
        (0.2, (LATENCY,), (1,), [((1,), LATENCY)]),
        # A kernel thread or an interrupt that waits for a core delays one host's messages for a whole hunt.
        (0.8, (LATENCY,), (1,), []),
        # Delay is in the quickest messages too, which found a core.
        (0.95, (LATENCY, QUICKEST), (1,), [((1,), QUICKEST)]),
        (0.2, (LATENCY, QUICKEST), (0, 1), [((0, 1), QUICKEST)]),
        (0.95, (LATENCY, QUICKEST), (0, 1), []),  # two parts that share a core are no slow path
    ],
)
def test_late_messages_accuse_whom_they_can_where_cores_are_fought_for(
    stalled: float, metrics: tuple[str, ...], of: tuple[int, ...], found: list[tuple[tuple[int, ...], str]]
) -> None:
    generator = np.random.default_rng(5)
    verdict = hunted(lambda turn: late(turn, generator, stalled, *metrics, of=of))
    assert [((*each.parts, *each.beyond), each.metric) for each in verdict.suspects] == found
    assert (verdict.decision is Decision.HEALTHY) is (not found)
    if stalled > 0.5:
        assert verdict.stalled_rounds == verdict.rounds
        said = findings(fields([f"h{part}" for part in range(8)])[0], verdict)
        note = f"late messages in {verdict.rounds} of {verdict.rounds} rounds"
        assert any(note in each.claim for each in said if "not covered" in each.claim)


def test_a_round_in_which_cores_were_fought_for_counts_for_bandwidth_only() -> None:
    """Late messages in restless rounds alone: the quiet ones show that nothing is the matter."""
    generator = np.random.default_rng(6)

    def run(turn: Round) -> RoundResult:
        return Fabric(8).run(turn, generator) if turn.number % 2 else late(turn, generator, 0.9)

    verdict = hunted(run)
    assert verdict.decision is Decision.HEALTHY
    assert 0 < verdict.stalled_rounds < verdict.rounds


def test_where_noise_hides_the_loss_the_hint_is_about_noise() -> None:
    """Not about switches, though some tests were faster again and again."""
    pairs = dict.fromkeys([(0, 1), (0, 2), (0, 3), (1, 2)], 0.4)
    noisy = verdict_of(Fabric(4, noise=0.25, slow_pairs=pairs))
    assert (noisy.decision, noisy.reason[:11]) == (Decision.UNDECIDED, "noise hides")
    hint = findings(fields(["a", "b", "c", "d"])[0], noisy)[0].hint
    assert hint == "repeat it on idle hosts, or give a larger --loss"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_parts_are_said(count: int) -> None:
    verdict = verdict_of(Fabric(count, {0: 0.5}))
    assert verdict.decision is Decision.UNDECIDED
    assert "it takes 4" in verdict.reason


def test_resent_segments_are_counted_over_those_that_the_others_resend() -> None:
    """Where healthy pairs resend 20 a test, 2,000 of a lossy host are 1,980 more, and not 94."""
    rules = replace(RULES, metrics=(BANDWIDTH, RESENT))

    def run(turn: Round) -> RoundResult:
        generator = np.random.default_rng(turn.number)
        tests = []
        for one, other in turn.pairs:
            wide = float(4e7 * np.exp(generator.normal(0, 0.005)))
            resent = 1.0 + (2000 if 3 in (one, other) else generator.integers(18, 23))
            times_ns = {BANDWIDTH: ((wide,), (wide,)), RESENT: ((resent,), (resent,))}
            tests.append(PairTest(one, other, times_ns))
        return RoundResult(turn, tuple(tests))

    verdict = hunted(run, rules=rules)
    (suspect,) = verdict.suspects
    assert (suspect.parts, suspect.metric) == ((3,), RESENT)
    assert suspect.loss == pytest.approx(1980, rel=0.15)  # the others' number is 18 to 22
    assert verdict.resolution[RESENT] == pytest.approx(21 * 10, rel=0.05)


def test_suspects_are_ranked_by_what_is_worth_naming() -> None:
    """Half of the bandwidth is more than four times the latency, though its logarithm is less."""
    generator = np.random.default_rng(1)

    def run(turn: Round) -> RoundResult:
        tests = []
        for one, other in turn.pairs:
            wide = 4e7 * (2.0 if 1 in (one, other) else 1.0)
            small = 1e5 * (4.0 if 9 in (one, other) else 1.0)
            wide, small = np.exp(generator.normal(0, [0.005, 0.05])) * [wide, small]
            times_ns = {BANDWIDTH: ((wide,), (wide,)), LATENCY: ((small,), (small,))}
            tests.append(PairTest(one, other, {**times_ns, QUICKEST: times_ns[LATENCY]}))
        return RoundResult(turn, tuple(tests))

    verdict = hunted(run, 16)
    assert named(verdict) == [(1,), (9,)]
