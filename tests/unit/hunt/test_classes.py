"""Paths that are not alike: in healthy fabrics nobody is accused, and faulty ones are found all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from busbw.hunt.fabric import Fabric, Resending, hunt, simulate
from busbw.hunt.field import fields, on_switches
from busbw.hunt.findings import findings, to_fields
from busbw.hunt.verdict import Decision, Verdict, conclude
from busbw.model.finding import Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, METRICS, QUICKEST, RESENT, Round, RoundResult, Rules, Stage

FARTHER = {LATENCY: 0.6, QUICKEST: 0.6}
SIZES = [(14, 2), (13, 3), (12, 2, 2), (24, 4, 4), (10, 2), (18, 2)]


def verdict_of(fabric: Fabric, seed: int, metrics: tuple[str, ...] = METRICS) -> Verdict:
    rules = Rules(seed=seed, metrics=metrics)
    return conclude(rules, (tuple(range(fabric.parts)),), simulate(fabric, rules, seed), fabric.leaves)


def unlike(sizes: tuple[int, ...], **more: object) -> Fabric:
    fabric = Fabric(sum(sizes), latency_noise=0.05, leaf_sizes=sizes, longer=FARTHER)
    return replace(fabric, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("longer", [FARTHER, {LATENCY: 1.0, QUICKEST: 1.0}, {BANDWIDTH: 1 / 0.9 - 1}])
def test_a_few_hosts_behind_another_switch_are_not_accused(
    sizes: tuple[int, ...], longer: dict[str, float]
) -> None:
    told = 0
    for seed in range(12):
        verdict = verdict_of(unlike(sizes, longer=longer, hidden=True), seed)
        assert verdict.suspects == ()
        told += bool(verdict.near) or verdict.decision is Decision.UNDECIDED
        if BANDWIDTH in verdict.near:  # a slow uplink looks the same
            assert verdict.decision is Decision.UNDECIDED
    assert told >= 6


@pytest.mark.parametrize(("sizes", "seed"), [((13, 3), 57), ((12, 2, 2), 96)])
def test_nobody_is_accused_by_one_metric_who_is_near_others_by_another(
    sizes: tuple[int, ...], seed: int
) -> None:
    """One metric suspects a whole small switch there, and the other one host of it, or a path to it."""
    assert verdict_of(unlike(sizes, hidden=True), seed).suspects == ()


def test_who_is_near_by_the_mean_hides_nobody_that_is_slow_by_the_quickest_too() -> None:
    """Host 2 is three times slower by both; 5 and 7 are late by the mean only, but for one another."""
    for seed in range(5):
        rules, everyone = Rules(seed=seed), (tuple(range(12)),)
        generator = np.random.default_rng(seed)

        def run(turn: Round, generator: np.random.Generator = generator) -> RoundResult:
            tests = []
            for test in Fabric(12, latency_noise=0.05).run(turn, generator).tests:
                ends, times = {test.one, test.other}, dict(test.times_ns)
                late = {LATENCY: 3.0, QUICKEST: 3.0} if 2 in ends else {}
                late = late or ({LATENCY: 3.0} if len(ends & {5, 7}) == 1 else {})
                for metric, factor in late.items():
                    there, back = times[metric]
                    times[metric] = (tuple(ns * factor for ns in there), tuple(ns * factor for ns in back))
                tests.append(replace(test, times_ns=times))
            return RoundResult(turn, tuple(tests))

        verdict = conclude(rules, everyone, hunt(rules, everyone, run))
        assert [each.parts for each in verdict.suspects] == [(2,)]


@pytest.mark.parametrize("sizes", [*SIZES, (10, 6), (20, 4, 4, 4)])
def test_where_switches_are_known_a_test_is_held_against_its_like(sizes: tuple[int, ...]) -> None:
    healthy = 0
    for seed in range(12):
        verdict = verdict_of(unlike(sizes), seed)
        assert verdict.suspects == ()
        healthy += verdict.decision is Decision.HEALTHY
    assert healthy >= 11


@pytest.mark.parametrize("hidden", [True, False])
def test_slow_hosts_are_named_where_paths_are_not_alike(*, hidden: bool) -> None:
    hits = 0
    for seed in range(12):
        verdict = verdict_of(unlike((13, 3), slow={3: 0.2, 14: 0.2}, hidden=hidden), seed)
        assert {each.parts for each in verdict.suspects} <= {(3,), (14,)}
        hits += len(verdict.suspects)
    assert hits >= 20


def test_suspects_are_tested_with_each_other_before_they_are_accused() -> None:
    rules = Rules(seed=1)
    history = simulate(Fabric(32, {3: 0.1, 20: 0.1}), rules, 1)
    met = {
        (test.one, test.other) for each in history for test in each.tests if each.round.stage is Stage.CONFIRM
    }
    assert (3, 20) in met
    everyone = (tuple(range(32)),)
    assert len(conclude(rules, everyone, history).suspects) == 2
    assert conclude(rules, everyone, history[:-1]).suspects == ()


def test_who_is_near_whom_is_said_and_of_one_alone_that_it_may_be_its_path() -> None:
    (field,) = fields([f"h{number}" for number in range(16)])
    verdict = verdict_of(unlike((14, 2), hidden=True), 1)
    (note,) = [each for each in findings(field, verdict) if "near one another are h14, h15" in each.claim
               and "quickest" not in each.claim]  # fmt: skip
    assert note.severity is Severity.INFO
    assert "--topology" in note.hint
    assert to_fields(field, verdict, (), 1.0)["near"][LATENCY] == [["h14", "h15"]]
    (alone, *_) = findings(field, verdict_of(unlike((15, 1), hidden=True), 1))
    assert alone.claim.startswith("h15, or its path to all others: ")
    known = on_switches(field, {f"h{number}": f"leaf{number // 8}" for number in range(16)})
    said = findings(known, verdict_of(unlike((8, 8)), 1))
    assert any("more latency than within one, of all of them" in each.claim for each in said)


@pytest.mark.parametrize(("count", "per_leaf"), [(16, 4), (32, 8), (64, 8), (64, 16), (128, 16)])
def test_the_path_between_two_switches_is_named_and_nobody_else(count: int, per_leaf: int) -> None:
    hits = 0
    for seed in range(12):
        fabric = Fabric(count, per_leaf=per_leaf, slow_paths={(0, 1): 0.3})
        verdict = verdict_of(fabric, seed)
        for each in verdict.suspects:
            assert (each.parts, each.beyond) == fabric.leaves[:2]
        hits += bool(verdict.suspects)
        assert verdict.rounds <= 8 + 10 + 4
    assert hits >= 11
    (field,) = fields([f"h{number}" for number in range(count)])
    known = on_switches(field, {f"h{number}": f"leaf{number // per_leaf}" for number in range(count)})
    first = findings(known, verdict)[0]
    assert first.claim.startswith("the path between switches leaf0 and leaf1: ")
    told = to_fields(known, verdict, (), 1.0)
    assert told["suspects"][0]["switches"] == ["leaf0", "leaf1"]
    assert told["exclude"] == {}


@pytest.mark.parametrize("loss", [0.08, 0.3])
@pytest.mark.parametrize(("sizes", "ends"), [((5, 5, 5, 1), (1, 3)), ((3, 3, 3, 2, 2), (2, 4))])
def test_however_slow_it_is_the_path_to_a_small_switch_is_not_passed_as_healthy(
    sizes: tuple[int, ...], ends: tuple[int, int], loss: float
) -> None:
    """A round between switches has as few as one or two tests there, and is no whole that has moved."""
    named = 0
    for seed in (0, 2, 3, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19, 40):
        fabric = Fabric(sum(sizes), leaf_sizes=sizes, slow_paths={ends: loss})
        verdict = verdict_of(fabric, seed)
        assert verdict.decision is not Decision.HEALTHY
        path = tuple(fabric.leaves[end] for end in ends)
        assert [(each.parts, each.beyond) for each in verdict.suspects] in ([], [path])
        named += bool(verdict.suspects)
        assert verdict_of(Fabric(sum(sizes), leaf_sizes=sizes), seed).suspects == ()
    assert named >= 5


def test_a_switch_is_not_told_as_slow_for_one_path_that_has_most_of_its_tests() -> None:
    """Seed 76: three of five fresh tests of the small switch crossed its slow path, and two did not."""
    for seed in (*range(12), 76):
        fabric = Fabric(16, leaf_sizes=(6, 5, 3, 2), latency_noise=0.05, slow_paths={(1, 2): 0.3})
        verdict = verdict_of(fabric, seed)
        named = [(each.parts, each.beyond) for each in verdict.suspects]
        assert named in ([], [(fabric.leaves[1], fabric.leaves[2])])


@pytest.mark.parametrize(
    ("sizes", "part", "seed"),
    [((3, 1, 1, 1, 2), 0, 2), ((3, 2, 1, 1, 1), 2, 58), ((2, 2, 1, 1, 1, 1), 3, 43)],
)
def test_few_tests_within_switches_of_which_one_is_slow_make_no_healthy_pair_slow(
    sizes: tuple[int, ...], part: int, seed: int
) -> None:
    """Two or three tests say what is usual there, and one of them is of the slow host."""
    fabric = Fabric(sum(sizes), leaf_sizes=sizes, latency_noise=0.05, slow={part: 0.3})
    assert [each.parts for each in verdict_of(fabric, seed).suspects] in ([], [(part,)])


@pytest.mark.parametrize("sizes", [(4, 1, 1), (7, 1, 1), (14, 1, 1)])
def test_a_slow_host_alone_on_its_switch_does_not_fence_the_large_one(sizes: tuple[int, ...]) -> None:
    """Half of the tests that leave the large switch go to it."""
    named = 0
    for seed in range(10):
        fabric = Fabric(sum(sizes), leaf_sizes=sizes, latency_noise=0.05, slow={sizes[0]: 0.3})
        suspects = [each.parts for each in verdict_of(fabric, seed).suspects]
        assert suspects in ([], [(sizes[0],)])
        named += bool(suspects)
    assert named >= 8


def test_every_switch_is_tested_with_every_other_where_nothing_was_found() -> None:
    fabric, rules = Fabric(64, per_leaf=8), Rules(seed=2)
    (last,) = [each for each in simulate(fabric, rules, 2) if each.round.stage is Stage.SWITCHES]
    assert len({(test.one // 8, test.other // 8) for test in last.tests}) == len(last.tests) == 28


@pytest.mark.parametrize(("share", "median", "spread"), [(0.4, 20, 1.5), (0.3, 100, 1.0), (1.0, 5, 1.5)])
@pytest.mark.parametrize("count", [16, 64])
def test_where_all_resend_nobody_is_accused_and_hunts_decide(
    share: float, median: float, spread: float, count: int
) -> None:
    healthy = 0
    for seed in range(20):
        fabric = Fabric(count, resending=Resending(share, median, spread))
        verdict = verdict_of(fabric, seed, (*METRICS, RESENT))
        assert verdict.suspects == ()
        healthy += verdict.decision is Decision.HEALTHY
    assert healthy >= (10 if count == 16 else 16)  # of 16 parts some are slow by chance in both tests


@pytest.mark.parametrize("count", [8, 16, 64])
def test_a_lossy_host_is_named_where_others_hardly_resend(count: int) -> None:
    hits = 0
    for seed in range(20):
        fabric = Fabric(count, resending=Resending(0.02, 3, 1.0), lossy={seed % count: 150})
        verdict = verdict_of(fabric, seed, (*METRICS, RESENT))
        assert {each.parts for each in verdict.suspects} <= {(seed % count,)}
        hits += bool(verdict.suspects)
    assert hits >= 19
