"""Published tables import to what size and time give, and to the ranks that busbw / algbw gives."""

import pytest
from busbw_testing.logs import PUBLISHED, Published, imported, kinds, read

from busbw.foreign.logs.check import check, factor, ranks_of
from busbw.foreign.logs.table import Consensus
from busbw.model.collective import Placement


@pytest.mark.parametrize("published", PUBLISHED.values(), ids=PUBLISHED)
def test_numbers_have_all_printed_digits(published: Published) -> None:
    (record,) = imported(published.text())
    printed = [row.split() for row in published.rows]
    assert len(record.results) == 2 * len(printed)
    for index, cells in enumerate(printed):
        for side, placement in enumerate(Placement):
            case, result = record.plan.cases[2 * index + side], record.results[2 * index + side]
            time_us, algbw, busbw, wrong = cells[5 + 4 * side : 9 + 4 * side]
            size = int(cells[0])
            assert (case.collective, case.op, case.dtype, case.placement) == (
                "all_reduce",
                "sum",
                "float",
                placement,
            )
            assert (case.size_bytes, case.count, result.wrong) == (size, int(cells[1]), int(wrong))
            assert result.time_ns == pytest.approx(float(time_us) * 1e3, rel=1e-12)
            expected = size / (float(time_us) * 1e3)
            factor = 2 * (published.ranks - 1) / published.ranks
            # What is printed to more digits is kept, all else follows from size and time.
            half_time = 0.5 * 10.0 ** -len(time_us.partition(".")[2]) / float(time_us)
            for value, own, word in (
                (result.algbw_gb_per_s, expected, algbw),
                (result.busbw_gb_per_s, expected * factor, busbw),
            ):
                is_finer = half_time * own > 0.005 or abs(float(word) - own) > 0.005
                assert value == pytest.approx(float(word) if is_finer else own, rel=1e-12)
                assert value == pytest.approx(float(word), abs=0.0051)


@pytest.mark.parametrize("published", PUBLISHED.values(), ids=PUBLISHED)
def test_ranks_are_those_of_the_rows(published: Published) -> None:
    (record,) = imported(published.text())
    assert record.world.size == published.ranks
    mislabelled = published.label is not None and published.label != published.ranks
    assert ("mislabelled" in kinds(record)) is mislabelled
    assert record.source.header.get("ranks_by_header") == published.label  # kept where it lost too
    assert ("rows-missing" in kinds(record)) is not published.average_fits
    assert ("no-end" in kinds(record)) is not published.average


def test_many_ranks_are_an_interval() -> None:
    (table,) = read(PUBLISHED["GB200 twenty racks"].text()).tables
    checked = check(table)
    interval = ranks_of("all_reduce", factor(checked, checked.gb))
    assert str(interval) == "1422 to 1470"
    assert interval.only is None
    assert str(ranks_of("all_reduce", Consensus(1.999, 2.0, 1, 1))) == "2000 or more"


def test_an_excerpt_prints_another_average() -> None:
    (record,) = imported(PUBLISHED["p5 2x8 excerpt"].text())
    (finding,) = [finding for finding in record.source.findings if finding.kind == "rows-missing"]
    assert "52.9753" in finding.text
    assert "208.678" in finding.text
