"""Few launches and a prior: degrees, pooling over cases, and the least share that good launches reach."""

from __future__ import annotations

import math

import pytest

from busbw.stats.launches import Moderated, least_share, moderated, pooled


def test_cases_have_means_of_their_own_and_share_their_deviation() -> None:
    found = pooled([(1.0, math.e), (100.0, 100.0 * math.e), (7.0,), ()])
    assert (found.deviation, found.degrees) == (pytest.approx(math.sqrt(0.5)), 2)
    assert pooled([(7.0,)]) == Moderated(0.0, 0)


def test_own_launches_outweigh_the_prior_as_they_become_many() -> None:
    assert moderated(0.01, 0.0, 0) == Moderated(0.01, 4)
    assert moderated(0.01, 0.03, 1000).deviation == pytest.approx(0.03, rel=0.01)


def test_the_least_share_is_students() -> None:
    """t of 4 degrees at 0.999 is 7.173 (tables)."""
    assert least_share(Moderated(0.01, 4), 1, 1) == pytest.approx(
        math.exp(-7.173 * 0.01 * math.sqrt(2)), rel=1e-4
    )
    assert least_share(Moderated(0.01, 4), 1, 1, error=0.1) == pytest.approx(math.exp(-0.7173), rel=1e-4)
