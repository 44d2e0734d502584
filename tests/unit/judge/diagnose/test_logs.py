"""Logs and runs without samples: what their tool printed of the spread, and what is told where nothing is."""

from __future__ import annotations

from dataclasses import replace

from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions

from busbw.model.conclusion import Answer
from busbw.model.record import ImportSource, RunRecord


def log(tool: str, *stats: dict[str, float | None]) -> RunRecord:
    """Sizes of 1 KiB, 2 KiB and so on, 10 us each, with these statistics in ns."""
    record = record_of({1024 << at: 10.0 for at in range(len(stats))}, ranks=4)
    results = tuple(replace(result, stats=own) for result, own in zip(record.results, stats, strict=True))
    return replace(record, results=results, source=ImportSource("a.log", tool))


def test_percentiles_of_a_log_are_its_spread() -> None:
    record = log(
        "osu",
        {"min": 4900.0, "max": 55400.0, "p50": 5000.0, "p90": 6000.0, "p99": 300000.0},
        {"min": 1800.0, "max": 2400.0, "p50": 2000.0, "p90": 3000.0, "p99": 9000.0},
    )
    found = conclusions(record)["variance.precision"]
    assert found.claim == "the log's p99 (300.0 us) is 60 times its p50 at most, at all_reduce 1 KiB"
    assert found.answer is Answer.UNDECIDED
    one = conclusions(log("nccom-test", {"p99": 25000.0}))["variance.precision"]
    assert one.claim.startswith("the log's p99 (25.00 us) is 2.5 times its time at most")


def test_missing_samples_of_a_run_are_told() -> None:
    record = record_of({1024: 10.0, 4096: 20.0}, ranks=4)
    kept = replace(record, results=tuple(replace(each, samples=50) for each in record.results))
    found = conclusions(kept)["variance.precision"]
    assert found.claim == "the samples are not in the run's folder"
    assert (found.answer, "measure again" in found.hint) == (Answer.NOT_OBSERVABLE, True)
