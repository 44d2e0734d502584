"""False discoveries: the q of a table of p."""

from __future__ import annotations

import pytest

from busbw.stats.ratio import benjamini_hochberg


def test_one_among_many_needs_a_smaller_p() -> None:
    assert benjamini_hochberg([0.002, *([0.5] * 19)])[0] == pytest.approx(0.04)
    assert benjamini_hochberg([0.002] * 20) == pytest.approx([0.002] * 20)
    assert benjamini_hochberg([]) == []


def test_a_larger_p_has_no_smaller_q() -> None:
    """As scipy's ``false_discovery_control`` has it."""
    q_values = [0.025, 0.05, 0.05, 0.025, 0.9]
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005, 0.9]) == pytest.approx(q_values)
