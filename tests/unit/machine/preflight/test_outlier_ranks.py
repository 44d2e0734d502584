from __future__ import annotations

import pytest

from busbw.machine.preflight.outlier_ranks import name_ranks, odd_ranks
from busbw.model.finding import Severity

HOSTS = ("h1", "h1", "h2", "h2", "h3", "h3")


def claim_of(values: tuple[str, ...]) -> str:
    """What is said where each rank has a host of its own."""
    hosts = [f"h{rank + 1}" for rank in range(len(values))]
    (finding,) = odd_ranks(Severity.ERROR, "it", dict(enumerate(values)), hosts, hint="")
    return finding.claim


def test_where_nobody_is_a_majority_all_are_named() -> None:
    assert claim_of(("a", "b")) == "it: b on rank 1 (h2), a on rank 0 (h1)"


def test_many_values_are_cut_to_a_line() -> None:
    claim = claim_of(tuple(f"v{rank}" for rank in range(40)))
    assert "other values on 35 more" in claim
    assert len(claim) < 200


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((2,), "rank 2 (h2)"),
        ((0, 1), "all ranks of h1"),
        ((0, 2), "ranks 0, 2 (h1, h2)"),
        ((0, 1, 2, 3, 4), "ranks 0, 1, 2, 3 and 1 more (h1, h2, h3)"),
    ],
)
def test_ranks_in_words(ranks: tuple[int, ...], said: str) -> None:
    assert name_ranks(ranks, HOSTS) == said
