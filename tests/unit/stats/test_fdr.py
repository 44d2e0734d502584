"""False discoveries: the q of a table of p, and what a clean series of nulls shows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from busbw.stats.fdr import benjamini_hochberg, rate_bound


def test_q_is_that_of_scipy() -> None:
    from scipy import stats

    draw = random.Random(2)
    for n in (1, 2, 30):
        p_values = [draw.random() ** 3 for _ in range(n)]
        assert np.allclose(benjamini_hochberg(p_values), stats.false_discovery_control(p_values))


def test_one_among_many_needs_a_smaller_p() -> None:
    assert benjamini_hochberg([0.002, *([0.5] * 19)])[0] == pytest.approx(0.04)
    assert benjamini_hochberg([0.002] * 20) == pytest.approx([0.002] * 20)
    assert benjamini_hochberg([]) == []


def test_twenty_clean_trials_bound_the_rate_at_14_percent() -> None:
    assert rate_bound(0, 20) == pytest.approx(0.139, abs=5e-4)
    assert rate_bound(0, 300) == pytest.approx(3 / 300, rel=0.01)  # the rule of three
    assert rate_bound(0, 0) == 1.0


def test_a_bound_with_events_is_that_of_the_beta_distribution() -> None:
    from scipy import stats

    for events, trials in ((1, 20), (3, 50), (19, 20)):
        assert rate_bound(events, trials) == pytest.approx(stats.beta.ppf(0.95, events + 1, trials - events))
