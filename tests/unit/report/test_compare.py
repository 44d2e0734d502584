"""What the words below a comparison say of its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.judge.compare import compare
from busbw.judge.compare_arms import Arm, make_arm
from busbw.report.compare import evidence

MIB = 1 << 20


def on_gpus(name: str, within: float) -> Arm:
    record = record_of({MIB: 100.0, 2 * MIB: 150.0}, name=name, within=within)
    return make_arm(name, [replace(record, plan=replace(record.plan, backend="nccl"))])


@pytest.mark.parametrize(
    ("within", "said"),
    [
        (0.005, []),
        (0.2, ["the runs' own intervals are up to +-20% at 1 MiB to 2 MiB: measure longer"]),
    ],
)
def test_samples_that_hide_a_difference_are_named(within: float, said: list[str]) -> None:
    """Else a reader would take launches for the cause, which scatter by 1 %."""
    facts = evidence(compare([on_gpus("a", 0.005), on_gpus("b", within)]))
    assert [text for name, text in facts if name == "samples"] == said
