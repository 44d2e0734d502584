from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.rank.world.clock_model import (
    Exchanges,
    Line,
    Offset,
    children_of,
    fit,
    offset,
    parent_of,
    path_drift_error,
)

# Three years of uptime more on one machine than on the other: more than float64 holds to the nanosecond.
YEARS_NS = 3 * 365 * 86_400 * 10**9
START_NS = 5_000_000_000


def bursts(
    truth: Line, delays_ns: np.ndarray, *, back_ns: int = 0, points: int = 32, spacing_ns: int = 8_000_000
) -> list[Exchanges]:
    """Exchanges as ``truth`` would have them: shape of ``delays_ns`` is (points, exchanges, 2 ways)."""
    made = []
    for point in range(points):
        forth, back = delays_ns[point].T
        sent = START_NS + point * spacing_ns + np.concatenate(([0], np.cumsum(forth + back + back_ns)[:-1]))
        made.append(Exchanges(sent, truth.of(sent + forth), sent + forth + back + back_ns))
    return made


def delays(seed: int, mean_ns: float, least_ns: int = 1000) -> np.ndarray:
    noise = np.random.default_rng(seed).exponential(mean_ns, size=(32, 50, 2))
    return least_ns + noise.astype(np.int64)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20),
    st.integers(-(10**18), 10**18),
)
def test_the_truth_lies_between_the_limits_whatever_the_delays(
    ways: list[tuple[int, int]], truth_ns: int
) -> None:
    forth, back = np.array(ways, dtype=np.int64).T
    sent = np.arange(len(ways), dtype=np.int64) * 10**10
    found = offset(Exchanges(sent, sent + forth + truth_ns, sent + forth + back))
    assert found.low_ns <= truth_ns <= found.high_ns
    assert found.high_ns - found.low_ns == forth.min() + back.min()


@pytest.mark.parametrize(
    ("low_ns", "high_ns", "promised_ns", "excess_ns"),
    [(-5, 9, 0, 0), (30, 40, 10, 20), (-40, -30, 10, 20), (30, 40, 35, 0), (40, 30, 10, 20)],
)
def test_a_promise_is_broken_where_no_allowed_error_keeps_it(
    low_ns: int, high_ns: int, promised_ns: float, excess_ns: float
) -> None:
    assert Offset(0, low_ns, high_ns).excess_ns(promised_ns) == excess_ns


def test_a_line_is_exact_to_the_nanosecond_after_years_of_uptime() -> None:
    line = Line(YEARS_NS, -YEARS_NS + 7, 1e-6)
    local = YEARS_NS + 2_000_000
    assert line.at(local) == 2_000_000 + 7 + 2
    assert line.of(np.array([[local]], dtype=np.int64)).tolist() == [[line.at(local)]]


@pytest.mark.parametrize("drift", [0.0, 1e-4, -1e-4])
@pytest.mark.parametrize("offset_ns", [0, -YEARS_NS, 4_000_000_123])
def test_the_fit_finds_offset_and_drift(drift: float, offset_ns: int) -> None:
    truth = Line(START_NS, offset_ns, drift)
    found = fit(bursts(truth, delays(1, 300.0)))
    assert found.drift == pytest.approx(drift, abs=1e-7)
    assert abs(found.drift - drift) <= found.drift_error < 2e-6
    at_ns = found.origin_ns
    assert abs(found.at(at_ns) - truth.at(at_ns)) < 50


def test_drift_within_a_burst_does_not_feign_a_narrow_offset() -> None:
    """In one burst, 40 us too wide and on one side, the clocks drift by just that width."""
    odd = delays(2, 300.0)
    odd[7, :, 0] += 40_000
    odd[7, 25, 1] += 400_000_000
    truth = Line(START_NS, 0, 1e-4)
    found = fit(bursts(truth, odd, spacing_ns=1_000_000_000))
    assert abs(found.at(found.origin_ns) - truth.at(found.origin_ns)) < 200


def test_bad_bursts_weigh_little() -> None:
    noisy = delays(3, 300.0)
    # One way only, so that it moves the middle.
    noisy[::4, :, 0] += 1_000_000
    found = fit(bursts(Line(START_NS, 0, 0.0), noisy))
    assert abs(found.at(found.origin_ns) - found.origin_ns) < 100


def test_half_the_asymmetry_is_missed() -> None:
    found = fit(bursts(Line(START_NS, 0, 0.0), delays(4, 300.0), back_ns=2_000_000))
    assert found.at(found.origin_ns) - found.origin_ns == pytest.approx(-1_000_000, abs=100)


def test_no_drift_is_believed_where_the_noise_would_allow_any() -> None:
    found = fit(bursts(Line(START_NS, 0, 0.0), delays(5, 5e7)[:, :1]))
    assert abs(found.drift) < 2e-4
    assert 4e-4 < found.drift_error <= 6e-4


def test_a_coarse_clock_gives_no_division_by_zero() -> None:
    sent = [np.array([START_NS + point * 8_000_000]) for point in range(6)]
    assert fit([Exchanges(at, at + 5, at) for at in sent]).at(START_NS) == START_NS + 5


@pytest.mark.parametrize("leaders", [1, 2, 3, 5, 8, 1000])
def test_the_tree_reaches_everybody_in_log2_rounds(leaders: int) -> None:
    ready_after = {0: 0}
    for place in range(leaders):
        for child in children_of(place, leaders):
            assert parent_of(child) == place
            # The parent has its own line before this child's round, and answers one child a round.
            this_round = child.bit_length()
            assert ready_after[place] < this_round
            ready_after[child] = this_round
    assert sorted(ready_after) == list(range(leaders))
    assert max(ready_after.values()) == (leaders - 1).bit_length()


def test_errors_of_slopes_add_up_along_the_path() -> None:
    # 7 -> 3 -> 1 -> 0.
    assert path_drift_error(7, [0.0, 1.0, 9.0, 10.0, 9.0, 9.0, 9.0, 100.0]) == 111.0
    assert path_drift_error(0, [5.0]) == 0.0
