"""Schedules of pair tests, by their properties."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from busbw.hunt.rounds import halving, matchings, rails, rings, turn, turns

counts = st.integers(0, 40)


def members_of(turn: tuple[tuple[int, int], ...]) -> list[int]:
    return [member for pair in turn for member in pair]


def is_disjoint(turn: tuple[tuple[int, int], ...]) -> bool:
    return max(Counter(members_of(turn)).values(), default=0) <= 1


@given(counts)
def test_the_circle_has_every_pair_once(count: int) -> None:
    rounds = [turn(count, number) for number in range(turns(count))]
    assert all(map(is_disjoint, rounds))
    assert sorted(itertools.chain(*rounds)) == list(itertools.combinations(range(count), 2))
    assert len(rounds) == (0 if count < 2 else count - 1 + count % 2)
    assert set(map(len, rounds)) <= {count // 2}


@given(counts, st.integers(), st.integers(1, 6))
def test_matchings_are_full_disjoint_and_never_repeat(count: int, seed: int, wanted: int) -> None:
    rounds = list(itertools.islice(matchings(count, seed), wanted))
    assert all(map(is_disjoint, rounds))
    assert all(len(turn) == count // 2 for turn in rounds)
    pairs = [pair for turn in rounds for pair in turn]
    assert len(set(pairs)) == len(pairs)
    assert all(0 <= one < other < count for one, other in pairs)
    sat_out = [
        (set(range(count)) - set(members_of(turn))).pop() for turn in rounds if count % 2 and count > 1
    ]
    assert len(set(sat_out)) == len(sat_out)
    assert len(rounds) == min(wanted, turns(count))


@given(counts)
def test_halving_crosses_the_middle_of_every_block(count: int) -> None:
    rounds = halving(count)
    assert all(map(is_disjoint, rounds))
    pairs = [pair for turn in rounds for pair in turn]
    assert len(set(pairs)) == len(pairs)
    assert len(rounds) == max(0, count - 1).bit_length()
    if count > 1:
        middle = count // 2
        assert all(one < middle <= other for one, other in rounds[0])
        assert len(rounds[0]) == middle
    if count.bit_count() == 1:  # then nobody sits out
        assert all(len(turn) == count // 2 for turn in rounds)
        assert {abs(one - other) for turn in rounds for one, other in turn} == {
            1 << level for level in range(len(rounds))
        }


@given(st.lists(st.integers(0, 8), max_size=9))
def test_rails_have_one_rank_of_each_node_and_every_rank_once(sizes: list[int]) -> None:
    ends = list(itertools.accumulate(sizes))
    nodes = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    found = rails(nodes)
    assert sorted(rank for rail in found for rank in rail) == list(range(sum(sizes)))
    for number, rail in enumerate(found):
        assert rail == tuple(node[number] for node in nodes if len(node) > number)


@given(st.lists(st.integers(0, 6), max_size=6))
def test_rings_go_once_round_every_group(sizes: list[int]) -> None:
    ends = list(itertools.accumulate(sizes))
    groups = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    rounds = rings(groups)
    for each in rounds:  # nobody sends and receives at once, or with two
        ends = [rank for step in each for rank in step]
        assert len(ends) == len(set(ends)) > 0
    assert len(rounds) == (
        3 if any(size % 2 and size > 1 for size in sizes) else 2 if max(sizes, default=0) > 1 else 0
    )
    found = [step for each in rounds for step in each]
    steps = dict(found)
    assert len(steps) == len(found)
    for group in groups:
        seen, at = [], group[0] if len(group) > 1 else None
        while at is not None and at not in seen:
            seen.append(at)
            at = steps[at]
        assert sorted(seen) == (group if len(group) > 1 else [])
