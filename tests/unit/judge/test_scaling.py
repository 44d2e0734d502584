"""Bandwidth and percentiles against the number of nodes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.compared import record_of

from busbw.judge.scaling import Failed, Measured, over_launches, scaling, spreads
from busbw.model.record import ImportSource, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE, SampleFlag
from busbw.report.compare_scaling import csv_text, table


def samples(case: int, times_ns: np.ndarray, k: int) -> np.ndarray:
    rows = np.zeros(2 * len(times_ns), SAMPLE_DTYPE)
    rows["case"], rows["k"] = case, k
    rows["rank"] = np.repeat([-1, 0], len(times_ns))
    rows["elapsed_ns"] = np.concatenate((times_ns * k, times_ns * 0 + 1))
    return rows


RUN = record_of({1024: 10.0})


def test_percentiles_are_of_the_maximum_over_ranks_without_what_evidence_speaks_against() -> None:
    rows = samples(3, np.append(np.arange(1, 401), 9999) * 10, k=1)
    rows["flags"][400] = SampleFlag.DESCHEDULED
    assert spreads(RUN, rows) == {3: {"p50": 2000.0, "p95": 3800.0, "p99": 3960.0, "max": 4000.0}}


def test_samples_of_several_calls_have_no_percentiles_of_one() -> None:
    """Their pass of single calls has, where there was one."""
    batches, singles = samples(0, np.arange(1, 401) * 10, k=4), samples(0, np.arange(1, 401) * 20, k=1)
    singles["flags"] = SampleFlag.SINGLE_CALL
    assert spreads(RUN, batches) == {}
    assert spreads(RUN, np.concatenate((batches, singles)))[0]["p50"] == 4000.0


def test_launches_of_one_run_give_their_median_percentiles() -> None:
    launches = [{0: {"p50": time, "p95": None, "max": time}} for time in (1.0, 2.0, 4.0)]
    assert over_launches([*launches]) == {0: {"p50": 2.0, "p95": None, "p99": None, "max": 4.0}}
    assert over_launches([{}, *launches]) == {}


def test_rows_go_by_size_then_nodes() -> None:
    records = [
        record_of({1024: 10.0 * hosts, 2048: 20.0 * hosts}, ranks=2 * hosts, hosts=hosts)
        for hosts in (4, 1, 2)
    ]
    rows = scaling([Measured(record, {}) for record in records])
    assert [(row.key.size_bytes, row.nodes, row.ranks) for row in rows] == [
        (1024, 1, 2), (1024, 2, 4), (1024, 4, 8), (2048, 1, 2), (2048, 2, 4), (2048, 4, 8)
    ]  # fmt: skip
    assert rows[2].time_ns == 40_000


def test_runs_of_one_kind_give_their_median_and_failures_are_counted() -> None:
    records = [record_of({1024: time}) for time in (10.0, 30.0, 20.0)]
    failed = replace(records[0], results=(CaseResult(0, Status.FAILED, error="hung"),))
    (row,) = scaling([Measured(record, {0: {"max": time}}) for record, time in
                      zip([*records, failed], (1.0, 3.0, 2.0, 9.0), strict=True)])  # fmt: skip
    assert (row.runs, row.failed, row.why, row.time_ns, row.spread["max"]) == (3, 1, "hung", 20_000, 3.0)
    assert row.busbw_gb_per_s == pytest.approx(1024 / 20_000)


def test_runs_that_differ_in_what_they_were_measured_with_are_told() -> None:
    """They are one row, a median of unlike things."""
    records, set_in = [record_of({1024: 45.9})] * 2, {"MPIR_CVAR_NOLOCAL": "1", "SLURM_JOB_ID": "7"}
    both = [record_of({1024: us}, variables=own) for us, own in ((45.9, {}), (193.0, set_in))]
    rows = scaling([Measured(record, {}) for record in both])
    assert rows[0].differs == "MPIR_CVAR_NOLOCAL"
    assert list(table(rows))[-1].endswith("runs differ in MPIR_CVAR_NOLOCAL")
    assert [row.differs for row in scaling([Measured(record, {}) for record in records])] == [""]
    unknown = scaling([Measured(records[0], {}), Measured(both[1], {})])
    assert unknown[0].differs == ""


def test_machines_and_buffers_that_differ_are_no_row_together() -> None:
    """A mean over two kinds of GPU is a number of none."""
    rows = scaling([Measured(record_of({1024: 10.0}, device=name), {}) for name in ("A100", "H100")])
    assert [row.runs for row in rows] == [1, 1]
    assert [row.version.rpartition(", ")[2] for row in rows] == ["A100", "H100"]
    records = [record_of({1024: 10.0}), record_of({1024: 20.0})]
    assert records[1].method is not None
    hot = replace(records[1], method=replace(records[1].method, buffers="one place"))
    rows = scaling([Measured(records[0], {}), Measured(hot, {})])
    assert [row.runs for row in rows] == [1, 1]
    assert len({row.definition for row in rows}) == 2


def test_text_has_every_row() -> None:
    rows = scaling([Measured(record_of({1024: 10.0}), {0: {"p50": 1.0, "p95": 2.0, "max": 4.0}})])
    (heading, titles, row) = table(rows)
    assert heading.startswith("# all_reduce float sum out-of-place")
    assert titles.split()[0] == "#size" or titles.split()[:2] == ["#", "size"]
    assert row.split() == ["1", "KiB", "1", "2", "1", "0.10", "10.00", "0.00", "0.00", "n/a", "0.00"]
    assert csv_text(rows).splitlines()[1].startswith("all_reduce,float,sum,out-of-place")


def labelled(busbw_us: float, setup: str, **fields: object) -> Measured:
    record = record_of({1024: busbw_us}, **fields)
    return Measured(replace(record, source=ImportSource("x", "nccl-tests", labels={"setup": setup})), {})


def test_each_setup_has_a_curve_of_its_own() -> None:
    rows = scaling([labelled(10.0 * number, str(number)) for number in (1, 2, 3)])
    assert [(row.setup, row.runs, row.time_ns) for row in rows] == [
        ("1", 1, 10_000), ("2", 1, 20_000), ("3", 1, 30_000)
    ]  # fmt: skip
    assert sum(line.startswith("# all_reduce float sum out-of-place; setup ") for line in table(rows)) == 3
    assert [row["setup"] for row in csv.DictReader(io.StringIO(csv_text(rows)))] == ["1", "2", "3"]


def test_runs_that_came_to_no_case_are_counted() -> None:
    died = labelled(10.0, "2", hosts=2)
    died = replace(died, record=replace(died.record, results=(), status=RunStatus.FAILED, error="hung"))
    rows = scaling([labelled(10.0, "1", hosts=2), died], failed=[Failed("3", 4, "no such queue")])
    told = {row.setup: (row.runs, row.failed, row.why, row.has_case, row.nodes) for row in rows}
    assert told == {
        "1": (1, 0, "", True, 2),
        "2": (0, 1, "hung", False, 2),
        "3": (0, 1, "no such queue", False, 4),
    }
    assert any(line.split()[0] == "n/a" and line.endswith("1 FAILED: hung") for line in table(rows))


def test_wrong_data_are_a_failure_with_its_reason() -> None:
    record = record_of({1024: 10.0})
    wrong = replace(record, results=(replace(record.results[0], status=Status.WRONG, wrong=2),))
    (row,) = scaling([Measured(record, {}), Measured(wrong, {})])
    assert (row.runs, row.failed, row.why) == (1, 1, "wrong data")
