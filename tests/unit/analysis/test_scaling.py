"""Bandwidth and percentiles against the number of nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.compared import record_of

from busbw.analysis.scaling import Measured, Spread, scaling, spreads
from busbw.model.record import ImportSource
from busbw.model.result import CaseResult, Status
from busbw.model.sample import SAMPLE_DTYPE
from busbw.references.load import built_in
from busbw.reports.compare_scaling import csv_text, table


def samples(case: int, times_ns: np.ndarray, k: int) -> np.ndarray:
    rows = np.zeros(2 * len(times_ns), SAMPLE_DTYPE)
    rows["case"], rows["k"] = case, k
    rows["rank"] = np.repeat([-1, 0], len(times_ns))
    rows["elapsed_ns"] = np.concatenate((times_ns * k, times_ns * 0 + 1))
    return rows


def test_percentiles_are_per_call_of_the_maximum_over_ranks() -> None:
    found = spreads(samples(3, np.arange(1, 401) * 10, k=4))
    assert found == {3: Spread(2000.0, 3800.0, 3960.0, 4000.0)}


def test_too_few_samples_have_no_p99() -> None:
    assert spreads(samples(0, np.arange(1, 101) * 10, k=1))[0] == Spread(500.0, 950.0, None, 1000.0)


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
    (row,) = scaling([Measured(record, {0: Spread(max_ns=time)}) for record, time in
                      zip([*records, failed], (1.0, 3.0, 2.0, 9.0), strict=True)])  # fmt: skip
    assert (row.runs, row.failed, row.why, row.time_ns, row.spread.max_ns) == (3, 1, "hung", 20_000, 3.0)
    assert row.busbw_gb_per_s == pytest.approx(1024 / 20_000)


def test_text_has_every_row() -> None:
    rows = scaling([Measured(record_of({1024: 10.0}), {0: Spread(1.0, 2.0, None, 4.0)})])
    (heading, titles, row) = table(rows)
    assert heading.startswith("# all_reduce float sum out-of-place")
    assert titles.split()[0] == "#size" or titles.split()[:2] == ["#", "size"]
    assert row.split() == ["1", "KiB", "1", "2", "1", "0.10", "10.00", "0.00", "0.00", "n/a", "0.00"]
    assert csv_text(rows).splitlines()[1].startswith("all_reduce,float,sum,out-of-place")


def test_what_a_published_log_does_not_say_is_taken_from_what_is_known_of_it() -> None:
    """Two logs of CoreWeave name neither nodes nor version; the references do."""
    known = {each.name: each for each in built_in()}
    measured = []
    for name, ranks in (("coreweave-gb200-1rack-18x4", 72), ("coreweave-gb200-20racks-360x4", 1440)):
        record = record_of({1024: 10.0}, ranks=ranks, version="")
        source = ImportSource("x.log", "nccl-tests", sha256=known[name].sha256)
        measured.append(Measured(replace(record, world=replace(record.world, ranks=()), source=source), {}))
    rows = scaling(measured, built_in())
    assert [(row.nodes, row.ranks, row.version) for row in rows] == [
        (18, 72, "NCCL 2.26.2"),
        (360, 1440, "NCCL 2.26.2"),
    ]
    assert {row.nodes for row in scaling(measured)} == {0}
