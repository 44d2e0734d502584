"""One rank that measures a few cases while the machine gets in its way: `program.py SEED`, JSON on rank 0.

Before every call into the prepared case, and at moments of its own in between, this rank sleeps for a random
time: as a busy core, a slow node or a stopped process would do. What it issued is hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from dataclasses import asdict, replace
from typing import Any

from busbw.model.plan import Limits, Plan, Timing
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.rank import cases
from busbw.rank import main as worker
from busbw.rank.backends.mpi import MpiBackend
from busbw.rank.world.base import PeerFailure
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi import MpiWorld, connect

LONGEST_S = 3e-3
LIMITS = Limits(
    case_seconds=0.02,
    precision=0.02,
    small_precision=0.05,
    max_samples=40,
    warmup_calls=5,
    budget_seconds=20.0,
)
MODES = (Timing(), Timing(time="loop"), Timing(mode="latency", time="span", arrival="uniform"))


class Disturbed:
    """A prepared case behind random sleeps, which notes what it is asked for."""

    def __init__(self, prepared: Any, chance: random.Random, issued: list[Any]) -> None:
        self._prepared, self._chance, self._issued = prepared, chance, issued

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._prepared, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            # Delays are of each rank; all else is of the call.
            self._issued.append((name, [a for a in arguments if isinstance(a, int)], sorted(named)))
            if self._chance.random() < 0.5:
                time.sleep(self._chance.random() * LONGEST_S)
            return attribute(*arguments, **named)

        return call


class Notes:
    """Rank 0's observer."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []

    def started(self, world: object, method: object) -> None: ...

    def passed(self, result: object) -> None: ...

    def finished(self, result: Any, kept: object) -> None:
        self.results.append(asdict(result))

    def used(self, memory_bytes: dict[str, int]) -> None: ...
    def end(self, status: Any) -> None: ...


def plan(timing: Timing, ranks: int) -> Plan:
    settings = RunSettings(minbytes=Size("1K"), seed=5)
    made = make_plan(("all_reduce", "reduce", "barrier"), settings, "mpi", ranks)
    return replace(made, limits=LIMITS, timing=timing, show=("p99", "skew"))


def measured(world: MpiWorld, timing: Timing, chance: random.Random) -> dict[str, Any]:
    """What this rank issued and what all came to."""
    issued: list[Any] = []
    prepare, summarize = MpiBackend.prepare, cases.summarize
    results: list[Any] = []

    def disturbed(backend: MpiBackend, case: Any) -> Any:
        issued.append(("case", case.index))
        return Disturbed(prepare(backend, case), chance, issued)

    def noted(*arguments: Any, **named: Any) -> Any:
        result = summarize(*arguments, **named)
        if len(result.pass_samples) == result.passes:  # what is known before is rank 0's alone
            results.append(asdict(result))
        return result

    MpiBackend.prepare = disturbed  # type: ignore[assignment,method-assign]
    cases.summarize = noted
    try:
        worker.run(world, plan(timing, world.size), Notes() if world.rank == 0 else None)
    finally:
        MpiBackend.prepare = prepare  # type: ignore[method-assign]
        cases.summarize = summarize
    return {
        "calls": len(issued),
        "issued": hashlib.sha256(repr(issued).encode()).hexdigest(),
        "results": hashlib.sha256(json.dumps(results).encode()).hexdigest(),
        "stops": [result["stop"] for result in results],
        "samples": [result["samples"] for result in results],
    }


def lost(failure: PeerFailure) -> None:
    print(failure, file=sys.stderr)
    os._exit(5)


def main() -> None:
    world = connect(identify(os.environ), lost)
    chance = random.Random(f"{sys.argv[1]} {world.rank}")
    found = [measured(world, timing, chance) for timing in MODES]
    gathered = world.gather(json.dumps(found).encode())
    if gathered is not None:
        print(json.dumps([json.loads(text) for text in gathered]), flush=True)
    world.close()


if __name__ == "__main__":
    main()
