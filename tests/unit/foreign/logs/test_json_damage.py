"""JSON reports that were cut: the good rows stay."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from busbw.model.record import RunRecord, RunStatus

ROWS = 12


def side(time: float, size: int, nwrong: int | None = 0) -> dict[str, Any]:
    algbw = size / time / 1e3
    return {"time": time, "alg_bw": algbw, "bus_bw": 1.5 * algbw, "nwrong": nwrong}


def nccl_tests() -> dict[str, Any]:
    device = {"group": 0, "pid": 1, "hostname": "h", "device_hex": "0x1", "device_info": "H100"}
    return {
        "version": 3,
        "start_time": "2026-11-21 18:00:00",
        "args": ["/x/all_reduce_perf", "-b", "8"],
        "env": ["A=b"],
        "nccl_version": 22707,
        "config": {"iterations": 20, "devices": [{"rank": r, "device": r, **device} for r in range(4)]},
        "results": [
            {
                "size": 1024 << k,
                "count": 256 << k,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": side(10.0 + k, 1024 << k),
                "in_place": side(11.0 + k, 1024 << k),
            }
            for k in range(ROWS)
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "end_time": "2026-11-21 18:00:01",
    }


def nccom_test() -> dict[str, Any]:
    return {
        "results": [
            {
                "size(B)": 1024 << k,
                "count(elems)": 256 << k,
                "type": "fp32",
                "algbw(GB/s)": (1024 << k) / (10 + k) / 1e3,
                "busbw(GB/s)": 1.5 * (1024 << k) / (10 + k) / 1e3,
                "time:avg(us)": 10.0 + k,
            }
            for k in range(ROWS)
        ]
    }


DOCUMENTS = {"nccl-tests": nccl_tests, "nccom-test": nccom_test}


def times(records: list[RunRecord]) -> set[tuple[int, str, float]]:
    return {
        (case.size_bytes, case.placement.value, result.time_ns)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_cut_file_keeps_its_good_rows(
    name: str, indent: int | None, imported: Callable[..., list[RunRecord]]
) -> None:
    text = json.dumps(DOCUMENTS[name](), indent=indent)
    whole = times(imported(text, op="all_reduce"))
    (record,) = imported(text[: int(len(text) * 0.9)], op="all_reduce")
    kept = times([record])
    assert kept < whole
    assert len(kept) >= len(whole) * 0.75
    assert record.status is RunStatus.INTERRUPTED
    assert "cut" in [finding.kind for finding in record.source.findings]
