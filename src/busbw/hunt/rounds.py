"""Schedules of pair tests: who is tested with whom, round by round.

Members are numbered from 0. A round is a set of pairs that run at once, so no member is in two of them.
Where the number of members is odd, one sits out in each round.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from busbw.model.hunt import Stage

Pair = tuple[int, int]
Round = tuple[Pair, ...]


def pair(one: int, other: int) -> Pair:
    """The pair in its one spelling, the lower number first."""
    return (one, other) if one < other else (other, one)


def turns(count: int) -> int:
    """Rounds that every pair of ``count`` members takes: ``count`` - 1 of an even number, else ``count``."""
    return 0 if count < 2 else count - 1 + count % 2


def turn(count: int, number: int) -> Round:
    """Round ``number`` of the circle method: one member stays in place while the others move round it; of an
    odd number, the one in place is not there.
    """
    seats = count + count % 2
    ring = [seats - 1, *((number + place) % (seats - 1) for place in range(seats - 1))]
    facing = zip(ring[: seats // 2], reversed(ring[seats // 2 :]), strict=True)
    return tuple(pair(one, other) for one, other in facing if max(one, other) < count)


def matchings(count: int, seed: int | str) -> Iterator[Round]:
    """Random rounds, of as many pairs as there can be; no pair is in two of them, and of an odd number
    nobody sits out twice. They end when every pair was there.

    They are the turns of a circle of members in random order, in random order: whom a member meets says
    nothing of where it is.
    """
    generator = random.Random(seed)
    order = generator.sample(range(count), count)
    for number in generator.sample(range(turns(count)), turns(count)):
        yield tuple(sorted(pair(order[one], order[other]) for one, other in turn(count, number)))


def halving(count: int) -> tuple[Round, ...]:
    """The lower half of the members against the upper half, then the same in each half, until none can be
    halved: a cut through the middle at every level, in ceil(log2 ``count``) rounds. Of an odd number, the
    last member of the upper half sits out.
    """
    rounds = []
    blocks = [range(count)]
    while any(len(block) > 1 for block in blocks):
        halves = [(block[: len(block) // 2], block[len(block) // 2 :]) for block in blocks]
        rounds.append(tuple(each for lower, upper in halves for each in zip(lower, upper, strict=False)))
        blocks = [half for both in halves for half in both]
    return tuple(rounds)


def rails(nodes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each rail: the first of every node, the second of every node, ... Nodes that have fewer
    ranks are in fewer rails.
    """
    most = max(map(len, nodes), default=0)
    return tuple(tuple(node[rail] for node in nodes if rail < len(node)) for rail in range(most))


def rings(groups: Sequence[Sequence[int]]) -> tuple[Round, ...]:
    """Every member of a group to the next, the last to the first, in all groups at once; (source, target).
    Every other step of a ring at a time, so that a member either sends or receives, and its time is that of
    one step: two rounds, and a third for the last step of odd rings. Groups of one have no ring.
    """
    rounds: list[list[Pair]] = [[], [], []]
    for group in groups:
        steps = list(zip(group, [*group[1:], *group[:1]], strict=True)) if len(group) > 1 else []
        for number, step in enumerate(steps):
            is_left_over = len(steps) % 2 == 1 and number == len(steps) - 1
            rounds[2 if is_left_over else number % 2].append(step)
    return tuple(tuple(each) for each in rounds if each)


def rail_rounds(nodes: Sequence[Sequence[int]]) -> tuple[tuple[Stage, Round], ...]:
    """The rings over the nodes in each rail, and then those within each node."""
    stages = ((Stage.RAILS, rails(nodes)), (Stage.NODES, nodes))
    return tuple((stage, each) for stage, groups in stages for each in rings(groups))
