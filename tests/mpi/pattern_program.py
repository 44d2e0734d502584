"""One rank of an MPI job: variable counts, pairs and groups, and faults in them; prints JSON on rank 0."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from program import (
    BUFFER_BYTES,
    FAULTS,
    NO_FAULT,
    SEED,
    Fault,
    drop_the_last_rank,
    flip_a_bit,
    lost,
    memory_at,
    votes_of,
)

from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, Collective, collective
from busbw.model.counts import CountTable
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type, reduce_op
from busbw.model.plan import Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.plan.router import skew_table, spread_table
from busbw.rank.backends.mpi import MpiBackend, MpiCase
from busbw.rank.verify import Checks
from busbw.rank.world.identity import identify
from busbw.rank.world.mpi import MpiWorld, connect

SIZES_BYTES: Final = (0, 15, 1001, 2048)
VARIABLE: Final = ("alltoallv", "all_gatherv")


def uneven_tables(ranks: int) -> Iterator[CountTable]:
    """Tables of every kind: from numbers, with empty segments, with segments in any order and gaps."""
    yield spread_table(1.0, ranks)
    for name in VARIABLE:
        for skew in (1.0, (1 + ranks) / 2, float(ranks)):
            yield skew_table(skew, name, ranks)
    rows = tuple(tuple((3 * source + 5 * target) % 7 for target in range(ranks)) for source in range(ranks))
    whole = max(*map(sum, rows), *(sum(row[target] for row in rows) for target in range(ranks)), 1)
    yield CountTable("rows", ranks, rows, whole, collective="alltoallv")
    # Segments from the last to the first, each in a place of 7.
    places = tuple(7 * (ranks - 1 - peer) for peer in range(ranks))
    yield CountTable(
        "gaps", ranks, rows, whole, send_offsets=(places,), recv_offsets=(places,), extent=7 * ranks,
        collective="alltoallv",
    )  # fmt: skip
    given = tuple(((2 * rank + 1) % 5,) for rank in range(ranks))
    yield CountTable(
        "given", ranks, given, sum(row[0] for row in given), send_offsets=((2,),) * ranks,
        recv_offsets=(places,), extent=7 * ranks, collective="all_gatherv",
    )  # fmt: skip


def plan_of(
    rows: list[Collective],
    ranks: int,
    tables: tuple[CountTable, ...] = (),
    types: Any = DATA_TYPES,
    **more: Any,
) -> Plan:
    grid = Grid(rows, types, [reduce_op("sum")], (0,), SIZES_BYTES, tables=tables)
    cases = tuple(case for case in expand(grid, ranks, "mpi") if case.applicable)
    return Plan("mpi", cases, 16 * BUFFER_BYTES, Limits(), 1, SEED, counts=tables, **more)


def backend_of(world: MpiWorld, plan: Plan) -> MpiBackend:
    backend = MpiBackend(plan)
    backend.connect(world)
    return backend


def wrong_in(world: MpiWorld, plan: Plan, fault: Fault = NO_FAULT) -> tuple[list[Any], list[Any]]:
    """(cases in which some rank finds something, or ranks differ that must agree; the others)."""
    backend = backend_of(world, plan)
    wrong, agree = votes_of(world, backend, plan.cases, fault)
    backend.close()
    bad = wrong.any(axis=1) | ~agree
    named = [[case.collective, case.dtype, case.size_bytes, case.placement] for case in plan.cases]
    return [named[i] for i in np.flatnonzero(bad)], [named[i] for i in np.flatnonzero(~bad)]


def swap_segments(prepared: MpiCase) -> None:
    """What the last rank sends to ranks 0 and 1 goes to the other: the same counts, the wrong place."""
    buffers, exchange = prepared.buffers, prepared.buffers.shape.exchange
    if exchange is None or buffers.role.rank != buffers.role.ranks - 1 or len(exchange.send_counts) < 2:
        return
    type_bytes = buffers.case.data_type.size_bytes
    size = min(exchange.send_counts[:2]) * type_bytes
    first, second = (
        memory_at(buffers.send + offset * type_bytes, size) for offset in exchange.send_offsets[:2]
    )
    kept = first.copy()
    first[:] = second
    second[:] = kept


def variable(world: MpiWorld) -> dict[str, Any]:
    """Every table, type and size."""
    wrong, cases = [], 0
    for table in uneven_tables(world.size):
        plan = plan_of([collective(table.collective)], world.size, (table,))
        cases += len(plan.cases)
        wrong += [[table.origin, *case] for case in wrong_in(world, plan)[0]]
    return {"cases": cases, "wrong": wrong}


def permute(world: MpiWorld) -> dict[str, Any]:
    """The ring, its reverse, everybody to itself, and one pair only."""
    ranks = world.size
    shapes = {
        "ring": (),
        "reverse": tuple((rank, (rank - 1) % ranks) for rank in range(ranks)),
        "self": tuple((rank, rank) for rank in range(ranks)),
        "one": ((0, ranks - 1),),
    }
    found = {}
    for name, pairs in shapes.items():
        plan = plan_of([collective("permute")], ranks, pairs=pairs)
        found[name] = wrong_in(world, plan)[0]
    return {"wrong": found}


def groups(world: MpiWorld) -> dict[str, Any]:
    """Every collective in groups of different sizes at once; the last of 4 ranks and more sits out."""
    ranks = world.size
    members = tuple(range(ranks - 1)) if ranks > 3 else tuple(range(ranks))
    split = (members[::2][::-1], members[1::2]) if ranks > 1 else (members,)
    rows = [row for row in COLLECTIVES if not row.refuses(len(split[0])) and not row.refuses(len(split[-1]))]
    least = min(map(len, split))
    grid = Grid(rows, [data_type("int32"), data_type("half")], REDUCE_OPS, (least - 1,), SIZES_BYTES)
    cases = tuple(case for case in expand(grid, max(map(len, split)), "mpi", (least,)) if case.applicable)
    plan = Plan("mpi", cases, 16 * BUFFER_BYTES, Limits(), 1, SEED, groups=split)
    backend = backend_of(world, plan)
    wrong = []
    for case in cases:
        prepared = backend.prepare(case)
        if Checks(case, prepared, world, SEED, split).before(1).wrong:
            wrong.append(asdict(case))
        prepared.close()
    place = plan.group_of(world.rank, ranks)
    # A rank of the other group must see that the data are not its own group's.
    strange = 0
    if place is not None and len(split) > 1:
        case = next(case for case in cases if case.collective == "all_reduce" and case.size_bytes > 500)
        prepared = backend.prepare(case)
        prepared.load(SEED, 0)
        prepared.run(0)
        strange = prepared.check(SEED + ((1 - 2 * place.group) << 49), 0).wrong
        prepared.close()
    backend.close()
    strangers = int(world.sum(np.array([strange > 0]).astype(np.int64))[0])
    return {"cases": len(cases), "wrong": wrong, "split": split, "noticed_the_other_group": strangers}


def faults(world: MpiWorld) -> dict[str, Any]:
    """A flipped bit, a dropped rank, swapped segments and a call that never happens, in variable sizes."""
    table = skew_table(1.0, "alltoallv", world.size)
    rows = [collective(name) for name in (*VARIABLE, "permute")]
    plan = plan_of(rows, world.size, (table,), types=[data_type("int32"), data_type("bfloat16")])
    plan_cases = tuple(case for case in plan.cases if case.size_bytes > 500)
    out = {}
    for fault in (*FAULTS[:3], Fault("swapped segments", before=swap_segments)):
        cases = [
            case for case in plan_cases if fault.before is not swap_segments or case.collective == "alltoallv"
        ]
        found, unnoticed = wrong_in(world, Plan(**{**vars(plan), "cases": tuple(cases)}), fault)
        out[fault.name] = {"cases": len(found) + len(unnoticed), "unnoticed": unnoticed}
    return out


def values(world: MpiWorld) -> dict[str, Any]:
    """Random data and all ones: right results pass, and a flipped high bit or a dropped rank does not."""
    out: dict[str, Any] = {}
    for data in ("random", "all_ones"):
        plan = plan_of([row for row in COLLECTIVES if row.sized and not row.refuses(world.size)], world.size)
        cases = tuple(case for case in plan.cases if case.size_bytes > 500)
        plan = Plan(**{**vars(plan), "cases": cases, "data": data})
        wrong = wrong_in(world, plan)[0]
        dropped = wrong_in(world, plan, Fault("dropped", before=drop_the_last_rank))[1]
        flipped = wrong_in(world, moved_only(plan), Fault("flipped", after=flip_a_bit))[1]
        out[data] = {"cases": len(cases), "wrong": wrong, "dropped": dropped, "flipped": flipped}
    return out


def moved_only(plan: Plan) -> Plan:
    """Within a tolerance a low bit may flip unseen; what is moved is compared exactly."""
    cases: tuple[Case, ...] = tuple(case for case in plan.cases if not case.row.reducing)
    return Plan(**{**vars(plan), "cases": cases})


TASKS: Final[dict[str, Callable[[MpiWorld], dict[str, Any]]]] = {
    task.__name__: task for task in (variable, permute, groups, faults, values)
}


def main() -> None:
    world = connect(identify(os.environ), lost)
    found = {name: TASKS[name](world) for name in sys.argv[1:]}
    if world.rank == 0:
        print(json.dumps({"ranks": world.size, **found}), flush=True)
    world.close()


if __name__ == "__main__":
    main()
