from __future__ import annotations

from dataclasses import replace
from typing import Any

from busbw_testing.compared import record_of

from busbw.judge.beside import judged
from busbw.model.neighbour import Beside, Factor
from busbw.model.record import RunRecord
from busbw.report import beside
from busbw.report.plots import Plot

MIB = 2**20
ROUNDS = 8


def about(value: float) -> Factor:
    return Factor(value, 0.99 * value, 1.01 * value)


def loaded(times: float, left: float) -> Beside:
    return Beside(
        what="compute",
        how="launches of 100 us on 132 of 132 multiprocessors, stream of equal priority",
        alone_ns=(1e6,) * ROUNDS,
        beside_ns=(1e6 * times,) * ROUNDS,
        mean=about(times),
        median=Factor(times, times, times),
        left=about(left),
        sum=about(1 / times + left),
        work_alone=(30_000.0,) * ROUNDS,
        work_beside=(30_000.0 * left,) * ROUNDS,
        unit="GFLOP/s",
        clocks_mhz=(1980, 1755),
    )


def on_fabric(times: float, during: float) -> Beside:
    none: dict[str, Any] = {"work_alone": (), "unit": "", "clocks_mhz": ()}
    return replace(loaded(times, 0.0), work_beside=(during,) * ROUNDS, **none)


def run(*of_sizes: Beside) -> RunRecord:
    record = record_of({MIB * 4**place: 100.0 for place in range(len(of_sizes))})
    pairs = zip(record.results, of_sizes, strict=True)
    return replace(record, results=tuple(replace(each, neighbours=(own,)) for each, own in pairs))


def lines(record: RunRecord) -> list[str]:
    return beside.lines(record.plan, record.results)


def drawn(record: RunRecord) -> Plot:
    return beside.plot_beside(("run",), "Beside all_reduce", judged(record.plan, record.results))


def test_the_case_that_suffers_most_is_the_answer() -> None:
    text = lines(run(loaded(1.0, 0.99), loaded(1.31, 0.87)))
    assert text[1] == (
        "# beside compute: launches of 100 us on 132 of 132 multiprocessors, stream of equal priority; by"
    )
    answer = " ".join(line[2:].strip() for line in text[6:8])
    assert answer == (
        "beside compute: all_reduce 4 MiB takes 1.31 (1.30-1.32) times as long, 1.31 (1.31-1.31) at the"
        " median, and leaves 87 % of the compute; slower in 1 of 2 cases"
    )
    assert text[3].split()[1:7] == ["all_reduce", "alone", "beside", "mean", "median", "left"]
    assert text[5].split()[1:] == [
        *("4", "MiB", "1.00", "ms", "1.31", "ms", "1.31", "(1.30-1.32)", "1.31"),
        *("87", "(86-88)", "1.63", "1980", ">", "1755"),
    ]


def test_tables_fit_with_the_longest_names_and_numbers() -> None:
    slow = replace(loaded(12.3, 1.0), alone_ns=(999.9e3,) * ROUNDS, beside_ns=(12.3 * 999.9e3,) * ROUNDS)
    congested = replace(on_fabric(12.3, 0.13), alone_ns=slow.alone_ns, beside_ns=slow.beside_ns)
    for each in (slow, replace(congested, p99=Factor(12.34, 1.5, 345.6))):
        record = run(each, each)
        first, second = record.plan.cases
        cases = (replace(first, collective="reduce_scatter", size_bytes=1023 * MIB), second)
        text = beside.lines(replace(record.plan, cases=cases), record.results)
        assert [line.split()[1] for line in text if " beside  " in line] == ["reduce_scatter", "all_reduce"]
        assert max(map(len, text)) <= 100


def test_too_few_rounds_are_no_answer() -> None:
    few = replace(loaded(3.0, 0.5), mean=Factor(3.0))
    text = lines(run(few))
    assert "3.00 (n/a)" in text[4]
    assert text[5] == "# beside compute: too few rounds to say: raise --case-time"
    record = run(few, loaded(1.31, 0.87))
    (found,) = judged(record.plan, record.results)
    assert beside.answer(found).endswith("slower in 1 of 2 cases, 1 with too few rounds to say")
    # Nor is a case of no bytes.
    record = run(loaded(2.12, 0.5), loaded(1.31, 0.87))
    (found,) = judged(record.plan, record.results)
    empty = replace(found[0], case=replace(found[0].case, size_bytes=0))
    assert beside.answer((empty, found[1])).startswith("beside compute: all_reduce 4 MiB takes 1.31 ")
    assert "cases" not in beside.answer((empty, found[1]))


def test_both_ratios_are_drawn_against_size() -> None:
    plot = drawn(run(loaded(1.0, 0.99), loaded(1.31, 0.87)))
    found = {(row["series"], row["x"]): row["y"] for row in plot.rows}
    assert found == {
        ("time beside compute", MIB): 1.0,
        ("left of compute", MIB): 0.99,
        ("time beside compute", 4 * MIB): 1.31,
        ("left of compute", 4 * MIB): 0.87,
    }
    assert plot.table.rows[1][:2] == ("all_reduce 4 MiB", "compute")


def test_a_neighbour_on_the_fabric_has_its_impact_on_mean_median_and_p99() -> None:
    congested = replace(
        on_fabric(1.31, 0.96), what="alltoall:ranks=odd", how="alltoall of the case's size on ranks 1, 3",
        median=about(1.1), p99=Factor(12.34, 1.5, 345.6), left=None, sum=None,
    )  # fmt: skip
    record, text = run(congested), lines(run(congested))
    assert text[2].split()[1:] == ["all_reduce", "alone", "beside", "mean", "median", "p99", "during", "%"]
    assert text[3].split()[7:] == ["1.31", "(1.30-1.32)", "1.10", "12.3", "(1.50-346)", "96"]
    assert text[4] == (
        "# beside alltoall:ranks=odd: all_reduce 1 MiB takes 1.31 (1.30-1.32) times as long, 1.10 (1.09-1.11)"
    )
    plot = drawn(record)
    assert plot.table.head[-4:] == ("mean", "median", "p99", "during %")
    assert plot.table.notes[0] == " ".join(line[2:].strip() for line in text[4:6])


def test_a_neighbour_that_was_seldom_under_way_is_marked() -> None:
    text = lines(run(on_fabric(26.8, 0.13)))
    assert text[3].endswith("13 part-alone")
    assert text[5].endswith(", part-alone")
