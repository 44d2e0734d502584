"""The plan of a hunt, and that it travels to the ranks whole."""

from __future__ import annotations

import pytest

from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, QUICKEST, RESENT, Hunt
from busbw.model.plain import from_plain
from busbw.model.plan import Plan
from busbw.plan.flags.hunt import HuntSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Fraction, Growth, Seconds, Size
from busbw.plan.make import make_plan


@pytest.mark.parametrize(
    ("kind", "metrics"),
    [
        ("isolate", (BANDWIDTH, LATENCY, QUICKEST, RESENT)),
        ("pairs", (BANDWIDTH, LATENCY, BOTH_WAYS)),
        ("rails", (BANDWIDTH,)),
    ],
)
def test_a_hunt_travels_to_the_ranks(kind: str, metrics: tuple[str, ...]) -> None:
    own = HuntSettings(
        kind=kind,
        loss=Fraction("3%"),
        slower=Growth("40%"),
        rounds=5,
        round_timeout=Seconds("9s"),
        wait="sleep",
    )
    plan = make_plan((kind,), RunSettings(hunt=own, minbytes=Size("1M"), seed=7), "mpi", 4)
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
    assert (rules.metrics, rules.rounds, rules.seed) == (metrics, 5, 7)
    assert (rules.floors[BANDWIDTH], rules.floors[LATENCY]) == (0.03, 0.4)


def test_records_have_a_hunt_in_one_word() -> None:
    own = HuntSettings(kind="pairs", loss=Fraction("2%"), rounds=3)
    assert RunSettings(hunt=own).written()["hunt"] == (
        "pairs,loss=2%,slower=50%,rounds=3,round_timeout=30s,wait=auto,each_nic=,halves=False"
    )
    assert RunSettings().written()["hunt"] == ""


def test_hunts_of_earlier_versions_are_read() -> None:
    old = {
        "metrics": [BANDWIDTH],
        "floors": {BANDWIDTH: 0.05},
        "least_values": 16,
        "most_screens": 8,
        "seed": 3,
    }
    got = from_plain(Hunt, {"kind": "isolate", "size_bytes": 8, "rules": old, "doubted": ["h1"]})
    assert (got.size_bytes, got.rules.metrics, got.rules.seed) == (8, (BANDWIDTH,), 3)
