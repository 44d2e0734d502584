"""Real rounds between eight hosts, of which one may be slow: what the rules conclude of them."""

from __future__ import annotations

from busbw_testing.recorded_hunts import HOSTS, recorded

from busbw.hunt.verdict import Decision, conclude

EVERYONE = (tuple(range(HOSTS)),)


def test_nobody_but_the_slow_host_is_accused_and_it_mostly_is() -> None:
    faulty = named = 0
    for each in recorded():
        verdict = conclude(each.rules, EVERYONE, each.rounds)
        accused = {f"h{part + 1}" for suspect in verdict.suspects for part in suspect.parts}
        assert accused <= {each.place}
        assert verdict.decision is not Decision.HEALTHY or each.fault in ("none", "rate -5%")  # the edge
        faulty += bool(each.place)
        named += bool(accused)
    assert faulty > 100
    assert named >= 0.9 * faulty
