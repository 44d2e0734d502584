"""What hunts measured, on a terminal: maps of pairs and of rings, groups, cuts."""

from __future__ import annotations

from typing import Any

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, Hunt
from busbw.report.hunt import rounds_of
from busbw.report.plots_of_hunt import cut_lines, group_lines, matrix, plots
from busbw.report.text_plots import drawing


def test_a_few_pairs_are_numbers_with_letters() -> None:
    """0.0243 and 0.0179 GB/s are a quarter apart, and both 0.02."""
    times_ns = {BANDWIDTH: [[1e6], [1.4e6]], BOTH_WAYS: [[2e6], [2e6]], LATENCY: [[1e5], [12_345_600.0]]}
    rounds = [{"kind": "host", "names": ["a", "b"], "tests": [{"one": 0, "other": 1, "times_ns": times_ns}]}]
    one_way, _, latency = plots("", "pairs", 25_000, (), rounds)
    assert [line.split() for line in drawing(one_way, 80)[2:4]] == [
        ["a", "0.0250", "#"],
        ["b", "0.0179", "."],
    ]
    assert [line.split() for line in drawing(latency, 80)[2:4]] == [["a", "100", "#"], ["b", "12300", "."]]


def test_a_test_without_a_time_leaves_that_of_the_test_before() -> None:
    times = ({BANDWIDTH: [[1.0], [2.0]], LATENCY: [[3.0], [4.0]]}, {BANDWIDTH: [[5.0], [6.0]]})
    rounds = [{"names": ["a", "b"], "tests": [{"one": 0, "other": 1, "times_ns": own}]} for own in times]
    assert matrix(rounds, BANDWIDTH)[0, 1] == 5.0
    assert matrix(rounds, LATENCY)[1, 0] == 4.0


def test_64_ranks_are_a_map_that_fits_with_the_worst_pairs_first() -> None:
    names = [f"rank {rank}" for rank in range(64)]
    good, bad = ({kind: [[ns], [ns]] for kind in (BANDWIDTH, BOTH_WAYS, LATENCY)} for ns in (1e6, 4e6))
    tests = [
        {"one": one, "other": other, "times_ns": bad if (one, other) == (7, 41) else good}
        for one in range(64)
        for other in range(one + 1, 64)
    ]
    one_way, *_ = plots("", "pairs", 1_000_000, (), [{"kind": "rank", "names": names, "tests": tests}])
    assert "Median 1.00 GB/s; worst 0.250 GB/s, from rank 7 to rank 41; 0.250 GB/s, from" in one_way.note
    assert "A cell is the worst of 2 x 2 pairs." in one_way.note
    lines = drawing(one_way, 80)
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if line.startswith("rank 6..rank 7"))
    assert row[16::2].index(".") == 41 // 2  # two columns a cell


def step(source: int, target: int, ns: float) -> dict[str, Any]:
    return {"one": source, "other": target, "times_ns": {BANDWIDTH: [[ns], []]}}


def test_a_rail_s_rounds_are_one_table() -> None:
    hosts = ("a", "b", "c")
    rounds = [
        {"round": {"stage": "rails"}, "tests": [step(source, (source + 1) % 3, ns)]}
        for source, ns in ((0, 1e6), (1, 2e6), (2, 1e6))
    ]
    (ring,) = plots("", "rails", 25_000, hosts, rounds)
    assert ring.title.endswith("received from the host above it (the first from the last), all rails at once")
    rows = drawing(ring, 80)[2:5]
    assert [row.split()[:2] for row in rows] == [["a", "0.0250"], ["b", "0.0250"], ["c", "0.0125"]]
    assert rounds_of(Hunt("rails", 64), 3, hosts) == 8 + 3


def test_rails_are_a_table_of_groups_with_how_they_compare() -> None:
    groups = [{"ranks": [rail, rail + 2], "times_ns": [ns, ns]} for rail, ns in ((0, 1e6), (1, 2e6))]
    rounds = [{"round": {"stage": "each-rail"}, "names": ["rail 0", "rail 1"], "tests": [], "groups": groups}]
    compared = [{"name": "rail 1", "loss": 0.5, "low": 0.48, "high": 0.52}]
    fields = [{"kind": "rail", "groups": compared}]
    _, head, _, *rows = group_lines(rounds, 2_000_000, fields)
    assert head == "# GB/s: bus bandwidth of alltoall in every rail, all rails at once, over rounds"
    assert [row.split(maxsplit=6) for row in rows] == [
        ["rail", "0", "2", "1.000", "1.000", "1.000", "not compared"],
        ["rail", "1", "2", "0.500", "0.500", "0.500", "50.0% (48.0% to 52.0%)"],
    ]
    assert rounds_of(Hunt("rails", 64), 4, ("a", "a", "b", "b")) == 2 * 8 + 4


def test_what_crossed_a_cut_is_the_sum_of_its_pairs() -> None:
    """Four parts: 0 and 1 against 2 and 3, then 0 against 1 and 2 against 3. Two lanes a pair."""

    def pair(one: int, other: int, there: float, back: float) -> dict[str, Any]:
        times_ns = {BANDWIDTH: [[there, 1e6], [back, 1e6]], BOTH_WAYS: [[2e6, 2e6]] * 2}
        return {"one": one, "other": other, "times_ns": times_ns}

    names = ["a", "b", "c", "d"]
    rounds = [
        {"names": names, "tests": [pair(0, 2, 1e6, 1e6), pair(1, 3, 1e6, 4e6)]},
        {"names": names, "tests": [pair(0, 1, 2e6, 1e6), pair(2, 3, 1e6, 1e6)]},
    ]
    _, _, first, second = cut_lines(rounds, 1_000_000)
    assert first == ("# cut 1: 2 pairs: 4 up, 3.25 down, 2 each way at once; slowest 0.25, from d to b")
    assert second.startswith("# cut 2: 2 pairs: 3.5 up, 4 down, 2 each way at once; slowest 0.5, ")
    assert second.endswith("from a to b")
    assert rounds_of(Hunt("pairs", 64, halves=True), 1024, ()) == 10
