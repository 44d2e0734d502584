"""How late ranks come, from text."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.model.arrival import Arrival
from busbw.plan.flags.arrival import ArrivalText
from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan, read_trace


@pytest.mark.parametrize(
    ("text", "arrival"),
    [
        ("none", Arrival("none")),
        ("late-one", Arrival("late-one")),
        ("late-one:4ms", Arrival("late-one", 0.0, 4e6)),
        ("uniform:0-10ms", Arrival("uniform", 0.0, 10e6)),
        ("uniform:500us-2ms", Arrival("uniform", 5e5, 2e6)),
        ("ramp:2-3ms", Arrival("ramp", 2e6, 3e6)),
        ("trace:a:b", Arrival("trace", path="a:b")),
    ],
)
def test_what_it_says(text: str, arrival: Arrival) -> None:
    assert Arrival.of(text) == arrival


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("late", "'late' is unknown"),
        ("none:1ms", "is unknown"),
        ("trace", "is unknown"),
        ("uniform:", "is unknown"),
        ("late-one:1-2ms", "has one delay"),
        ("uniform:5-2ms", "ends before it begins"),
        ("uniform:-2ms", "not a duration"),
        ("late-one:4x", "not a duration"),
        ("late-one:1min", "is too late"),
    ],
)
def test_what_it_cannot_say(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        ArrivalText(text, "--arrival")
    assert error.value.hint


def test_a_trace_has_a_line_a_call_and_a_delay_a_rank(tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    path.write_text("# rank 0, rank 1\n0 4ms\n\n250us, 0\n")
    assert read_trace(str(path), 2) == ((0, 4_000_000), (250_000, 0))
    settings = RunSettings(arrival=ArrivalText(f"trace:{path}", ""), mode="latency")
    timing = make_plan(("all_reduce",), settings, "null", 2).timing
    # Runs are compared by what a trace says, not by where it lies.
    (tmp_path / "other.txt").write_text("0 4ms\n0.25ms 0")
    other = RunSettings(arrival=ArrivalText(f"trace:{tmp_path}/other.txt", ""), mode="latency")
    assert timing == make_plan(("all_reduce",), other, "null", 2).timing
    assert Arrival.of(timing.arrival).pattern == "trace"


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("0 1ms\n0", "line 2 has 1 delays for 2 ranks"), ("0 x", "line 1: not a duration")],
)
def test_what_is_no_trace_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "late.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_trace(str(path), 2)
