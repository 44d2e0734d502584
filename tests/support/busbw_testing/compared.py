"""Records and logs to compare: with the times that a test gives."""

# ruff: noqa: E501 (tables have the width that their tools give them)

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from busbw.cli.main import main
from busbw.judge.references.reference import Point, Reference
from busbw.model.collective import collective
from busbw.model.record import SCHEMA_VERSION, HostInfo, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.record.folder import create
from busbw.record.write import write_record

if TYPE_CHECKING:
    import pytest

HEADING = (
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)


# A short series of setups on an engine.
SERIES = (
    *("--ops", "all_reduce", "-b", "1K", "-e", "1K", "-n", "20", "-c", "0", "--backend", "mpi"),
    *("--blocks", "1", "--launch-timeout", "25s", "--order-seed", "1", "--format", "json"),
)


def setups_of_which_one_hangs(folder: Path, *variables: str) -> Path:
    """A file of setups. Ranks of ``hanging``, known by any of the ``variables``, never come to their first
    word; whoever starts them does.
    """
    is_rank = " or ".join(f"{name!r} in os.environ" for name in variables)
    write(folder / "stuck" / "sitecustomize.py", f"import os, time\nif {is_rank}: time.sleep(600)\n")
    return write(
        folder / "setups.yaml",
        'setups: {plain: {}, tcp: {env: {MPIR_CVAR_NOLOCAL: "1"}},'
        f" hanging: {{prepend: {{PYTHONPATH: {folder}/stuck}}}}}}",
    )


def record_of(
    times_us: Mapping[int, float | Sequence[float]],
    *,
    operation: str = "all_reduce",
    ranks: int = 2,
    within: float = 0.01,
    device: str = "Xeon",
    version: str = "5.0.2",
    hosts: int = 1,
    algorithm: str = "",
    name: str = "run",
    plan: Mapping[str, Any] | None = None,
    place: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    **fields: Any,
) -> RunRecord:
    """A finished run of busbw: for each size its out-of-place time, or the times of several launches.

    ``within`` is the relative half-width of a single launch's interval. ``plan`` has fields of the plan that
    are otherwise, ``place`` those of every host; ``variables`` were set.
    """
    sizes = sorted(times_us)
    settings = RunSettings(minbytes=Size(str(sizes[0])), maxbytes=Size(str(sizes[-1])), stepfactor=2.0)
    made = make_plan((operation,), settings, "null", ranks)
    cases = [case for case in made.cases if case.size_bytes in times_us and not case.in_place]
    cases = [replace(case, index=index) for index, case in enumerate(cases)]
    results = [_result(i, times_us[case.size_bytes], case.size_bytes, operation, ranks, within, algorithm)
               for i, case in enumerate(cases)]  # fmt: skip
    infos = tuple(
        RankInfo(
            rank, f"node{rank * hosts // ranks}", 1, rank, device, library="MPI", library_version=version
        )
        for rank in range(ranks)
    )
    places = tuple(HostInfo(host, **place) for host in dict.fromkeys(each.host for each in infos) if place)
    if variables is not None:
        fields["environment"] = {"variables": dict(variables)}
    return RunRecord(
        schema=SCHEMA_VERSION, run_id=name, busbw_version="0", created="2026-11-22T00:00:00+00:00", argv=(),
        settings={}, plan=replace(made, cases=tuple(cases), **(plan or {})), status=RunStatus.COMPLETE, method=Method(),
        world=WorldInfo("mpi", "test", ranks, infos, places), results=tuple(results), **fields,
    )  # fmt: skip


def _result(
    index: int,
    times: float | Sequence[float],
    size: int,
    operation: str,
    ranks: int,
    within: float,
    algorithm: str,
) -> CaseResult:
    several = [times] if isinstance(times, (int, float)) else list(times)
    time_ns = median(several) * 1e3
    algbw = size / time_ns
    evidence = {"launch_times_ns": [time * 1e3 for time in several]} if len(several) > 1 else {}
    busbw = algbw * collective(operation).busbw_factor(ranks) if ranks > 1 else None
    return CaseResult(
        index, Status.GOOD, time_ns, time_ns * (1 - within), time_ns * (1 + within), time_ns, algbw, busbw, 40,
        evidence=evidence, algorithm=algorithm,
    )  # fmt: skip


def launches(median: float, n: int, seed: int, spread: float = 0.01, drift: float = 0.0) -> list[float]:
    """Times of launches that scatter by so much, each slower than the one before by ``drift``."""
    draw = random.Random(seed)
    return [median * math.exp(draw.gauss(0, spread) + drift * block) for block in range(n)]


def reference_of(times_us: Mapping[int, Sequence[float]], **fields: Any) -> Reference:
    """What was saved of such runs: for each size the times of its launches, the bandwidth of the median one."""
    plain = Reference(
        name="known", kind="saved", ranks=2, nodes=1, date="2026-11-22", source="here", definition="busbw",
        points=(), operation="all_reduce", device="Xeon", versions={"MPI": "5.0.2"}, dtype="float", op="sum",
    )  # fmt: skip
    known = replace(plain, **fields)
    factor = collective("all_reduce").busbw_factor(known.ranks)
    points = (
        Point(size, "out-of-place", factor * size / median(times) / 1e3, tuple(times))
        for size, times in times_us.items()
    )
    return replace(known, points=fields.get("points", tuple(points)))


def nccl_tests_log(
    busbw_gb_per_s: Mapping[int, float], ranks: int, operation: str = "all_reduce", *, devices: bool = True
) -> str:
    """A log of nccl-tests with these bus bandwidths at these sizes, in both placements."""
    row = collective(operation)
    factor = row.busbw_factor(ranks)
    lines = ["# nThread 1 nGpus 1 minBytes 4 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20"]
    if devices:
        lines += [
            f"#  Rank {rank:2} Group  0 Pid   {100 + rank} on node{rank // 4} device  {rank % 4} [0x01] NVIDIA A100-SXM4-40GB"
            for rank in range(ranks)
        ]  # fmt: skip
    lines += HEADING.splitlines()
    for size, busbw in busbw_gb_per_s.items():
        algbw = busbw / factor
        time_us = size / algbw / 1e3
        side = f"{time_us:>8.1f}  {algbw:>6.2f}  {busbw:>6.2f}      0"
        count = size // 4 // (1 if operation == "all_reduce" else ranks)
        op = "sum" if row.reducing else "none"
        lines.append(f"{size:>12}  {count:>12}     float  {op:>6}      -1  {side}  {side}")
    mean = sum(busbw_gb_per_s.values()) / len(busbw_gb_per_s)
    return (
        "\n".join([*lines, "# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {mean:g} ", "#"])
        + "\n"
    )


def write(path: Path, text: str) -> Path:
    """A file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def stored(home: Path, name: str, times_us: Mapping[int, float | Sequence[float]], **fields: Any) -> Path:
    """A run folder in ``home`` with ``record_of`` these."""
    folder = create(home, name)
    write_record(folder, record_of(times_us, name=name, **fields))
    return folder


def csv_rows(text: str) -> list[dict[str, str]]:
    """What was printed with --format csv, a line each."""
    return list(csv.DictReader(io.StringIO(text)))


def compare(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """``busbw compare`` in this process: exit code and standard output."""
    return _called(capsys, "compare", *words)


def expect(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """``busbw expect``, the same way."""
    return _called(capsys, "expect", *words)


def _called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(map(str, words)))
    return code, capsys.readouterr().out
