"""The rules of a hunt, on a fabric with faults and on rounds made by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.hunt.candidate import State
from busbw.hunt.decide import next_round
from busbw.hunt.fabric import Fabric, hunt, simulate
from busbw.hunt.field import fields
from busbw.hunt.findings import findings
from busbw.hunt.noise import estimate
from busbw.hunt.standing import stand
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.hunt import BANDWIDTH, LATENCY, QUICKEST, RESENT, PairTest, Round, RoundResult, Rules, Stage

RULES = Rules()


def everyone(count: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(count)),)


def verdict_of(fabric: Fabric, seed: int = 0, rules: Rules = RULES) -> Verdict:
    rules = replace(rules, seed=seed)
    return conclude(rules, everyone(fabric.parts), simulate(fabric, rules, seed))


def named(verdict: Verdict) -> list[tuple[int, ...]]:
    return [suspect.parts for suspect in verdict.suspects]


@pytest.mark.parametrize("count", [8, 16, 64, 256])
@pytest.mark.parametrize("bad", [1, 3])
@pytest.mark.parametrize("lost", [0.05, 0.10])
def test_slow_parts_are_named_and_nobody_else(count: int, bad: int, lost: float) -> None:
    hits = 0
    for seed in range(12):
        slow = dict.fromkeys(random.Random(seed).sample(range(count), bad), lost)
        verdict = verdict_of(Fabric(count, slow), seed)
        assert set(named(verdict)) <= {(part,) for part in slow}
        hits += len(named(verdict))
        if count == 8 and bad == 3:  # most pairs have a slow part: it has to say that it cannot tell
            assert verdict.decision is Decision.UNDECIDED
    if (count, bad) != (8, 3):
        assert hits >= 0.95 * 12 * bad


@pytest.mark.parametrize("metric", [BANDWIDTH, LATENCY])
def test_one_of_four_is_in_half_of_all_tests_and_named(metric: str) -> None:
    """Four GPUs, one of them slow: there is no majority of pairs, but it alone explains them."""
    hits = 0
    for seed in range(30):
        generator = np.random.default_rng(seed)
        slow = seed % 4
        rules = Rules(seed=seed)

        def run(turn: Round, slow: int = slow, generator: np.random.Generator = generator) -> RoundResult:
            whole = Fabric(4, {slow: 0.5}, latency_noise=0.01).run(turn, generator).tests
            if metric == BANDWIDTH:
                return RoundResult(turn, whole)
            even = Fabric(4).run(turn, generator).tests
            swapped = [
                PairTest(
                    a.one,
                    a.other,
                    {**a.times_ns, BANDWIDTH: b.times_ns[BANDWIDTH], LATENCY: a.times_ns[BANDWIDTH]},
                )
                for a, b in zip(whole, even, strict=True)
            ]
            return RoundResult(turn, tuple(swapped))

        verdict = conclude(rules, everyone(4), hunt(rules, everyone(4), run))
        assert named(verdict) in ([], [(slow,)])
        hits += bool(verdict.suspects)
    assert hits >= 29


@pytest.mark.parametrize(("count", "bad"), [(4, 2), (5, 2), (6, 3)])
def test_where_most_pairs_have_a_slow_part_nothing_is_decided(count: int, bad: int) -> None:
    """Pairs that are fast whenever they meet are no chance: the others are not what is normal."""
    for seed in range(10):
        verdict = verdict_of(Fabric(count, dict.fromkeys(range(bad), 0.3)), seed)
        assert (verdict.suspects, verdict.decision) == ((), Decision.UNDECIDED)


@pytest.mark.parametrize("count", [8, 15, 64])
@pytest.mark.parametrize("noise", [0.002, 0.01, 0.05])
def test_a_healthy_fabric_accuses_nobody(count: int, noise: float) -> None:
    for seed in range(20):
        verdict = verdict_of(Fabric(count, noise=noise, latency_noise=0.3, stalls=0.05), seed)
        assert verdict.suspects == ()
        assert verdict.rounds <= RULES.most_screens + RULES.most_confirms


def test_noise_that_hides_the_loss_is_said() -> None:
    verdict = verdict_of(Fabric(8, noise=0.2))
    assert verdict.decision is Decision.UNDECIDED
    assert "noise hides what is below" in verdict.reason
    assert verdict.resolution[BANDWIDTH] > 0.05


def test_what_could_not_be_decided_is_ranked() -> None:
    """A loss at the edge of the noise: not confirmed, and yet the first place to look at."""
    undecided = first = 0
    for seed in range(60):
        verdict = verdict_of(Fabric(8, {3: 0.06}, noise=0.03), seed)
        if verdict.decision is Decision.UNDECIDED:
            undecided += 1
            (part, lost), *others = verdict.ranking
            first += part == 3
            assert lost >= max(loss for _, loss in others)
    assert undecided >= 20
    assert first >= 0.9 * undecided


def test_effect_and_interval_hold_the_truth() -> None:
    inside = 0
    for seed in range(40):
        (suspect,) = verdict_of(Fabric(32, {7: 0.12}), seed).suspects
        assert suspect.parts == (7,)
        assert suspect.confirmed
        assert len(suspect.partners) >= 2
        inside += suspect.low <= 0.12 <= suspect.high
    assert inside >= 34


def test_never_on_one_test() -> None:
    """However slow: what accuses is two fresh tests at least, with partners that passed, and new ones."""
    rules = Rules(seed=4)
    history = simulate(Fabric(32, {3: 0.9}, noise=1e-4), rules, 4)
    verdict = conclude(rules, everyone(32), history)
    (suspect,) = verdict.suspects
    assert len(suspect.partners) >= 2
    screened = {
        each.other if each.one == 3 else each.one
        for tested in history
        if tested.round.stage is Stage.SCREEN
        for each in tested.tests
        if 3 in (each.one, each.other)
    }
    assert len({*suspect.partners, *screened}) == len(suspect.partners) + 2
    before = conclude(rules, everyone(32), history[:-1])
    assert before.suspects == ()
    assert [each.parts for each in before.open] == [(3,)]
    assert before.decision is Decision.UNDECIDED


def test_partners_of_two_slow_ones_are_cleared() -> None:
    """What screening says is not used again: with a few slow parts some healthy ones meet only these."""
    cleared = 0
    for seed in range(60):
        slow = dict.fromkeys(random.Random(seed).sample(range(16), 3), 0.10)
        rules = Rules(seed=seed)
        standing = stand(rules, everyone(16), simulate(Fabric(16, slow), rules, seed))
        for candidate in standing.candidates:
            if candidate.parts[0] not in slow:
                assert candidate.state is State.CLEARED
                cleared += 1
    assert cleared


def test_a_path_is_named_as_a_path() -> None:
    seen = 0
    for seed in range(200):
        generator = random.Random(seed)
        one, other = sorted(generator.sample(range(16), 2))
        verdict = verdict_of(Fabric(16, slow_pairs={(one, other): 0.2}), seed)
        assert set(named(verdict)) <= {(one, other)}
        seen += bool(verdict.suspects)
    assert 10 <= seen <= 80  # a hunt tests one pair in 7 or so, and says how many


@given(st.integers(4, 40), st.integers(0, 2**32), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_every_round_is_one_that_can_run(count: int, seed: int, bad: int) -> None:
    slow = dict.fromkeys(random.Random(seed).sample(range(count), bad), 0.3)
    rules = Rules(seed=seed)
    history = simulate(Fabric(count, slow), rules, seed)
    screened = [0] * count
    for number, tested in enumerate(history):
        assert tested.round.number == number
        members = [part for pair in tested.round.pairs for part in pair]
        assert len(set(members)) == len(members)
        assert set(members) <= set(range(count))
        if tested.round.stage is Stage.SCREEN:
            for part in members:
                screened[part] += 1
    assert min(screened) >= 2
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


def rounds_of(slow: Callable[[int, int], tuple[float, float]], rules: Rules, count: int = 12) -> Verdict:
    """A hunt in which a pair takes, on its two lanes, so much longer."""

    def run(turn: Round) -> RoundResult:
        tests = []
        for one, other in turn.pairs:
            jitter = 1 + 0.001 * ((7 * one + 3 * other + turn.number) % 5)
            there = tuple(1e6 * jitter * factor for factor in slow(one, other))
            back = tuple(1e6 * jitter * factor for factor in slow(other, one))
            tests.append(
                PairTest(
                    one,
                    other,
                    {BANDWIDTH: (there, back), LATENCY: ((1e3,), (1e3,)), QUICKEST: ((1e3,), (1e3,))},
                )
            )
        return RoundResult(turn, tuple(tests))

    return conclude(rules, everyone(count), hunt(rules, everyone(count), run))


def test_direction_and_lane_are_told() -> None:
    verdict = rounds_of(lambda source, target: (1.0, 1.3 if source == 5 else 1.0), RULES)
    (suspect,) = verdict.suspects
    assert (suspect.parts, suspect.direction, suspect.lanes) == ((5,), "sends", (1,))
    verdict = rounds_of(lambda source, target: (1.3, 1.3) if target == 5 else (1.0, 1.0), RULES)
    (suspect,) = verdict.suspects
    assert (suspect.parts, suspect.direction, suspect.lanes) == ((5,), "receives", ())


def test_latency_alone_accuses_too() -> None:
    def run(turn: Round) -> RoundResult:
        generator = np.random.default_rng(turn.number)
        tests = []
        for one, other in turn.pairs:
            late = 40.0 if 2 in (one, other) else 1.0  # a few of many small messages were lost
            small = float(1e5 * late * np.exp(generator.normal(0, 0.3)))
            wide = float(4e7 * np.exp(generator.normal(0, 0.01)))
            times_ns = {BANDWIDTH: ((wide,), (wide,)), LATENCY: ((small,), (small,))}
            tests.append(PairTest(one, other, {**times_ns, QUICKEST: times_ns[LATENCY]}))
        return RoundResult(turn, tuple(tests))

    (suspect,) = conclude(RULES, everyone(8), hunt(RULES, everyone(8), run)).suspects
    assert (suspect.parts, suspect.metric) == ((2,), LATENCY)
    assert 10 < suspect.loss < 100


def test_restless_rounds_of_confirmation_do_not_count() -> None:
    """A load that comes when a suspect is being tested afresh spoils its round, not the suspect."""
    rules = Rules(seed=2, metrics=(BANDWIDTH,))
    quiet, generator = Fabric(16, {4: 0.06}), np.random.default_rng(0)
    loud = replace(quiet, noise=0.5)

    def run(turn: Round) -> RoundResult:
        return (quiet if turn.stage is Stage.SCREEN else loud).run(turn, generator)

    history = hunt(rules, everyone(16), run)
    verdict = conclude(rules, everyone(16), history)
    assert verdict.void_rounds >= rules.most_confirms - 1
    assert verdict.suspects == ()
    assert verdict.decision is Decision.UNDECIDED


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("restless", [0.3, 0.6])
def test_hosts_that_share_cores_with_something_else_accuse_nobody_who_is_healthy(
    bad: int, restless: float
) -> None:
    for seed in range(40):
        slow = dict.fromkeys(random.Random(seed).sample(range(8), bad), 0.3)
        verdict = verdict_of(Fabric(8, slow, latency_noise=0.2, restless=restless), seed)
        assert set(named(verdict)) <= {(part,) for part in slow}


@pytest.mark.parametrize("factor", [1.6, 2.0, 4.0])
def test_what_slows_a_whole_round_accuses_nobody_however_few_controls_it_has(factor: float) -> None:
    """Of eight hosts one was slow in screening by chance, and then a load slows all their small messages."""
    generator = np.random.default_rng(3)

    def run(turn: Round) -> RoundResult:
        tests = []
        for one, other in turn.pairs:
            unlucky = turn.stage is Stage.SCREEN and 1 in (one, other)
            small = 1e5 * (2.2 if unlucky else factor if turn.stage is Stage.CONFIRM else 1.0)
            wide = 4e7 * (1.4 if 0 in (one, other) else 1.0)
            wide, small = np.exp(generator.normal(0, [0.01, 0.1])) * [wide, small]
            times_ns = {BANDWIDTH: ((wide,), (wide,)), LATENCY: ((small,), (small,))}
            tests.append(PairTest(one, other, {**times_ns, QUICKEST: times_ns[LATENCY]}))
        return RoundResult(turn, tuple(tests))

    verdict = conclude(RULES, everyone(8), hunt(RULES, everyone(8), run))
    assert {metric for suspect in verdict.suspects for metric in [suspect.metric]} <= {BANDWIDTH}
    assert set(named(verdict)) <= {(0,)}


def late(turn: Round, generator: np.random.Generator, stalled: float, *metrics: str) -> RoundResult:
    """A round in which the small messages of part 1 take three times as long; by ``metrics``, which."""
    healthy = Fabric(8).run(turn, generator)
    tests = []
    for test in healthy.tests:
        factor = 3.0 if 1 in (test.one, test.other) else 1.0
        times_ns = dict(test.times_ns)
        for metric in metrics or (LATENCY,):
            ((there,), (back,)) = times_ns[metric]
            times_ns[metric] = ((there * factor,), (back * factor,))
        tests.append(PairTest(test.one, test.other, times_ns))
    return RoundResult(turn, tuple(tests), stalled=stalled)


def test_where_cores_are_fought_for_late_messages_accuse_nobody() -> None:
    """A kernel thread or an interrupt that waits for a core delays one host's messages for a whole hunt."""
    generator = np.random.default_rng(5)
    quiet = conclude(RULES, everyone(8), hunt(RULES, everyone(8), lambda turn: late(turn, generator, 0.2)))
    assert [(each.parts, each.metric) for each in quiet.suspects] == [((1,), LATENCY)]
    busy = conclude(RULES, everyone(8), hunt(RULES, everyone(8), lambda turn: late(turn, generator, 0.8)))
    assert (busy.suspects, busy.decision) == ((), Decision.HEALTHY)
    assert busy.stalled_rounds == busy.rounds
    (note,) = [
        finding
        for finding in findings(fields([f"h{part}" for part in range(8)])[0], busy)
        if "not covered" in finding.claim
    ]
    assert f"late messages among quick ones in {busy.rounds} of {busy.rounds} rounds" in note.claim


def test_a_host_whose_every_message_is_late_is_named_whoever_fights_for_cores() -> None:
    """Delay is in the quickest messages too, which found a core."""
    generator = np.random.default_rng(5)
    slow = (LATENCY, QUICKEST)
    history = hunt(RULES, everyone(8), lambda turn: late(turn, generator, 0.95, *slow))
    busy = conclude(RULES, everyone(8), history)
    assert [(each.parts, each.metric) for each in busy.suspects] == [((1,), QUICKEST)]


def test_a_round_in_which_cores_were_fought_for_counts_for_bandwidth_only() -> None:
    """Late messages in restless rounds alone: the quiet ones show that nothing is the matter."""
    generator = np.random.default_rng(6)

    def run(turn: Round) -> RoundResult:
        return Fabric(8).run(turn, generator) if turn.number % 2 else late(turn, generator, 0.9)

    verdict = conclude(RULES, everyone(8), hunt(RULES, everyone(8), run))
    assert verdict.decision is Decision.HEALTHY
    assert 0 < verdict.stalled_rounds < verdict.rounds


def test_classes_of_pairs_are_no_faults() -> None:
    """Half of the parts on a switch of their own, and slow between the two: nobody is to blame."""
    verdict = rounds_of(
        lambda source, target: (1.0, 1.0) if source // 6 == target // 6 else (2.0, 2.0), RULES
    )
    assert verdict.suspects == ()
    assert verdict.decision is Decision.UNDECIDED


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_parts_are_said(count: int) -> None:
    verdict = verdict_of(Fabric(count, {0: 0.5}))
    assert verdict.decision is Decision.UNDECIDED
    assert "it takes 4" in verdict.reason


@given(st.integers(8, 400), st.floats(0.001, 0.05), st.integers(0, 1000), st.floats(0, 0.25))
@settings(deadline=None)
def test_noise_is_that_of_the_passing_tests(count: int, sigma: float, seed: int, bad: float) -> None:
    generator = np.random.default_rng(seed)
    values = generator.normal(3.0, sigma, count)
    values[: int(bad * count)] += 10 * sigma + 0.5
    noise = estimate(values, np.zeros(count, np.int64), 0.0)
    assert abs(noise.base - 3.0) < 2 * sigma
    assert noise.sigma < 1.7 * sigma
    assert noise.upper >= noise.sigma
    assert not noise.passing[: int(bad * count)].any()


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

    verdict = conclude(rules, everyone(8), hunt(rules, everyone(8), run))
    (suspect,) = verdict.suspects
    assert (suspect.parts, suspect.metric) == ((3,), RESENT)
    assert suspect.loss == pytest.approx(1980, rel=0.15)  # the others' number is 18 to 22
    assert verdict.resolution[RESENT] == pytest.approx(21 * 10, rel=0.05)


def test_what_cannot_be_observed_is_not_covered() -> None:
    rules = replace(RULES, metrics=(*RULES.metrics, RESENT))
    fabric = Fabric(16)
    verdict = conclude(rules, everyone(16), simulate(fabric, rules, 0))
    assert (verdict.decision, verdict.unobserved) == (Decision.HEALTHY, (RESENT,))
    said = findings(fields([f"n{number}" for number in range(16)])[0], verdict)[-1].claim
    assert "lost packets: what the ranks' TCP sockets sent again cannot be read here" in said
    assert "loss that resends less" not in said


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

    verdict = conclude(RULES, everyone(16), hunt(RULES, everyone(16), run))
    assert named(verdict) == [(1,), (9,)]
