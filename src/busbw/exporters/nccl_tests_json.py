"""The file of ``nccl-tests -J``, version 3 of its shape (src/util.cu of 2.19.6), with all digits.

Where nccl-tests has no numbers of a placement, the placement is null, and so is it here. What the shape has
no place for stands under ``busbw``, which readers of the original do not look at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from busbw.exporters.nccl_tests import (
    LAYOUT,
    NO_NUMBER,
    NO_OPERATION,
    nccl_version_code,
    program,
    wrong_cases,
)
from busbw.exporters.options import bus_id, device_number, group, options, options_notes
from busbw.exporters.remarks import BANDWIDTH, described_ranks, notes, reason, remarks, time_words
from busbw.exporters.rows import Row, Table, average_busbw_gb_per_s
from busbw.model.record import RankInfo, RunRecord
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

SHAPE_VERSION: Final = 3


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The only table as one document."""
    (table,) = tables
    average, counted = average_busbw_gb_per_s(table.results)
    wrong = wrong_cases(table)
    variables = record.environment.get("variables", {})
    document = {
        "version": SHAPE_VERSION,
        "start_time": _local_form(record.created),
        "args": [program(table.collective)],
        "env": [f"{name}={value}" for name, value in variables.items()],
        "nccl_version": nccl_version_code(_first(record)),
        "config": _config(record, table),
        "results": [_row(row) for row in table.rows],
        "out_of_bounds": {"count": wrong, "okay": _bool(not wrong)},
        "average_bus_bandwidth": {
            "bandwidth": NO_NUMBER if average is None else average,
            "okay": "unchecked",
        },
        "errors": [record.error] if record.error else [],
        "end_time": _local_form(record.ended),
        "busbw": _own(record, table, counted),
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def _own(record: RunRecord, table: Table, counted: int) -> dict[str, Any]:
    return {
        "collective": table.collective,
        "run_id": record.run_id,
        "status": record.status.value,
        "argv": record.argv,
        "time_is": f"{time_words(record)}; of one call, in us",
        "bandwidth_is": BANDWIDTH,
        "clock_is": "start_time and end_time in UTC",
        "average_is": f"plain mean over {counted} of {len(table.results)} cases, all sizes",
        "notes": [
            *notes(record, f"{LAYOUT} -J"),
            *options_notes(options(record, table)),
            *remarks(table.rows),
        ],
    }


def _first(record: RunRecord) -> RankInfo | None:
    return record.world.ranks[0] if record.world is not None and record.world.ranks else None


def _bool(value: bool) -> str:
    return "true" if value else "false"  # nccl-tests writes its booleans as text


def _local_form(stamp: str) -> str | None:
    """2026-11-21 18:15:02 of an ISO 8601 time, in UTC; the text itself where it is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp or None
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M:%S")


def _config(record: RunRecord, table: Table) -> dict[str, Any]:
    asked = options(record, table)
    return {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": asked.min_bytes,
        "maximum_bytes": asked.max_bytes,
        f"step_{asked.step_kind}": asked.step,
        "warmup_iters": asked.warmup_iters,
        "iterations": asked.iters,
        "aggregated_iterations": asked.agg_iters,
        "validation": asked.validation,
        "graph": asked.graph,
        "blocking_collectives": _bool(record.plan.timing.mode == "latency"),
        "per_iter_timing": "false",
        "per_iter_skip": 0,
        "parallel_init": "false",
        "devices": [_device(record, info) for info in described_ranks(record)],
    }


def _device(record: RunRecord, info: RankInfo) -> dict[str, Any]:
    return {
        "rank": info.rank,
        "group": group(record, info),
        "pid": info.pid,
        "hostname": info.host,
        "device": device_number(info),
        "device_hex": bus_id(info),
        "device_info": info.device,
    }


def _row(row: Row) -> dict[str, Any]:
    case = row.case
    calls = [result.samples * result.calls_per_sample for result in row.results]
    return {
        "size": case.size_bytes,
        "count": case.count,
        "type": case.dtype,
        "redop": case.op or NO_OPERATION,
        "root": f"{case.root:6d}",  # text of this width, as nccl-tests has it
        "out_of_place": _numbers(row.out_of_place),
        "in_place": _numbers(row.in_place),
        "actual_iterations": max(calls, default=0),
        "experiment_name": "",
        "busbw": {
            "cycle": case.cycle,
            "out_of_place": _behind(row.out_of_place),
            "in_place": _behind(row.in_place),
        },
    }


def _numbers(result: CaseResult | None) -> dict[str, Any] | None:
    if result is None or result.time_ns is None:
        return None
    return {
        "time": result.time_ns / NS_PER_US,
        "alg_bw": NO_NUMBER if result.algbw_gb_per_s is None else result.algbw_gb_per_s,
        "bus_bw": NO_NUMBER if result.busbw_gb_per_s is None else result.busbw_gb_per_s,
        "nwrong": None if result.wrong is None else float(result.wrong),
    }


def _behind(result: CaseResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    fields = asdict(result)
    names = ("low_ns", "high_ns", "mean_ns", "samples", "calls_per_sample", "wrong", "marks")
    why = reason(result) if result.status is not Status.GOOD else ""
    return {"status": result.status.value, **{name: fields[name] for name in names}, "reason": why}
