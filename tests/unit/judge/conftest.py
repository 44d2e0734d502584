"""Run folders as rank 0 writes them, with samples whose answers are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from busbw.model.plan import Plan, Timing
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, MIN_OVER_RANKS, SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.record.folder import create
from busbw.record.write import RunWriter

RUN_ID = "20260102-030405-all_reduce-00ff"


Rows = Callable[..., np.ndarray]


@pytest.fixture
def sample_rows() -> Rows:
    """Kept rows of own_ns[rank, sample] (of k calls): the maximum and minimum over ranks, then raw ones."""

    def rows_of(
        own_ns: np.ndarray, *, case: int = 0, k: int = 1, raw: tuple[int, ...] | None = None
    ) -> np.ndarray:
        parts = {MAX_OVER_RANKS: own_ns.max(axis=0), MIN_OVER_RANKS: own_ns.min(axis=0)}
        parts |= {rank: own_ns[rank] for rank in (range(len(own_ns)) if raw is None else raw)}
        rows = np.zeros(len(parts) * own_ns.shape[1], SAMPLE_DTYPE)
        rows["case"], rows["k"] = case, k
        rows["rank"] = np.repeat(list(parts), own_ns.shape[1])
        rows["sample"] = np.tile(np.arange(own_ns.shape[1]), len(parts))
        rows["elapsed_ns"] = rows["issue_ns"] = np.concatenate(list(parts.values()))
        return rows

    return rows_of


@pytest.fixture
def digest_rows() -> Rows:
    """Digests of own_ns[rank, sample]."""

    def rows_of(own_ns: np.ndarray, *, case: int = 0, k: int = 1) -> np.ndarray:
        rows = np.zeros(len(own_ns), DIGEST_DTYPE)
        rows["case"], rows["rank"], rows["samples"] = case, np.arange(len(own_ns)), own_ns.shape[1]
        low, median, p95, high = np.percentile(own_ns / k, (0, 50, 95, 100), axis=1)
        rows["min_ns"], rows["median_ns"], rows["p95_ns"], rows["max_ns"] = low, median, p95, high
        rows["mean_ns"] = own_ns.mean(axis=1) / k
        return rows

    return rows_of


@pytest.fixture
def make_record() -> Callable[..., RunRecord]:
    """A record of so many ranks, two to a host, in a mode."""

    def make(
        ranks: int = 4, operations: tuple[str, ...] = ("all_reduce",), mode: str = "latency"
    ) -> RunRecord:
        plan: Plan = make_plan(
            operations, RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=11), "null", ranks
        )
        plan = replace(plan, timing=Timing(mode=mode))
        infos = tuple(RankInfo(i, f"node{i // 2}", 50 + i, i % 2, device=f"GPU {i}") for i in range(ranks))
        return RunRecord(
            schema=SCHEMA_VERSION,
            run_id=RUN_ID,
            busbw_version="0.1",
            created="2026-01-02T03:04:05.000+00:00",
            argv=("busbw", "run"),
            settings={},
            plan=plan,
            status=RunStatus.COMPLETE,
            method=Method(mode=mode),
            world=WorldInfo("nccl", "busbw", ranks, infos),
        )

    return make


@pytest.fixture
def result() -> CaseResult:
    return CaseResult(
        0, Status.GOOD, 2000.0, 1990.0, 2010.0, 2005.0, 0.5, 0.75, 8, 1, 20, StopReason.PRECISION, 0
    )


@pytest.fixture
def late() -> np.ndarray:
    """own_ns[rank, sample] of single all_reduce calls of 20 us to which rank 2 comes 200 us late."""
    rng = np.random.default_rng(7)
    arrival = rng.normal(0, 1_000, (4, 300)) + np.array([0, 0, 200_000, 0])[:, None]
    end = arrival.max(axis=0) + 20_000
    return np.rint(end - arrival).astype(np.int64)


@pytest.fixture
def written(
    tmp_path: Path,
    make_record: Callable[..., RunRecord],
    result: CaseResult,
    late: np.ndarray,
    sample_rows: Rows,
    digest_rows: Rows,
) -> Path:
    """The folder of a run whose first of four cases is that of ``late``."""
    folder = create(tmp_path, RUN_ID)
    RunWriter(folder, make_record()).append(result, sample_rows(late), digest_rows(late))
    return folder
