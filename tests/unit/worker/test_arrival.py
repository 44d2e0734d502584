from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.worker.arrival import PATTERNS, delays_ns

CALL_NS = 80_000.0


def all_ranks(pattern: str, ranks: int, seed: int = 5, first: int = 0, samples: int = 200) -> np.ndarray:
    """[rank, sample]"""
    return np.array([delays_ns(pattern, rank, ranks, CALL_NS, seed, first, samples) for rank in range(ranks)])


def test_nobody_is_late_unless_asked_for() -> None:
    assert delays_ns("none", 3, 4, CALL_NS, 5, 0, 10) is None


def test_one_rank_is_late_and_every_rank_in_turn_of_chance() -> None:
    delays = all_ranks("late-one", 4)
    assert ((delays == CALL_NS).sum(axis=0) == 1).all()
    assert ((delays == 0).sum(axis=0) == 3).all()
    # 200 draws of 4: 50 each, give or take 6.
    assert ((delays == CALL_NS).sum(axis=1) > 25).all()


def test_a_ramp_ends_at_the_last_rank() -> None:
    delays = all_ranks("ramp", 5, samples=2)
    assert delays.tolist() == [[rank * 20_000] * 2 for rank in range(5)]
    assert all_ranks("ramp", 1, samples=2).tolist() == [[0, 0]]


def test_uniform_delays_are_of_each_rank_and_sample() -> None:
    delays = all_ranks("uniform", 6, samples=500)
    assert len(np.unique(delays)) > 2900
    assert delays.mean() == pytest.approx(CALL_NS / 2, rel=0.05)
    assert abs(np.corrcoef(delays)[np.triu_indices(6, 1)]).max() < 0.2


@given(
    st.sampled_from([pattern for pattern in PATTERNS if pattern != "none"]),
    st.integers(1, 40),
    st.floats(1, 1e9),
    st.integers(0, 2**48),
    st.integers(0, 1000),
    st.integers(1, 30),
    st.data(),
)
def test_delays_are_bounded_repeatable_and_do_not_depend_on_the_look(
    pattern: str, ranks: int, call_ns: float, seed: int, first: int, samples: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, ranks - 1))
    cut = data.draw(st.integers(0, samples))
    delays = delays_ns(pattern, rank, ranks, call_ns, seed, first, samples)
    assert delays is not None
    assert delays.dtype == np.int64
    assert len(delays) == samples
    assert 0 <= delays.min() <= delays.max() <= call_ns
    halves = [
        delays_ns(pattern, rank, ranks, call_ns, seed, start, count)
        for start, count in ((first, cut), (first + cut, samples - cut))
    ]
    assert np.concatenate(halves).tolist() == delays.tolist()  # type: ignore[arg-type]


def test_another_seed_is_another_pattern() -> None:
    assert (all_ranks("late-one", 8, seed=1) != all_ranks("late-one", 8, seed=2)).any()


def test_an_unknown_pattern_is_no_silent_none() -> None:
    with pytest.raises(ValueError, match="no arrival pattern 'burst'"):
        delays_ns("burst", 0, 2, CALL_NS, 1, 0, 1)
