"""Launches of one measurement, which a second series adds to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from busbw_testing.compared import record_of

from busbw.judge.compare_arms import differences
from busbw.model.record import RunRecord


def launched(folder: str, **launch: Any) -> RunRecord:
    made = record_of({1024: 10.0})
    words = ["run", "all_reduce", f"--deliver={folder}"]
    return replace(made, settings={**made.settings, "launch": {"on": "slurm", **launch}, "command": words})


def test_launches_of_one_allocation_and_of_another_are_alike() -> None:
    assert differences(launched("/a/1", job_id="7"), launched("/b/2", job_id="8", time_limit="1h")) == []


def test_launches_that_asked_for_other_nodes_are_not() -> None:
    (told,) = differences(launched("/a", partition="x"), launched("/b", partition="y"))
    assert told.startswith("--launch: ")
