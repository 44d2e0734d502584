"""The matrix of pairs on a terminal."""

from __future__ import annotations

from busbw.reports.matrix import matrix_lines


def test_numbers_of_gpus_stand_apart() -> None:
    """Hundreds of GB/s beside the dash of the diagonal would read as a negative number."""
    times_ns = {
        "bandwidth": [[199.0], [200.0]],
        "both-ways": [[250.0], [250.0]],
        "latency": [[12_345_600.0], [7_800.0]],
    }
    rounds = [{"names": ["a", "b"], "tests": [{"one": 0, "other": 1, "times_ns": times_ns}]}]
    rows = [line.split()[:3] for line in matrix_lines(rounds, 67_108) if line[:4] in ("   0", "   1")]
    assert rows[:2] == [["0", "-", "337.23"], ["1", "335.54", "-"]]
    assert rows[-2:] == [["0", "-", "12345.6"], ["1", "7.8", "-"]]
