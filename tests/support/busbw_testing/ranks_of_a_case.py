"""Samples and digests of the ranks of one case, with known answers, and a record to go with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from busbw.model.plan import Timing
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, MIN_OVER_RANKS, SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan

RUN_ID = "20260102-030405-all_reduce-00ff"
RESULT = CaseResult(
    0, Status.GOOD, 2000.0, 1990.0, 2010.0, 2005.0, 0.5, 0.75, 8, 1, 20, StopReason.PRECISION, 0
)


def arrivals(
    late_ns: list[float], *, call_ns: float = 20_000, samples: int = 300, seed: int = 3
) -> np.ndarray:
    """own_ns[rank, sample] of single calls that none leaves before the last one has come: noise of 1 us."""
    rng = np.random.default_rng(seed)
    arrival = rng.normal(0, 1_000, (len(late_ns), samples)) + np.array(late_ns)[:, None]
    return np.rint(arrival.max(axis=0) + call_ns - arrival).astype(np.int64)


LATE = arrivals([0, 0, 200_000, 0], seed=7)


def sample_rows(own_ns: np.ndarray, *, k: int = 1, raw: tuple[int, ...] | None = None) -> np.ndarray:
    """Kept rows of own_ns[rank, sample] (of k calls): the maximum and minimum over ranks, then raw ones."""
    parts = {MAX_OVER_RANKS: own_ns.max(axis=0), MIN_OVER_RANKS: own_ns.min(axis=0)}
    parts |= {rank: own_ns[rank] for rank in (range(len(own_ns)) if raw is None else raw)}
    rows = np.zeros(len(parts) * own_ns.shape[1], SAMPLE_DTYPE)
    rows["k"] = k
    rows["rank"] = np.repeat(list(parts), own_ns.shape[1])
    rows["sample"] = np.tile(np.arange(own_ns.shape[1]), len(parts))
    rows["elapsed_ns"] = rows["issue_ns"] = np.concatenate(list(parts.values()))
    return rows


def digest_rows(own_ns: np.ndarray, *, k: int = 1) -> np.ndarray:
    """Digests of own_ns[rank, sample]."""
    rows = np.zeros(len(own_ns), DIGEST_DTYPE)
    rows["rank"], rows["samples"] = np.arange(len(own_ns)), own_ns.shape[1]
    low, median, p95, high = np.percentile(own_ns / k, (0, 50, 95, 100), axis=1)
    rows["min_ns"], rows["median_ns"], rows["p95_ns"], rows["max_ns"] = low, median, p95, high
    rows["mean_ns"] = own_ns.mean(axis=1) / k
    return rows


def make_record(ranks: int = 4, operation: str = "all_reduce", mode: str = "latency") -> RunRecord:
    """A record of so many ranks, two to a host, in a mode."""
    plan = make_plan(
        (operation,), RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=11), "null", ranks
    )
    infos = tuple(RankInfo(i, f"node{i // 2}", 50 + i, i % 2, device=f"GPU {i}") for i in range(ranks))
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id=RUN_ID,
        busbw_version="0.1",
        created="2026-01-02T03:04:05.000+00:00",
        argv=("busbw", "run"),
        settings={},
        plan=replace(plan, timing=Timing(mode=mode)),
        status=RunStatus.COMPLETE,
        method=Method(mode=mode),
        world=WorldInfo("nccl", "busbw", ranks, infos),
    )
