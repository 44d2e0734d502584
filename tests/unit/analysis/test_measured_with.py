from __future__ import annotations

from dataclasses import replace
from typing import Any

from busbw_testing.compared import record_of

from busbw.analysis.compare_arms import Arm, make_arm
from busbw.analysis.compare_notes import notes_of
from busbw.model.record import ImportSource, RunRecord


def record(*modules: str, kernel: str = "6.1", hosts: int = 1, **variables: str) -> RunRecord:
    environment: dict[str, Any] = {"variables": variables, "modules": modules, "nccl_config": []}
    return record_of({8: 1.0}, hosts=hosts, environment=environment, machine={"host": {"kernel": kernel}})


def arm(name: str, *records: RunRecord, **fields: Any) -> Arm:
    return replace(make_arm(name, records), **fields)


def note(before: Arm, after: Arm) -> str:
    told = [text for text in notes_of(before, after) if "measured with" in text]
    return told[0] if told else ""


def test_what_was_set_otherwise_is_told() -> None:
    old = {"NCCL_ALGO": "Ring", "MY_MODE": "1", "SLURM_JOB_ID": "7", "NCCL_DEBUG": "INFO"}
    before = record("cuda/12.4", "quiet", **old)
    after = record("cuda/13.0", NCCL_PROTO="LL", MY_MODE="2", SLURM_JOB_ID="8", kernel="6.8", hosts=2)
    assert note(arm("old", before), arm("new", after)) == (
        "new: measured with MY_MODE 2 against 1, NCCL_ALGO not set against Ring, NCCL_PROTO LL against not"
        " set, module cuda 13.0 against 12.4, module quiet not set against loaded, kernel 6.8 against 6.1,"
        " 1 more"
    )


def test_what_is_alike_is_not() -> None:
    assert note(arm("old", record(NCCL_ALGO="Ring")), arm("new", record(NCCL_ALGO="Ring"))) == ""


def test_what_the_launches_of_one_do_not_share_is_no_difference_of_both() -> None:
    several = arm("new", record(MY_MODE="1", UCX_TLS="tcp"), record(MY_MODE="2", UCX_TLS="tcp"))
    assert note(arm("old", record(UCX_TLS="self")), several) == "new: measured with UCX_TLS tcp against self"


def test_a_log_tells_of_what_it_names_alone() -> None:
    source = ImportSource("a.log", "nccl-tests", evidence={"setting": ["NCCL_ALGO Tree"]})
    log = replace(record_of({8: 1.0}), environment={}, source=source)
    run = record(NCCL_ALGO="Ring", NCCL_PROTO="LL")
    assert note(arm("run", run), arm("log", log)) == "log: measured with NCCL_ALGO Tree against Ring"


def test_setups_of_a_series_say_themselves_what_they_vary() -> None:
    before, after = (arm(name, record(MY_MODE=name), series="s") for name in "ab")
    assert note(before, after) == ""
    assert note(before, replace(after, series="t")) == "b: measured with MY_MODE b against a"
