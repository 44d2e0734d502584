"""Uneven counts of a mixture of experts: the distribution, what is drawn from it, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.model.counts import CountTable, busiest_elements, own_part
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.skew import Skew
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.plan.router import popularity, skew_tables


def made(skew: str, ranks: int, **more: object) -> Plan:
    settings = RunSettings(skew=Skew(skew), minbytes=Size("48K"), seed=1, **more)  # type: ignore[arg-type]
    return make_plan(("alltoallv",), settings, "null", ranks)


def received(table: CountTable, size_bytes: int) -> list[int]:
    """Bytes that each rank receives."""
    return [sum(own_part(table, size_bytes, 1, rank).recv_counts) for rank in range(table.ranks)]


def test_zipf_by_hand() -> None:
    """zipf:1 on 4 ranks: 1, 1/2, 1/3 and 1/4 of what rank 0 gets; 48 KiB is what rank 0 gets. Their mean is
    25/48 of it, which is what every rank gets evenly.
    """
    (table,) = skew_tables(Skew("zipf:1"), "alltoallv", 4)
    size = 48 * 1024
    assert received(table, size) == [size, size // 2, size // 3, size // 4]
    assert own_part(table, size, 1, 2).send_counts == tuple(size // 4 // part for part in (1, 2, 3, 4))
    assert received(table.evenly(), size) == [size * 25 // 48] * 4
    assert table.imbalance == pytest.approx(48 / 25)


def test_the_even_case_follows_the_one_that_it_is_held_against() -> None:
    plan = made("zipf:1", 4)
    sizes = [(case.size_bytes, case.even) for case in plan.cases if case.applicable]
    assert sizes == [(48 * 1024, False), (25 * 1024, True)]
    assert [plan.rank_bytes(plan.cases[-1], rank, 4) for rank in range(4)] == [(25 * 1024, 25 * 1024)] * 4


def test_experts_are_dealt_to_ranks_in_turn() -> None:
    shares = popularity("zipf", 1.2, 6)
    assert sum(shares) == pytest.approx(1)
    assert shares[0] / shares[2] == pytest.approx(3**1.2)
    (table,) = skew_tables(Skew("zipf:1.2,experts=6"), "alltoallv", 3)
    got = received(table, 3 * 2**20)
    by_hand = [shares[rank] + shares[rank + 3] for rank in range(3)]
    assert [each / sum(got) for each in got] == pytest.approx(by_hand, rel=1e-4)


def test_lognormal_has_the_quantiles_of_the_normal_in_its_logarithm() -> None:
    shares = popularity("lognormal", 0.5, 2)  # z of 25 % and 75 %: -+0.6745
    assert shares[0] / shares[1] == pytest.approx(2.718281828 ** (2 * 0.5 * 0.6744898))


def test_tokens_are_drawn_by_the_distribution() -> None:
    tokens, shares = 20_000, popularity("zipf", 1.0, 4)
    (table,) = skew_tables(Skew(f"zipf:1,tokens={tokens}"), "alltoallv", 4, seed=7)
    for row in table.send:
        assert sum(row) == tokens
        for count, share in zip(row, shares, strict=True):  # within 5 standard deviations
            assert abs(count - tokens * share) < 5 * (tokens * share * (1 - share)) ** 0.5
    assert len(set(table.send)) == 4  # each rank has tokens of its own


def test_a_token_goes_to_an_expert_once() -> None:
    """Two of two experts: every token goes to both, however popular one is."""
    (table,) = skew_tables(Skew("zipf:3,experts=2,tokens=100,topk=2"), "alltoallv", 2)
    assert table.send == ((100, 100), (100, 100))


def test_tokens_are_drawn_several_times_and_a_seed_repeats_them() -> None:
    first, again = (made("zipf:1,tokens=64,draws=2", 4).counts for _ in range(2))
    assert first == again
    assert len(set(first)) == 2


def test_a_file_has_a_matrix_a_line_that_a_sweep_takes_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text("[[4, 0], [2, 2]]\n\n[[1, 1], [1, 1]]\n")
    settings = RunSettings(skew=Skew(f"counts:{path}"))
    plan = make_plan(("alltoallv",), settings, "null", 2)
    # Own sizes, of 4-byte elements: 6 and 2 at the busiest rank; evenly 4 and 2.
    rows = [(case.cycle, case.size_bytes, case.even) for case in plan.cases if case.applicable]
    first, second = [(24, False), (16, True)], [(8, False), (8, True)]
    assert rows == [(cycle, *row) for cycle in range(2) for row in (first, second)[cycle]]
    table = plan.table(plan.cases[0])
    assert table is not None
    assert busiest_elements(table, 6, 4) == 6


@pytest.mark.parametrize(
    ("skew", "message"),
    [
        ("zipf", "'zipf' is not a number"),
        ("zipf:x", "'x' is not a number"),
        ("zipf:nan", "is not between 0 and 10"),
        ("gauss:2", "'gauss:2' is unknown"),
        ("counts:", "'counts:' is unknown"),
        ("2,experts=4", "is unknown"),
        ("zipf:1,experts=0", "is too small"),
        ("zipf:1,foo=3", "'foo=3' is unknown"),
        ("zipf:1,tokens=64,topk=4,experts=2", "top 4 of 2 experts"),
        ("zipf:1,topk=4", "needs tokens"),
    ],
)
def test_what_is_no_skew_is_refused_with_a_hint(skew: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Skew(skew, "--skew")
    assert error.value.hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is empty"),
        ("[[1]", "line 1 is not JSON"),
        ("[[1, 2]]", "1 rows for 2 ranks"),
        ("[[1, 2], [3]]", "a row of 1 numbers"),
        ("[[1, 2], [3, -1]]", r"row 1\[1\] is -1"),
        ("[[0, 0], [0, 0]]", "moves nothing"),
    ],
)
def test_what_is_no_matrix_is_refused_by_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "counts.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError, match=message):
        skew_tables(Skew(f"counts:{path}"), "alltoallv", 2)


def test_a_row_for_every_sender_is_for_alltoallv_only() -> None:
    with pytest.raises(UsageError, match="all_gatherv has one segment"):
        skew_tables(Skew("zipf:1,tokens=8"), "all_gatherv", 2)
