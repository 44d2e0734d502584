from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from busbw.judge.samples import case_detail
from busbw.model.choice import Choice
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult

Rows = Callable[..., np.ndarray]


def test_every_stored_number_is_there(
    make_record: Callable[..., RunRecord], result: CaseResult, sample_rows: Rows, late: np.ndarray
) -> None:
    full = replace(
        result,
        stats={"p99": 2100.0, "p99.9": None},
        marks=("unstable",),
        conditions=("grouped",),
        error="no",
        choice=Choice("log", channels=8),
    )
    record = replace(make_record(), results=(full,))
    told = {fact.name: fact.value for fact in case_detail(record, 0, sample_rows(late)).stored}
    apart = {"case", "wrong_at", "stats", "evidence", "finished", "groups", "algorithm", "choice"}
    empty = apart | {"pass_samples", "neighbours"}
    names = {field.name for field in fields(CaseResult)}
    assert names - empty <= told.keys()
    assert (told["time_ns"], told["size_bytes"], told["placement"]) == ("2000", "1024", "out-of-place")
    assert (told["stats.p99"], told["stats.p99.9"], told["skew_ns"]) == ("2100", "n/a", "n/a")
    assert (told["choice.source"], told["choice.channels"], told["choice.peers"]) == ("log", "8", "n/a")
    assert (told["stop"], told["status"], told["marks"]) == ("precision", "good", "unstable")


def test_what_the_samples_add(
    make_record: Callable[..., RunRecord], result: CaseResult, sample_rows: Rows
) -> None:
    own = np.arange(2, 202, 2)[None, :].repeat(2, axis=0)
    record = replace(make_record(2), results=(result,))
    told = {fact.name: fact.value for fact in case_detail(record, 0, sample_rows(own, k=2)).sampled}
    assert told == {
        "min_ns": "1",
        "p50_ns": "50",
        "p90_ns": "90",
        "p95_ns": "95",
        "p99_ns": "n/a (needs 299 samples, has 100)",
        "p99.9_ns": "n/a (needs 2995 samples, has 100)",
        "max_ns": "100",
    }


def test_a_case_without_a_result_has_its_definition(
    make_record: Callable[..., RunRecord], sample_rows: Rows, late: np.ndarray
) -> None:
    told = case_detail(make_record(), 3, sample_rows(late))
    assert told.sampled == ()
    assert "time_ns" not in {fact.name for fact in told.stored}
