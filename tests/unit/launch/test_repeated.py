"""What a series of launches says of itself that no launch says alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.launch.repeated import combine
from busbw.model.record import Method, RunRecord
from busbw.report.columns import result_columns


def launch(single_calls: int | None, clock_error_ns: float | None = None) -> RunRecord:
    record = record_of({8: 1.0})
    evidence = {} if single_calls is None else {"single_calls": single_calls}
    result = replace(
        record.results[0], calls_per_sample=10, stats={"p50": 1e3, "p99.9": None}, evidence=evidence
    )
    method = Method(time="median", clock_error_ns=clock_error_ns)
    return replace(record, method=method, results=(result,))


@pytest.mark.parametrize(("calls", "kept"), [((320, 300), 300), ((320, None), None), ((None, None), None)])
def test_percentiles_are_of_the_calls_that_every_launch_timed(
    calls: tuple[int | None, ...], kept: int | None
) -> None:
    result = combine([launch(each) for each in calls], "series").results[0]
    assert result.evidence.get("single_calls") == kept
    (tail,) = [column for column in result_columns(("p99.9",)) if column.title == "p99.9"]
    assert tail.cell(result) == ("n/a" if kept is None else "n<2995")


def test_the_clocks_of_a_series_are_worth_those_of_its_worst_launch() -> None:
    method = combine([launch(None, 1e3), launch(None, 5e3), launch(None, 2e3)], "series").method
    assert method is not None
    assert method.clock_error_ns == 5e3
    assert method.time == "geometric mean over 3 launches of the median"
    assert combine([launch(None), launch(None)], "series").method.clock_error_ns is None  # type: ignore[union-attr]
