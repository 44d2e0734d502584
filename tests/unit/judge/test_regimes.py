"""Rows become regimes: one answer for one reason, on one side of 1 MiB."""

from busbw.judge.regimes import RegimeRow, regimes

KIB, MIB = 1 << 10, 1 << 20


def test_consecutive_sizes_with_one_answer_are_one_regime_with_their_extremes() -> None:
    rows = [RegimeRow(8 * MIB, "expected", "", 1.02, 0.02), RegimeRow(2 * MIB, "expected", "", 0.97, 0.03)]
    (only,) = regimes(rows)
    assert (only.first_bytes, only.last_bytes) == (2 * MIB, 8 * MIB)
    assert (only.lowest, only.highest, only.unseen) == (0.97, 1.02, 0.03)
    assert only.rows == (rows[1], rows[0])


def test_an_answer_a_reason_or_the_links_pace_begins_a_regime() -> None:
    rows = [
        RegimeRow(8, "expected"),
        RegimeRow(512 * KIB, "expected"),
        RegimeRow(MIB, "expected"),
        RegimeRow(2 * MIB, "expected", "another reason"),
        RegimeRow(4 * MIB, "below", "another reason"),
        RegimeRow(8 * MIB, "expected"),
    ]
    found = [(regime.first_bytes, regime.last_bytes) for regime in regimes(rows)]
    assert found == [(8, 512 * KIB), (MIB, MIB), (2 * MIB, 2 * MIB), (4 * MIB, 4 * MIB), (8 * MIB, 8 * MIB)]


def test_rows_without_numbers_have_no_extremes() -> None:
    (only,) = regimes([RegimeRow(8, "no reference", "none matches")])
    assert (only.lowest, only.highest, only.unseen) == (None, None, None)
