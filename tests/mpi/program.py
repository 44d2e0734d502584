"""One rank of an MPI job: checks every case of two plans (rotating, hot) and says on rank 0 what it found."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from busbw.backends.mpi import DATATYPES, MpiBackend, MpiCase
from busbw.model.collective import COLLECTIVES
from busbw.model.datatype import REDUCE_OPS, data_type
from busbw.model.plan import Limits, Plan
from busbw.planning.expand import Grid, expand
from busbw.worker.verify import verify
from busbw.world.base import PeerFailure
from busbw.world.identity import identify
from busbw.world.mpi import connect

SEED = 77
CHECKS = 2
# Odd counts; one byte is less than most elements, the last is long enough for the library's other algorithms.
# Ranks that outnumber the cores of a small machine take milliseconds a check, so they get one size.
PAIR_SIZES_BYTES = (1, 1001, 100_003)
SIZES_BYTES = (1001,)
BUFFER_BYTES = 200_006


def lost(failure: PeerFailure) -> None:
    print(failure, file=sys.stderr)
    os._exit(5)


def plan_for(ranks: int) -> Plan:
    types = [data_type(name) for name in DATATYPES]
    sizes = PAIR_SIZES_BYTES if ranks == 2 else SIZES_BYTES
    cases = expand(Grid(COLLECTIVES, types, REDUCE_OPS, [0], sizes), ranks, "mpi")
    return Plan("mpi", cases, BUFFER_BYTES, Limits(), CHECKS, SEED)


def check_all(world: Any, plan: Plan) -> dict[str, Any]:
    """Wrong cases, and what became of the slots; the same on every rank but for ``own``."""
    backend = MpiBackend(plan)
    backend.connect(world)
    wrong, checked, not_in_their_slots = [], 0, []
    for case in plan.cases:
        if not case.applicable:
            continue
        prepared = backend.prepare(case)
        verdict = verify(case, prepared, world, plan.seed, plan.checks)
        if verdict.wrong:
            wrong.append([asdict(case), asdict(verdict)])
        if not _results_are_in_their_slots(prepared, plan.seed + case.index * plan.checks):
            not_in_their_slots.append(asdict(case))
        checked += 1
        prepared.close()
    damage = _damage_one_rank(world, backend, plan)
    backend.close()
    return {"checked": checked, "wrong": wrong, "not_in_their_slots": not_in_their_slots, "damage": damage}


def _results_are_in_their_slots(prepared: MpiCase, first_seed: int) -> bool:
    """Each check lies in the next slot, or over the one before where there is one slot only."""
    last = first_seed + CHECKS - 1
    if prepared.slots == 1:
        return prepared.check(last, 0).wrong == 0
    return all(prepared.check(first_seed + i, i).wrong == 0 for i in range(CHECKS))


def _damage_one_rank(world: Any, backend: MpiBackend, plan: Plan) -> dict[str, Any]:
    """The verdict where the last rank sends other data than it should, once for each collective."""
    verdicts = {}
    for name in (row.name for row in COLLECTIVES):
        case = next(case for case in plan.cases if case.collective == name and case.size_bytes > 500)
        prepared = backend.prepare(case)
        load = prepared.load

        def load_other(seed: int, slot: int, load: Any = load) -> None:
            load(seed + 999 * (world.rank == world.size - 1), slot)

        prepared.load = load_other  # type: ignore[method-assign]
        verdicts[name] = asdict(verify(case, prepared, world, plan.seed, 1))
        prepared.close()
    return verdicts


def main() -> None:
    world = connect(identify(os.environ), lost)
    plan = plan_for(world.size)
    found = {"ranks": world.size, "rotating": check_all(world, plan)}
    if world.size == 2:
        found["hot"] = check_all(world, replace(plan, rotate=False))
    # Every rank must have come to the same findings except for its own slots.
    own = world.gather(json.dumps(found).encode())
    modes = [found[mode] for mode in ("rotating", "hot") if mode in found]
    bad_slots = world.sum(np.array([sum(len(mode["not_in_their_slots"]) for mode in modes)]))
    if own is not None:
        same = all({**json.loads(text)}["rotating"]["wrong"] == found["rotating"]["wrong"] for text in own)
        print(json.dumps({**found, "same": same, "bad_slots": bad_slots.tolist()}), flush=True)
    world.close()


if __name__ == "__main__":
    main()
