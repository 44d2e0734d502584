"""Rows become regimes: one answer for one reason, on one side of 1 MiB."""

from busbw.judge.compare_arms import CaseKey
from busbw.judge.expectation import Judged, Judgement
from busbw.judge.regimes import regimes

KIB, MIB = 1 << 10, 1 << 20


def judged(size_bytes: int, answer: Judgement = Judgement.EXPECTED, why: str = "") -> Judged:
    return Judged(CaseKey("all_reduce", "float", "sum", -1, "in-place", size_bytes), answer, why)


def test_an_answer_a_reason_or_the_links_pace_begins_a_regime() -> None:
    rows = [
        judged(8 * MIB),
        judged(8),
        judged(512 * KIB),
        judged(MIB),
        judged(2 * MIB, why="another reason"),
        judged(4 * MIB, Judgement.BELOW, "another reason"),
        judged(16 * MIB),
    ]
    found = regimes(rows, lambda row: (row.answer, row.why))
    sizes = [[row.key.size_bytes for row in own] for own in found]
    assert sizes == [[8, 512 * KIB], [MIB], [2 * MIB], [4 * MIB], [8 * MIB, 16 * MIB]]
