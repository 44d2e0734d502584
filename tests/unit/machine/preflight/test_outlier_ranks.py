from __future__ import annotations

import pytest

from busbw.machine.preflight.outlier_ranks import difference, name_ranks, split

HOSTS = ("h1", "h1", "h2", "h2", "h3", "h3")


def test_where_nobody_is_a_majority_all_are_named() -> None:
    found = split({0: "a", 1: "b"})
    assert found is not None
    assert not found.has_majority
    assert difference(found, ("h1", "h2")) == "b on rank 1 (h2), a on rank 0 (h1)"


def test_many_values_are_cut_to_a_line() -> None:
    found = split({rank: f"v{rank}" for rank in range(40)})
    assert found is not None
    text = difference(found, [f"h{rank}" for rank in range(40)])
    assert "other values on 35 more" in text
    assert len(text) < 200


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
