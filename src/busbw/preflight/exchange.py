"""The collective part of preflight: every rank says its facts, rank 0 judges, all hear whether to go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from busbw.model.finding import Finding, errors
from busbw.preflight.facts import decode, encode
from busbw.preflight.read import read_rank

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.preflight.gathered import Gathered
    from busbw.world.base import World


@dataclass(frozen=True)
class Refusal:
    """Why the run must not go on, the same on all ranks."""

    message: str
    hint: str
    rank: int | None
    host: str


@dataclass(frozen=True)
class Verdict:
    """``findings`` on rank 0 only; ``refusal`` on all ranks, None where nothing speaks against the run."""

    findings: tuple[Finding, ...] = ()
    refusal: Refusal | None = None


def compare_ranks(world: World, plan: Plan) -> tuple[Verdict, Gathered | None]:
    """Read this rank's facts, and compare those of all; rank 0 keeps them. Collective over the world."""
    kept: list[Gathered] = []

    def judge(parts: list[bytes]) -> tuple[Finding, ...]:
        # Rank 0 alone needs the rules.
        from busbw.preflight import catalogue
        from busbw.preflight.gathered import Gathered

        kept.append(Gathered(tuple(decode(part) for part in parts), plan.backend, plan.preflight))
        return catalogue.judge(kept[0])

    verdict = agree(world, encode(read_rank(world, plan)), judge)
    return verdict, kept[0] if kept else None


def agree(world: World, own: bytes, judge: Callable[[list[bytes]], tuple[Finding, ...]]) -> Verdict:
    """Gather every rank's ``own``, judge on rank 0, and tell all. Collective over the world."""
    gathered = world.gather(own)
    if gathered is None:
        told = json.loads(world.broadcast(None))
        return Verdict((), Refusal(**told) if told else None)
    findings = judge(gathered)
    refusal = refusal_of(findings)
    world.broadcast(json.dumps({} if refusal is None else asdict(refusal)).encode())
    return Verdict(findings, refusal)


def refusal_of(findings: tuple[Finding, ...]) -> Refusal | None:
    """The first error's words, and how many more there are."""
    bad = errors(findings)
    if not bad:
        return None
    first, others = bad[0], len(bad) - 1
    more = f" (and {others} more error{'s' * (others > 1)})" if others else ""
    return Refusal(first.claim + more, first.hint, first.rank, first.host)
