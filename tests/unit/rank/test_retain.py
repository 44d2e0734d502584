from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.ranks import on_ranks

from busbw.model.result import StopReason
from busbw.model.sample import HEADLINE, MAX_OVER_RANKS, MIN_OVER_RANKS, SampleFlag
from busbw.rank.measure import Samples, Taken
from busbw.rank.reduce_samples import Across
from busbw.rank.retain import NOTHING_KEPT, Kept, retain


def taken(call_ns: float, k: int = 2) -> Taken:
    own = np.array([1, 2, 3, 4, 100], np.int64) * int(call_ns) * k
    flags = np.array([0, 0, 0, 0, SampleFlag.DESCHEDULED], np.int64)
    across = Across(own + 7, own - 3, own // 2 + 1, flags, own + 7, np.full(5, -1, np.int64))
    return Taken(k, own, own // 2, across)


def sampled(call_ns: float, k: int = 2) -> Samples:
    return Samples(taken(call_ns, k), 3, (StopReason.PRECISION,), lost_ns=int(call_ns) * 1000)


def kept(paces: list[float], of: Callable[[float], Samples] = sampled) -> Kept:
    results = on_ranks(len(paces), lambda world: retain(5, of(paces[world.rank]), world))
    assert all(other is NOTHING_KEPT for other in results[1:])
    return results[0]


def test_few_ranks_keep_every_sample() -> None:
    rows = kept([10.0, 30.0, 20.0]).samples
    ranks = [MAX_OVER_RANKS, MIN_OVER_RANKS, 0, 1, 2]
    assert rows["rank"].tolist() == [rank for rank in ranks for _ in range(5)]
    assert set(rows["case"].tolist()) == {5}
    assert set(rows["k"].tolist()) == {2}
    assert rows["sample"].tolist() == [0, 1, 2, 3, 4] * 5
    assert rows["flags"].tolist() == [0, 0, 0, 0, SampleFlag.DESCHEDULED] * 5
    assert rows["elapsed_ns"][:5].tolist() == [27, 47, 67, 87, 2007]
    assert rows["elapsed_ns"][5:10].tolist() == [17, 37, 57, 77, 1997]
    assert rows["issue_ns"][:5].tolist() == rows["issue_ns"][5:10].tolist() == [11, 21, 31, 41, 1001]
    assert rows["elapsed_ns"][15:20].tolist() == [60, 120, 180, 240, 6000]
    assert rows["issue_ns"][15:20].tolist() == [30, 60, 90, 120, 3000]


@pytest.mark.parametrize("is_middle", [True, False])
def test_a_headline_that_is_neither_maximum_nor_minimum_has_rows_too(is_middle: bool) -> None:
    def headed(call_ns: float) -> Samples:
        samples = sampled(call_ns)
        across = samples.taken.across
        headline = (across.worst + across.best) // 2 if is_middle else across.worst.copy()
        return replace(samples, taken=replace(samples.taken, across=replace(across, headline=headline)))

    rows = kept([10.0, 10.0], headed).samples
    assert (HEADLINE in rows["rank"]) is is_middle
    if is_middle:
        assert rows["rank"][:15].tolist() == [MAX_OVER_RANKS] * 5 + [MIN_OVER_RANKS] * 5 + [HEADLINE] * 5
        assert rows["elapsed_ns"][10:15].tolist() == [22, 42, 62, 82, 2002]


def test_single_calls_are_told_apart_from_the_samples_of_the_headline() -> None:
    def with_singles(call_ns: float) -> Samples:
        return replace(sampled(call_ns), singles=taken(call_ns, k=1))

    rows = kept([10.0, 30.0], with_singles).samples
    single = rows["flags"] & SampleFlag.SINGLE_CALL != 0
    assert set(rows["k"][single].tolist()) == {1}
    assert set(rows["k"][~single].tolist()) == {2}
    assert sorted(rows["rank"][single].tolist()) == sorted([-1, -2, 0, 1] * 5)
    assert np.count_nonzero(single) == np.count_nonzero(~single) == 4 * 5
    # The other flags stay.
    assert np.count_nonzero(rows["flags"][single] & SampleFlag.DESCHEDULED) == 4
    of_rank_1 = rows[single & (rows["rank"] == 1)]
    assert of_rank_1["elapsed_ns"].tolist() == [30, 60, 90, 120, 3000]
    assert of_rank_1["sample"].tolist() == [0, 1, 2, 3, 4]


def test_every_rank_has_a_digest_of_its_calls() -> None:
    digests = kept([10.0, 30.0]).digests
    assert digests["rank"].tolist() == [0, 1]
    assert digests["samples"].tolist() == [5, 5]
    assert digests["min_ns"].tolist() == [10.0, 30.0]
    assert digests["median_ns"].tolist() == [30.0, 90.0]
    assert digests["mean_ns"].tolist() == [220.0, 660.0]
    assert digests["max_ns"].tolist() == [1000.0, 3000.0]
    # Linear between 4 and 100 at position 3.8.
    assert digests["p95_ns"].tolist() == pytest.approx([808.0, 2424.0])
    assert digests["run_delay_ns"].tolist() == [10_000, 30_000]
    assert digests["flagged"].tolist() == [1, 1]


def test_of_many_ranks_the_four_slowest_and_rank_0_keep_their_samples() -> None:
    paces = [10.0] * 17
    paces[3], paces[16], paces[8], paces[9] = 40.0, 30.0, 20.0, 15.0
    result = kept(paces)
    rows = result.samples
    assert sorted(set(rows["rank"].tolist())) == [MIN_OVER_RANKS, MAX_OVER_RANKS, 0, 3, 8, 9, 16]
    assert rows["issue_ns"][rows["rank"] == 0].tolist() == [10, 20, 30, 40, 1000]
    assert result.digests["rank"].tolist() == list(range(17))


def test_how_many_ranks_are_many_can_be_said() -> None:
    def ranks_kept(ranks: int, raw_ranks: int) -> int:
        results = on_ranks(ranks, lambda world: retain(5, sampled(10.0), world, raw_ranks))
        return len(set(results[0].samples["rank"].tolist()) - {MIN_OVER_RANKS, MAX_OVER_RANKS})

    assert ranks_kept(20, 20) == 20
    assert ranks_kept(8, 4) == 4  # of equal ranks the first four are the slowest
