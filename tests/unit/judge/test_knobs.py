"""Values that race by launches: who is out, who leads, and what that costs beside every combination."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from busbw.judge.compare import Verdict, compare
from busbw.judge.compare_arms import Arm, CaseKey, Failure, Observed
from busbw.judge.knobs import leader, losers

SIZES = (1024, 65536)


def arm(name: str, times_ns: Sequence[float], **fields: Any) -> Arm:
    """Launched in blocks 0, 1, ...; a larger size takes ten times as long."""
    cases = {
        CaseKey("all_reduce", "float", "sum", -1, "out-of-place", size): Observed(
            tuple(time_ns * 10**place for time_ns in times_ns), tuple(range(len(times_ns)))
        )
        for place, size in enumerate(SIZES)
    }
    return Arm(name, 4, 1, "of busbw", "", {}, cases, "a series", **fields)


@pytest.mark.parametrize(
    ("times", "out"),
    [
        ({"is": [100], "a": [80], "b": [120]}, {"b"}),  # 50 % slower than the fastest
        ({"is": [100], "a": [90], "b": [115]}, set()),  # one launch may be off by so much
        ({"is": [100, 100], "a": [90, 90], "b": [115, 110]}, {"b"}),
        ({"is": [100, 100], "a": [90, 90], "b": [115, 91]}, set()),  # as fast once
        ({"is": [100], "a": [200], "b": [300]}, {"is", "a", "b"}),  # nobody is left against it
        ({"is": [300], "a": [100], "b": [100]}, set()),  # how it is stays, to be compared with
    ],
)
def test_out_is_what_was_slower_in_every_launch(times: Mapping[str, list[float]], out: set[str]) -> None:
    assert losers([arm(name, own) for name, own in times.items()]) == out


def test_what_failed_or_had_wrong_data_is_out_after_one_launch() -> None:
    failed = arm("a", [], failures={"a launch": Failure("it hung")})
    assert losers([arm("is", [100]), failed, arm("b", [100])]) == {"a"}


def test_the_fastest_leads_unless_it_is_slower_or_fails_somewhere() -> None:
    def told(*rows: tuple[str, Verdict, float]) -> Any:
        made = [
            SimpleNamespace(arm=name, verdict=verdict, speedup=speedup) for name, verdict, speedup in rows
        ]
        names = dict.fromkeys(name for name, _, _ in rows)
        arms = tuple(SimpleNamespace(name=name, failures={}, wrong="") for name in names)
        return SimpleNamespace(baseline=SimpleNamespace(name="is"), candidates=arms, rows=tuple(made))

    first, second = ("a", Verdict.FASTER, 1.25), ("b", Verdict.FASTER, 2.0)
    assert leader(told(first, second)) == ("b", pytest.approx(0.5))
    assert leader(told(first, second, ("b", Verdict.SLOWER, 0.9))) == ("a", pytest.approx(0.2))
    assert leader(told(("a", Verdict.AMBIGUOUS, 1.005))) == ("is", 0.0)


# ---- many races ------------------------------------------------------------------------------------------


def race(levels: Mapping[str, float], scatter: float, draw: np.random.Generator) -> tuple[str, int]:
    """Who leads after three blocks whose launches scatter by so much, and how many launches that took."""
    times: dict[str, list[float]] = {name: [] for name in levels}
    out = frozenset[str]()
    for _ in range(3):
        for name in (each for each in levels if each not in out):
            times[name].append(levels[name] * math.exp(draw.normal(0, scatter)))
        out = losers([arm(name, own) for name, own in times.items()])
    best, _ = leader(compare([arm(name, own) for name, own in times.items()]))
    return best, sum(map(len, times.values()))


@pytest.mark.parametrize("scatter", [0.02, 0.05])
def test_two_variables_cost_a_quarter_of_all_combinations_and_lose_nothing(scatter: float) -> None:
    """Seven and four values 15 % apart or more, beside three launches of each combination."""
    draw, good, launches = np.random.default_rng(5), 0, 0
    for _ in range(20):
        regret = 1.0
        for count in (7, 4):
            names = [f"v{number}" for number in range(count)]
            levels = dict(zip(["is", *names], draw.permutation(1.15 ** np.arange(count + 1)), strict=True))
            best, made = race(levels, scatter, draw)
            regret *= levels[best] / min(levels.values())
            launches += made
        good += regret < 1.02
    assert good >= 19
    assert launches / 20 + 6 < 0.25 * 3 * 8 * 5  # with its confirmation
