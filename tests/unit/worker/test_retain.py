from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from busbw.model.result import StopReason
from busbw.model.sample import MAX_OVER_RANKS
from busbw.worker.measure import Samples
from busbw.worker.retain import NOTHING_KEPT, Kept, retain

OnRanks = Callable[[int, Callable[[Any], Any]], list[Any]]


def sampled(call_ns: float, k: int = 2) -> Samples:
    own = np.array([1, 2, 3, 4, 100], np.int64) * int(call_ns) * k
    return Samples(k, own, own // 2, own + 7, 3, StopReason.PRECISION)


def kept(on_ranks: OnRanks, paces: list[float]) -> Kept:
    results = on_ranks(len(paces), lambda world: retain(5, sampled(paces[world.rank]), world))
    assert all(other is NOTHING_KEPT for other in results[1:])
    return results[0]


def test_few_ranks_keep_every_sample(on_ranks: OnRanks) -> None:
    rows = kept(on_ranks, [10.0, 30.0, 20.0]).samples
    assert rows["rank"].tolist() == [MAX_OVER_RANKS] * 5 + [0] * 5 + [1] * 5 + [2] * 5
    assert set(rows["case"].tolist()) == {5}
    assert set(rows["k"].tolist()) == {2}
    assert rows["sample"].tolist() == [0, 1, 2, 3, 4] * 4
    assert rows["elapsed_ns"][:5].tolist() == [27, 47, 67, 87, 2007]
    assert rows["elapsed_ns"][10:15].tolist() == [60, 120, 180, 240, 6000]
    assert rows["issue_ns"][10:15].tolist() == [30, 60, 90, 120, 3000]


def test_every_rank_has_a_digest_of_its_calls(on_ranks: OnRanks) -> None:
    digests = kept(on_ranks, [10.0, 30.0]).digests
    assert digests["rank"].tolist() == [0, 1]
    assert digests["samples"].tolist() == [5, 5]
    assert digests["min_ns"].tolist() == [10.0, 30.0]
    assert digests["median_ns"].tolist() == [30.0, 90.0]
    assert digests["mean_ns"].tolist() == [220.0, 660.0]
    assert digests["max_ns"].tolist() == [1000.0, 3000.0]
    # Linear between 4 and 100 at position 3.8.
    assert digests["p95_ns"].tolist() == pytest.approx([808.0, 2424.0])


def test_sixteen_ranks_are_few(on_ranks: OnRanks) -> None:
    assert len(set(kept(on_ranks, [10.0] * 16).samples["rank"].tolist())) == 17


def test_of_many_ranks_the_four_slowest_keep_their_samples(on_ranks: OnRanks) -> None:
    paces = [10.0] * 17
    paces[3], paces[16], paces[8], paces[0] = 40.0, 30.0, 20.0, 11.0
    result = kept(on_ranks, paces)
    assert sorted(set(result.samples["rank"].tolist())) == [MAX_OVER_RANKS, 0, 3, 8, 16]
    assert len(result.samples) == 5 * 5
    assert result.digests["rank"].tolist() == list(range(17))
