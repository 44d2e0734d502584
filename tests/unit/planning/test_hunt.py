"""The plan of a hunt, and that it travels to the ranks whole."""

from __future__ import annotations

import pytest

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, QUICKEST, RESENT
from busbw.model.plan import Plan
from busbw.planning.make import make_plan
from busbw.settings.hunt import HuntSettings
from busbw.settings.run import RunSettings


@pytest.mark.parametrize(
    ("kind", "metrics"),
    [
        ("isolate", (BANDWIDTH, LATENCY, QUICKEST, RESENT)),
        ("pairs", (BANDWIDTH, LATENCY, BOTH_WAYS)),
        ("rails", (BANDWIDTH,)),
    ],
)
def test_a_hunt_travels_to_the_ranks(kind: str, metrics: tuple[str, ...]) -> None:
    own = HuntSettings(loss="3%", slower="40%", rounds=5, round_timeout="9s", wait="sleep")
    plan = make_plan((kind,), RunSettings(hunt=own.to_word(kind), minbytes="1M", seed=7), "mpi", 4)
    got = Plan.from_json(plan.to_json())
    assert got == plan
    assert got.hunt is not None
    assert (got.hunt.kind, got.hunt.size_bytes, got.hunt.wait, got.hunt.timeout_s) == (
        kind,
        2**20,
        "sleep",
        9.0,
    )
    rules = got.hunt.rules
    assert (rules.metrics, rules.most_screens, rules.seed) == (metrics, 5, 7)
    assert (rules.floors[BANDWIDTH], rules.floors[LATENCY]) == (0.03, 0.4)


def test_flags_travel_in_one_word() -> None:
    own = HuntSettings(loss="2%", rounds=3)
    assert HuntSettings.from_word(own.to_word("pairs")) == ("pairs", own)


def test_plans_without_a_hunt_have_none() -> None:
    plan = make_plan(("all_reduce",), RunSettings(), "null", 2)
    assert Plan.from_json(plan.to_json()).hunt is None
