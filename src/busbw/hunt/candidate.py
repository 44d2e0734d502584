"""Who is suspected, and what fresh tests make of it: a sequential probability ratio (Wald 1945).

How much one test may add against a part is bounded by how often tests of healthy parts were slow in this
hunt, and so that no single test can decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from busbw.hunt.classes import Leaf
from busbw.hunt.screen import Screen, lower_median
from busbw.model.hunt import PairTest, Rules

Told = tuple[float, PairTest]
"""What a test took over the usual of its round, and the test."""


class State(StrEnum):
    """How far a candidate came."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    CLEARED = "cleared"
    UNMET = "unmet"  # slow with parts that passed, and not tested yet with all that may be near it
    NEAR = "near"  # slow with parts that passed, quick with others that are: paths are not alike


@dataclass(frozen=True)
class Candidate:
    """A part that was slow in screening, or a pair whose parts are not (then ``parts`` has two). ``screened``
    and ``fresh`` are residuals; ``evidence`` is the logarithm of the probability ratio of the fresh ones.
    ``leaf``: the parts are all that share a switch, which is what is meant; of each round it has one test.
    With ``beyond``, those of another switch, what is meant is the path between the two; ``lone`` are parts
    that are all that an end has, of which other tests have not yet told whether they are what is slow.
    """

    parts: tuple[int, ...]
    metric: str
    screened: tuple[float, ...]
    fresh: tuple[Told, ...] = ()
    evidence: float = 0.0
    state: State = State.OPEN
    leaf: bool = False
    beyond: Leaf = ()
    lone: tuple[int, ...] = ()

    @property
    def effect(self) -> float:
        """How slow: the mean of the fresh residuals, of the screened ones where there is none."""
        own = [residual for residual, _ in self.fresh] or list(self.screened)
        return sum(own) / len(own)


@dataclass(frozen=True)
class Bounds:
    """Logarithms of the probability ratio at which tests speak ``against`` a suspect, and ``for_it``."""

    against: float
    for_it: float


def bounds(rules: Rules, suspects: int) -> Bounds:
    """Of so many suspects: the chance that any healthy one is accused stays the same (Bonferroni)."""
    against = math.log((1 - rules.acquittal) * max(1, suspects) / rules.accusation)
    return Bounds(against, math.log(rules.acquittal))


def weighed(
    plain: Candidate, found: Screen, tests: Sequence[Told], limits: Bounds, *, doubted: bool
) -> Candidate:
    """The candidate with so many of its fresh tests as it took to decide. One good test clears who was slow
    once; who was slow again and again, or is ``doubted``, may be so now and then: it takes two good ones or
    more.
    """
    fresh: list[Told] = []
    evidence, state = 0.0, State.OPEN
    is_slow_again = len(plain.screened) > 1 and lower_median(plain.screened) > found.cut
    is_slow_again = is_slow_again or doubted
    for residual, test in tests:
        if state is not State.OPEN:
            break
        fresh.append((residual, test))
        ratio = 2 * (found.smallest - found.cut) * (residual - found.cut) / found.sigma**2
        most = min(-math.log(found.chance), limits.against / 2)
        is_slow_again = is_slow_again or residual > found.cut
        evidence += max(min(ratio, most), limits.for_it / 2 if is_slow_again else limits.for_it)
        if evidence >= limits.against * (1 - 1e-9) and len(fresh) > 1:
            state = State.CONFIRMED
        elif evidence <= limits.for_it:
            state = State.CLEARED
    return replace(plain, fresh=tuple(fresh), evidence=evidence, state=state)
