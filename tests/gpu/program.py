"""All cases of NCCL on all visible GPUs of this host, then faults put into them: are they right, and noticed?

    PYTHONPATH=src:tests/support python tests/gpu/program.py [--ranks N [--one-gpu]] [--only PATTERN]

Starts one process per GPU, makes one world and one communicator after another, and prints what was found as
one line of JSON, the last on standard output; progress goes to standard error. Exit code 1 where a case is
wrong or a fault behaves otherwise than expected. Needs busbw and
tests/support on PYTHONPATH, a driver and an NCCL; no MPI.

As in tests/mpi/program.py, whose grid this is, a batch of cases runs without control traffic in
between, and the votes of all its cases are summed once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Final

import numpy as np
from faults import FAULTS, Fault, SwappedRanks

from busbw.errors import BusbwError, SiteError
from busbw.machine.native.cuda import CudaDriver
from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, VARIABLE, Collective, collective
from busbw.model.counts import CountTable
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, data_type
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.plan.expand import Grid, expand
from busbw.plan.router import skew_table, spread_table
from busbw.rank.backends.base import CheckOutcome
from busbw.rank.backends.buffers import checkable
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.backends.nccl_case import NcclCase
from busbw.rank.backends.nccl_support import LATE_FUNCTIONS
from busbw.rank.world.base import PeerFailure, World
from busbw.rank.world.identity import identify
from busbw.rank.world.select import create

SEED: Final = 77
# An odd count in most types; rounded down to whole blocks of 16 bytes where there are blocks.
SIZE_BYTES: Final = 1001
# Whole buffers of a few elements but no block of 16 bytes for anyone; then nothing at all.
SMALL_SIZES_BYTES: Final = (15, 0)
# Several of NCCL's chunks and channels.
LONG_SIZE_BYTES: Final = 100_003
ALL_TYPES: Final = tuple(row.name for row in DATA_TYPES)
FEW_TYPES: Final = ("int8", "half", "bfloat16", "float")
# What -m puts into one group and -G into one graph; the buffers have a place for each.
CALLS: Final = 4
BUFFER_BYTES: Final = CALLS * LONG_SIZE_BYTES
# A collective that hangs ends here instead of holding a GPU machine.
TIMEOUT_S: Final = 60.0
SHOWN: Final = 20  # wrong cases in full
PLAIN: Final = CallOptions()
# What the ranks are told of the command line.
ONLY: Final = "PROGRAM_ONLY"
TIMEOUT: Final = "PROGRAM_TIMEOUT"


@dataclass
class At:
    """Where this rank is, for the message when it ends too early."""

    part: str = ""
    case: Case | None = None

    def __str__(self) -> str:
        return f"in {self.part!r} at {self.case}"


AT: Final = At()


# ---- cases ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Cases that share a communicator. ``calls`` above 1: they are timed in one piece too, and checked."""

    name: str
    cases: Sequence[Case]
    options: CallOptions = PLAIN
    grouped: bool = False
    calls: int = 1
    groups: tuple[tuple[int, ...], ...] = ()
    counts: tuple[CountTable, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    data: str = "exact"

    @property
    def optional(self) -> bool:
        """Whether a machine may lack what the options ask for."""
        return self.options.register > 0 or self.options.memory != "device"


def cases_of(
    ranks: int,
    sizes_bytes: Sequence[int],
    *,
    types: Iterable[str] = ALL_TYPES,
    rows: Sequence[Collective] = COLLECTIVES,
    roots: Sequence[int],
    tables: Sequence[CountTable] = (),
) -> list[Case]:
    """The grid's cases that the catalogue has; what this NCCL on this GPU cannot run is not known yet."""
    data_types = [data_type(name) for name in types]
    grid = Grid(rows, data_types, REDUCE_OPS, roots, sizes_bytes, lenient=True, tables=tables)
    return [case for case in expand(grid, ranks, "nccl") if case.applicable and checkable(case, ranks)]


def parts(ranks: int) -> Iterator[Part]:
    """Everything once with plain calls; each option with a few types, short and long."""
    every, last = range(ranks), (ranks - 1,)
    small_and_long = cases_of(ranks, (*SMALL_SIZES_BYTES, LONG_SIZE_BYTES), types=FEW_TYPES, roots=every)
    yield Part("plain", [*cases_of(ranks, (SIZE_BYTES,), roots=every), *small_and_long])
    late = [collective(name) for name in LATE_FUNCTIONS]
    sizes = (SIZE_BYTES, LONG_SIZE_BYTES)
    yield Part("grouped", cases_of(ranks, sizes, rows=late, roots=every), grouped=True)
    few = cases_of(ranks, sizes, types=FEW_TYPES, roots=last)
    yield Part("unaligned", few, CallOptions(unalign=1))
    yield Part("graph", few, CallOptions(graph=1), calls=CALLS)
    yield Part("aggregated", few, CallOptions(aggregate=CALLS), calls=CALLS)
    yield Part("registered", few, CallOptions(register=1))
    yield Part("windows", few, CallOptions(register=2))
    yield Part("managed memory", few, CallOptions(memory="managed"))
    yield Part("host memory", few, CallOptions(memory="host"))
    yield from pattern_parts(ranks)


def pattern_parts(ranks: int) -> Iterator[Part]:
    """Uneven counts, pairs, groups, and data that are checked on the host."""
    sizes = (*SMALL_SIZES_BYTES, SIZE_BYTES, LONG_SIZE_BYTES)
    for table in (
        spread_table(1.0, ranks),
        *(skew_table(skew, name, ranks) for name in VARIABLE for skew in ((1 + ranks) / 2, float(ranks))),
    ):
        cases = cases_of(ranks, sizes, rows=[collective(table.collective)], roots=(0,), tables=(table,))
        name = f"{table.collective}, {table.origin}"
        yield Part(name, cases, counts=(table,))
        yield Part(f"{name}, graph", cases, CallOptions(graph=1), calls=CALLS, counts=(table,))
    permute = cases_of(ranks, sizes, rows=[collective("permute")], roots=(0,))
    yield Part("permute, reverse", permute, pairs=tuple((rank, (rank - 1) % ranks) for rank in range(ranks)))
    yield Part("permute, self", permute, pairs=tuple((rank, rank) for rank in range(ranks)))
    yield Part("permute, one", permute, pairs=((0, ranks - 1),))
    half = max(1, ranks // 2)
    few = cases_of(half, (SIZE_BYTES, LONG_SIZE_BYTES), types=FEW_TYPES, roots=(0,))
    groups = tuple(
        tuple(range(first, first + half)) for first in range(0, 2 * half, half) if first + half <= ranks
    )
    yield Part("groups", few, groups=groups)
    whole = cases_of(ranks, (SIZE_BYTES, LONG_SIZE_BYTES), types=FEW_TYPES, roots=(0,))
    for data in ("random", "all_ones"):
        able = [case for case in whole if checkable(case, ranks, data)]
        yield Part(f"{data} data", able, data=data)


def connected(world: World, local_rank: int, part: Part) -> NcclBackend:
    """Raises SiteError, on all ranks alike, where one of them lacks what the part needs."""
    options = replace(part.options, timeout_s=float(os.environ.get(TIMEOUT, TIMEOUT_S)))
    shape: dict[str, Any] = {name: getattr(part, name) for name in ("groups", "counts", "pairs", "data")}
    plan = Plan("nccl", tuple(part.cases), BUFFER_BYTES, Limits(), 1, SEED, options=options, **shape)
    made: list[NcclBackend] = []
    reason = failure_of(world, lambda: made.append(NcclBackend(plan, local_rank, grouped=part.grouped)))
    if not reason:
        reason = failure_of(world, lambda: made[0].connect(world))
    if reason:
        for backend in made:
            backend.close()
        raise SiteError(reason)
    return made[0]


def failure_of(world: World, step: Callable[[], None]) -> str:
    """Why the step failed on the first rank where it did; empty where on none. The same on all ranks."""
    reason = ""
    try:
        step()
    except SiteError as error:
        reason = f"rank {world.rank}: {error}"
    told = world.gather(reason.encode())
    return world.broadcast(next(filter(None, told), b"") if told is not None else None).decode()


# ---- checks -----------------------------------------------------------------------------------------------


def check(prepared: NcclCase, seed: int, slots: Sequence[int], run: Callable[[], object]) -> tuple[int, int]:
    """Wrong elements in the slots that ``run`` writes, and what ranks that must agree have to agree about."""
    for number, slot in enumerate(slots):
        prepared.load(seed + number, slot)
    run()
    wrong, digest = 0, 0
    for number, slot in enumerate(slots):
        found = prepared.check(seed + number, slot)
        wrong, digest = wrong + found.wrong, digest ^ found.digest
    return wrong, digest


def check_case(prepared: NcclCase, seed: int, slot: int, calls: int) -> tuple[int, int]:
    """One call alone, as ``worker.verify`` has it; then ``calls`` of them as they are timed."""
    prepared.load(seed, slot)
    found = prepared.run_checked(seed, slot)
    wrong, digest = noticed(found), found.digest
    prepared.guard()
    if calls == 1:
        prepared.time(0, 1, 1)
        return wrong + sum(astuple(prepared.strays())), digest
    slots = range(min(calls, prepared.slots))
    more_wrong, more_digest = check(prepared, seed + 1, slots, lambda: prepared.time(0, 1, calls))
    return wrong + more_wrong + sum(astuple(prepared.strays())), digest ^ more_digest


def check_fault(
    prepared: NcclCase, seed: int, slot: int, fault: Fault, swapped: SwappedRanks | None
) -> tuple[int, int]:
    """One call, and the fault around it or in it; what is noticed, in elements and bytes."""

    def run(slot: int) -> None:
        fault.before(prepared, slot)
        if swapped is not None:
            swapped.run(prepared, slot)
        elif fault.calls:
            prepared.run(slot)
        fault.after(prepared, slot)

    if fault.later:
        prepared.load(seed + CALLS, slot)
        first = prepared.run_checked(seed + CALLS, slot)
        prepared.guard()
        prepared.time(0, 1, 1)
        if noticed(first) or any(astuple(prepared.strays())):
            return 0, 0  # nothing was wrong yet
    prepared.load(seed, slot)
    found = prepared.run_checked(seed, slot, run)
    return noticed(found), found.digest


def noticed(found: CheckOutcome) -> int:
    return found.wrong + found.sent_changed + sum(astuple(found.strays))


CheckOne = Callable[[NcclCase, int, int], tuple[int, int]]  # (prepared case, seed, slot) -> wrong, digest


def votes_of(
    world: World,
    backend: NcclBackend,
    cases: Sequence[Case],
    check_one: CheckOne,
    groups: tuple[tuple[int, ...], ...] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """[case, rank] of wrong elements, and per case whether ranks agree that must; the same on every rank."""
    votes = np.zeros((len(cases), world.size, 3), np.int64)
    for number, case in enumerate(cases):
        AT.case = case
        prepared = backend.prepare(case)
        wrong, digest = check_one(prepared, SEED + number * (1 + CALLS), number % prepared.slots)
        votes[number, world.rank] = wrong, digest >> 32, digest & 2**32 - 1
        prepared.close()
    votes = world.sum(votes)
    agree = np.ones(len(cases), bool)
    for members in groups or (tuple(range(world.size)),):
        agree &= (votes[:, list(members), 1:] == votes[:, members[:1], 1:]).all(axis=(1, 2))
    needed = np.array([case.row.agreeing for case in cases], bool)
    return votes[:, :, 0], agree | ~needed


def grid_part(world: World, local_rank: int, part: Part) -> dict[str, Any]:
    """What became of a part: counts, and the first wrong cases with the wrong elements of each rank."""
    start = time.monotonic()
    try:
        backend = connected(world, local_rank, part)
    except SiteError as error:
        if not part.optional:
            raise
        return {"unavailable": str(error)}
    refused = Counter(reason for case in part.cases if (reason := backend.inapplicable(case)))
    able = [case for case in part.cases if not backend.inapplicable(case)]

    def check_one(prepared: NcclCase, seed: int, slot: int) -> tuple[int, int]:
        return check_case(prepared, seed, slot, part.calls)

    wrong, agree = votes_of(world, backend, able, check_one, part.groups)
    bad = np.flatnonzero(wrong.any(axis=1) | ~agree).tolist()
    found = {
        "cases": len(able),
        "kinds": len({(case.collective, case.dtype, case.op, case.placement) for case in able}),
        "inapplicable": dict(refused),
        "conditions": dict(Counter(mark for case in able for mark in backend.conditions(case))),
        "facts": backend.identity.facts,
        "wrong_cases": len(bad),
        "wrong": [[asdict(able[number]), wrong[number].tolist()] for number in bad[:SHOWN]],
    }
    world.barrier()
    backend.close()
    return {**found, "seconds": round(time.monotonic() - start, 2)}


def faults(world: World, local_rank: int) -> dict[str, Any]:
    """For each fault: cases tried, those in which it went unnoticed, and those where that surprises."""
    cases = cases_of(world.size, (SIZE_BYTES,), roots=(world.size - 1,))
    backend = connected(world, local_rank, Part("faults", cases))
    cases = [case for case in cases if case.row.sized and not backend.inapplicable(case)]
    out = {}
    for fault in FAULTS:
        if world.size < fault.least_ranks:
            continue
        start = time.monotonic()
        swapped = SwappedRanks(world, backend) if fault.swapped else None

        def check_one(
            prepared: NcclCase, seed: int, slot: int, fault: Fault = fault, swapped: Any = swapped
        ) -> tuple[int, int]:
            return check_fault(prepared, seed, slot, fault, swapped)

        wrong, _ = votes_of(world, backend, cases, check_one)
        if swapped is not None:
            world.barrier()
            swapped.close()
        noticed = [bool(elements) for elements in wrong.sum(axis=1)]
        out[fault.name] = told(cases, noticed, [fault.passes(case, world.size) for case in cases])
        out[fault.name]["seconds"] = round(time.monotonic() - start, 2)
    world.barrier()
    backend.close()
    return out


def told(cases: Sequence[Case], noticed: Sequence[bool], passes: Sequence[bool]) -> dict[str, Any]:
    """A case surprises where its fault is noticed although it passes, or neither."""
    triples = list(zip(cases, noticed, passes, strict=True))
    surprises = [case for case, seen, right in triples if seen == right]
    return {
        "cases": len(cases),
        "unnoticed_cases": sum(not seen for seen in noticed),
        "expected_unnoticed_cases": sum(passes),
        "unnoticed": dict(Counter(case.collective for case, seen, _ in triples if not seen)),
        "surprising_cases": len(surprises),
        "surprising": [[case.collective, case.dtype, case.op, case.placement] for case in surprises[:SHOWN]],
    }


# ---- processes --------------------------------------------------------------------------------------------


def lost(failure: PeerFailure) -> None:
    print(f"lost: {failure}; this rank {AT}", file=sys.stderr, flush=True)
    os._exit(5)


def everything(world: World, local_rank: int, only: str) -> dict[str, Any]:
    found: dict[str, Any] = {"ranks": world.size, "grid": {}}
    start = time.monotonic()
    for part in (part for part in parts(world.size) if re.match(only, part.name)):
        AT.part = part.name
        found["grid"][part.name] = part_found = grid_part(world, local_rank, part)
        progress(world, part.name, part_found)
    found["faults"] = faults(world, local_rank)
    progress(world, "faults", found["faults"])
    found["seconds"] = round(time.monotonic() - start, 2)
    wrong = sum(part.get("wrong_cases", 0) for part in found["grid"].values())
    found["good"] = wrong + sum(fault["surprising_cases"] for fault in found["faults"].values()) == 0
    return found


def progress(world: World, name: str, found: dict[str, Any]) -> None:
    if world.rank == 0:
        print(f"{name}: {json.dumps(found)}", file=sys.stderr, flush=True)


def rank_main() -> int:
    identity = identify(os.environ)
    if identity is None or identity.local_rank is None:
        raise SystemExit("this rank does not know its number on this host")
    world = create(identity, "nccl", lost)
    try:
        found = everything(world, identity.local_rank, os.environ.get(ONLY, ""))
    except BusbwError as error:  # the others wait for this rank, perhaps on their GPUs
        print(f"rank {world.rank} ends {AT}: {error}", file=sys.stderr, flush=True)
        os._exit(error.exit_code)
    if world.rank == 0:
        print(json.dumps(found), flush=True)
    world.close()
    return 0 if found["good"] else 1


def as_host(rank: int) -> list[str]:
    """The words before a command that give it a host name of its own."""
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"host{rank}"]


def start_ranks(ranks: int, *, one_gpu: bool = False) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        root = f"127.0.0.1:{probe.getsockname()[1]}"
    shared = {"BUSBW_LAUNCHER": "busbw", "BUSBW_ROOT": root, "BUSBW_TOKEN": secrets.token_hex(16)}
    sizes = {"BUSBW_WORLD_SIZE": str(ranks), "BUSBW_LOCAL_SIZE": str(1 if one_gpu else ranks)}
    processes = []
    for rank in range(ranks):
        own = {"BUSBW_RANK": str(rank), "BUSBW_LOCAL_RANK": str(0 if one_gpu else rank)}
        words = [*(as_host(rank) if one_gpu else ()), sys.executable, __file__]
        processes.append(subprocess.Popen(words, env={**os.environ, **shared, **sizes, **own}))
    return max(abs(process.wait()) for process in processes)


def main() -> int:
    if "BUSBW_RANK" in os.environ:
        return rank_main()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, help="by default one for each visible GPU")
    parser.add_argument("--only", default="", help="a pattern of parts' names, from their beginning")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="of a wait for the GPU, in seconds")
    one_gpu = "all ranks on the first GPU, each as a host of its own (as root)"
    parser.add_argument("--one-gpu", action="store_true", help=one_gpu)
    options = parser.parse_args()
    os.environ.update({ONLY: options.only, TIMEOUT: str(options.timeout)})
    ranks = options.ranks
    if ranks is None:
        driver = CudaDriver()
        driver.init()
        ranks = driver.device_count()
    return start_ranks(ranks, one_gpu=options.one_gpu)


if __name__ == "__main__":
    raise SystemExit(main())
