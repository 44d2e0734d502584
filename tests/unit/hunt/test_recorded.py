"""Real rounds between eight hosts, and four GPUs, one of which may be slow: what the rules conclude."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from busbw_testing.recorded_hunts import Recorded, of_gpus, of_hosts

from busbw.hunt.verdict import Decision, conclude


@pytest.mark.parametrize(("hunts", "least"), [(of_hosts(), 100), (of_gpus(), 8)])
def test_nobody_but_the_slow_part_is_accused_and_it_mostly_is(hunts: Iterable[Recorded], least: int) -> None:
    seen: Counter[str] = Counter()
    for each in hunts:
        verdict = conclude(each.rules, (tuple(range(each.parts)),), each.rounds)
        accused = {(suspect.parts, suspect.beyond) for suspect in verdict.suspects}
        assert accused <= {((each.place,), ())}
        assert verdict.decision is not Decision.HEALTHY or each.place is None
        seen["faulty"] += each.place is not None
        seen["named"] += bool(accused)
    assert seen["faulty"] >= least
    assert seen["named"] > 0.85 * seen["faulty"]
