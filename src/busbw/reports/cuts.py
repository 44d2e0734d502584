"""Cuts through the middle: what halves of the parts send one another, all pairs of a cut at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS
from busbw.units import gb_per_s


def cut_lines(rounds: Sequence[Mapping[str, Any]], size_bytes: int) -> list[str]:
    """One a cut. The sums are of pairs that were tested at once, each by its second best sample: no more than
    that crossed the cut, and it may be that not all of them did so in the same moment.
    """
    lines = ["#", "# GB/s across the middle of each block, of all pairs of a cut together"]
    for number, tested in enumerate(rounds, 1):
        names: Sequence[str] = tested["names"]
        tests: Sequence[Mapping[str, Any]] = tested["tests"]
        if not tests:
            continue
        there, back, both = (
            sum(gb_per_s(size_bytes, lane) for test in tests for lane in test["times_ns"][metric][way])
            for metric, way in ((BANDWIDTH, 0), (BANDWIDTH, 1), (BOTH_WAYS, 0))
        )
        ways = (
            (max(test["times_ns"][BANDWIDTH][way]), test["one"], test["other"], way)
            for test in tests
            for way in (0, 1)
        )
        slowest_ns, one, other, way = max(ways)
        source, target = (other, one) if way else (one, other)
        lines.append(
            f"# cut {number}: {len(tests)} pair{'s' * (len(tests) > 1)}:"
            f" {there:.4g} up, {back:.4g} down, {both:.4g} each way at once;"
            f" slowest {gb_per_s(size_bytes, slowest_ns):.3g}, from {names[source]} to {names[target]}"
        )
    return lines
