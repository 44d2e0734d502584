from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.record.folder import create


@pytest.fixture
def plan() -> Plan:
    settings = RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=11)
    return make_plan(("all_reduce", "sendrecv"), settings, "null", 2)


@pytest.fixture
def record(plan: Plan) -> RunRecord:
    ranks = tuple(RankInfo(i, "node1", 50 + i, i, library="null", facts={"x": 1.5}) for i in range(2))
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id="20260102-030405-all_reduce-00ff",
        busbw_version="0.1",
        created="2026-01-02T03:04:05.000+00:00",
        argv=("busbw", "run", "all_reduce"),
        settings={"minbytes": "1K", "seed": None},
        plan=plan,
        status=RunStatus.RUNNING,
        method=Method(),
        world=WorldInfo("nccl", "busbw", 2, ranks),
        machine={"cores": 4},
        environment={"NCCL_DEBUG": "INFO"},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create(tmp_path, "20260102-030405-all_reduce-00ff")


@pytest.fixture
def samples() -> np.ndarray:
    rows = np.zeros(6, SAMPLE_DTYPE)
    rows["case"], rows["rank"], rows["sample"], rows["k"] = 0, [-1, -1, -1, 0, 0, 0], [0, 1, 2] * 2, 4
    rows["elapsed_ns"] = np.arange(6) + 2**40
    return rows


@pytest.fixture
def digests() -> np.ndarray:
    rows = np.zeros(2, DIGEST_DTYPE)
    rows["rank"], rows["median_ns"] = [0, 1], [10.5, 11.25]
    return rows
