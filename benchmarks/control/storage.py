"""What a run of many ranks leaves on disk, and what rank 0 holds while it writes it.

    python benchmarks/control/storage.py --ranks 2160 --cases 60 --samples 1000

The world is simulated: its gather gives rank 0 what so many ranks would send, made from rank 0's own bytes
when they are asked for, each rank with noise of its own. What is measured is the real code: worker.describe,
worker.retain, record.write, and the compaction to Parquet that follows in another process. Memory is resident
memory at its peak, less that of the process before (VmHWM, Linux).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from busbw._version import __version__
from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, RunRecord, RunStatus
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.rank.backends.base import Identity
from busbw.rank.backends.null import NullBackend
from busbw.rank.describe import describe
from busbw.rank.measure import Samples, Taken
from busbw.rank.reduce_samples import Across
from busbw.rank.retain import retain
from busbw.rank.world.base import Member, WorldKind, distinct_hosts, reducible
from busbw.record.folder import create
from busbw.record.parquet import compact
from busbw.record.write import RunWriter

RANKS_A_HOST = 8
# A backend's identity as long as NCCL's on a GPU host: the record keeps one of every rank.
PATH, BUILD_ID = "/opt/site/nccl-2.28.9/lib/libnccl.so.2.28.9", "0123456789abcdef0123456789abcdef01234567"
IDENTITY = Identity(
    library="NCCL",
    version="2.28.9",
    path="",
    device="NVIDIA H200",
    device_uuid="GPU-00000000-0000-0000-0000-000000000000",
    facts={"driver": "580.95", "event_ns": 412.5, "pci": "0000:1b:00.0", "memory_bytes": 150_754_820_096},
)


class ManyRanks:
    """Rank 0 of a world whose other ranks are made from it, see ``busbw.rank.world.base.World``."""

    kind: WorldKind = "nccl"
    rank = 0
    launcher = "simulated"

    def __init__(self, size: int) -> None:
        self.size = size
        self.members = tuple(
            Member(rank, f"node{rank // RANKS_A_HOST:04}", 10_000 + rank, rank % RANKS_A_HOST)
            for rank in range(size)
        )
        self.gathered_bytes = 0
        self._random = np.random.default_rng(size)
        self._speakers: frozenset[int] = frozenset(range(size))

    @property
    def hosts(self) -> tuple[str, ...]:
        return distinct_hosts(self.members)

    def barrier(self) -> None:
        return

    def broadcast(self, data: bytes | None) -> bytes:
        """What rank 0 tells in ``retain``: whose raw samples it wants."""
        assert data is not None
        self._speakers = frozenset(np.frombuffer(data, np.int64).tolist())
        return data

    def max(self, values: Any) -> Any:  # noqa: ANN401 (an array of either type)
        return reducible(values)

    def sum(self, values: Any) -> Any:  # noqa: ANN401
        return reducible(values)

    def gather(self, data: bytes) -> list[bytes] | None:
        parts = [self._part(rank, data) for rank in range(self.size)]
        self.gathered_bytes = max(self.gathered_bytes, sum(map(len, parts)))
        return parts

    def _part(self, rank: int, own: bytes) -> bytes:
        if own.startswith(b"["):
            return as_told_by(self.members[rank], own)
        if len(own) == DIGEST_DTYPE.itemsize:
            digest = np.frombuffer(own, DIGEST_DTYPE).copy()
            digest["rank"] = rank
            for name in ("min_ns", "median_ns", "mean_ns", "p95_ns", "max_ns"):
                # Rank 0 is the slowest, so that its rows are asked for and can be made into others'.
                digest[name] *= 1 - 1e-3 * self._random.random() * (rank > 0)
            return digest.tobytes()
        if rank not in self._speakers:
            return b""
        rows = np.frombuffer(own, SAMPLE_DTYPE).copy()
        rows["rank"] = rank
        rows["elapsed_ns"] -= self._random.integers(0, 5000, len(rows))
        return rows.tobytes()

    def fail(self, message: str) -> NoReturn:
        raise SystemExit(message)

    def close(self) -> None:
        return


def as_told_by(member: Member, own: bytes) -> bytes:
    """What rank 0 says of itself and its host in ``describe``, as another member says it."""
    told, place = json.loads(own)
    told |= {"rank": member.rank, "host": member.host, "pid": member.pid, "local_rank": member.local_rank}
    told |= {"device_uuid": f"{IDENTITY.device_uuid[:-12]}{member.rank:012}", "library_path": PATH}
    place = {**place, "host": member.host} if member.local_rank == 0 else None  # a host's first one tells
    return json.dumps([{**told, "library_build_id": BUILD_ID}, place]).encode()


def sampled(samples: int, seed: int) -> Samples:
    """A case's samples on rank 0, with the noise of a real series, so that Parquet has something to pack."""
    random = np.random.default_rng(seed)
    own = (1e6 * np.exp(random.normal(0, 0.03, samples))).astype(np.int64)
    slowest, fastest = own + random.integers(0, 5000, samples), own - random.integers(0, 5000, samples)
    flags, skew = np.zeros(samples, np.int64), np.full(samples, -1, np.int64)
    across = Across(slowest, fastest, own // 3, flags, slowest, skew)
    return Samples(Taken(1, own, own // 4, across), 20, (StopReason.MAX_SAMPLES,))


def write_run(folder: Path, ranks: int, cases: int, samples: int) -> int:
    """What rank 0 does of a run but for measuring. Returns the bytes of the largest gather."""
    world, backend = ManyRanks(ranks), NullBackend()
    backend.identity = IDENTITY
    plan = make_plan(("all_reduce",), RunSettings(minbytes=Size(8), maxbytes=Size(8)), "null", ranks)
    plan = replace(plan, cases=tuple(replace(plan.cases[0], index=case) for case in range(cases)))
    writer = RunWriter(folder, empty_record(folder, plan))
    writer.describe(world=describe(world, backend))
    for case in range(cases):
        kept = retain(case, sampled(samples, case), world)
        writer.append(CaseResult(case, Status.GOOD, 1e6, samples=samples), kept.samples, kept.digests)
    writer.finish(RunStatus.COMPLETE, "2026-01-01T00:00:00.000+00:00")
    return world.gathered_bytes


def empty_record(folder: Path, plan: Plan) -> RunRecord:
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id=folder.name,
        busbw_version=__version__,
        created="2026-01-01T00:00:00.000+00:00",
        argv=("busbw", "run", "all_reduce"),
        settings={},
        plan=plan,
        status=RunStatus.RUNNING,
    )


def file_bytes(folder: Path) -> dict[str, int]:
    """Every file of the run by its name in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def peak_bytes(work: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:  # noqa: ANN401 (any work)
    """The result of ``work``, and how much more resident memory this process had at most than it has now."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far, proc_pid_clear_refs(5)
    before = status_bytes("VmRSS")
    result = work(*arguments)
    return result, status_bytes("VmHWM") - before


def status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def in_own_process(work: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:  # noqa: ANN401
    """Peak memory that nothing else has grown before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(peak_bytes, (work, *arguments))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2160)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args()
    asked = (options.ranks, options.cases, options.samples)
    with tempfile.TemporaryDirectory() as home:
        folder = create(Path(home), "run")
        gathered, rank_0 = in_own_process(write_run, folder, *asked)
        raw = file_bytes(folder)
        compacted, compaction = in_own_process(compact, folder)
        packed = file_bytes(folder)
    print("# {} ranks x {} cases x {} samples".format(*asked))
    total = options.ranks * options.cases * options.samples * SAMPLE_DTYPE.itemsize
    print(f"all samples of all ranks would be {total / 1e6:,.0f} MB")
    print(f"rank 0 holds at most {rank_0 / 1e6:,.1f} MB more; its largest gather is {gathered / 1e6:,.2f} MB")
    show("as the ranks leave it", raw)
    if compacted:
        print(f"compaction takes {compaction / 1e6:,.0f} MB in its process, polars included")
        show("compacted", packed)


def show(title: str, files: dict[str, int]) -> None:
    listed = ", ".join(f"{name} {nbytes / 1e6:,.2f}" for name, nbytes in files.items())
    print(f"{title}: {sum(files.values()) / 1e6:,.1f} MB ({listed})")


if __name__ == "__main__":
    main()
