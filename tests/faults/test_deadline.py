"""A call that never returns under -T: the run ends, says which case it was, and keeps what was finished."""

from __future__ import annotations

from typing import Any


def test_a_call_that_hangs_ends_the_run_with_its_case(launcher: Any, shim: str) -> None:
    operands = ["run", "all_reduce", "--ranks", "2", "-b", "512", "-e", "1K", "-n", "8", "-T", "1.5"]
    environ = {"LD_PRELOAD": shim, "SHIM_FAULT": "sleep", "SHIM_BYTES": "1024"}
    run = launcher.begin(*operands, **environ)
    done = run.finish()
    assert done.code == 5
    assert "all_reduce float 1024 B out-of-place: did not end within 1.5 s (-T)" in done.error
    assert "-T" in done.hint
    assert done.seconds < 30
    record = run.record()
    assert record["status"] == "failed"
    assert [result["status"] for result in record["results"]] == ["good", "good", "not-run", "not-run"]
