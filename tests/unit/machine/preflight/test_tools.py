"""What other tools print, in the shapes of their sources; none of them runs here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.machine.preflight.deep import read_dcgmi, read_ib_write_bw, read_nvbandwidth


def dcgm(root: str, *results: dict[str, Any]) -> str:
    tests = [{"name": "PCIe", "results": list(results)}, None]
    body = {root: {"test_categories": [{"category": "Integration", "tests": tests}]}, "metadata": {"v": "4"}}
    return json.dumps(body)


@pytest.mark.parametrize("root", ["DCGM GPU Diagnostic", "DCGM Diagnostic"])
def test_a_diagnostic_that_passes(root: str) -> None:
    report = read_dcgmi(dcgm(root, {"gpu_ids": "0,1", "status": "PASS"}, {"gpu_ids": "2", "status": "Skip"}))
    assert (report.problems, report.remarks) == ((), ())


def test_a_failure_of_dcgm_3() -> None:
    report = read_dcgmi(
        "some words before\n"
        + dcgm("DCGM GPU Diagnostic", {"gpu_ids": "3", "status": "Fail", "warnings": ["too slow"]})
    )
    assert report.problems == ("PCIe GPU 3: too slow",)


def test_a_failure_of_dcgm_4() -> None:
    warning = {"error_id": 29, "warning": "GPU 5's bandwidth is 3 GB/s"}
    result = {"entity_group": "GPU", "entity_id": 5, "status": "Fail", "warnings": [warning]}
    report = read_dcgmi(dcgm("DCGM Diagnostic", result))
    assert report.problems == ("PCIe GPU 5: GPU 5's bandwidth is 3 GB/s",)


def test_persistence_mode_is_a_remark() -> None:
    warning = {"warning": "Persistence Mode: it is off"}
    report = read_dcgmi(dcgm("DCGM Diagnostic", {"entity_id": 0, "status": "Fail", "warnings": [warning]}))
    assert report.problems == ()
    assert report.remarks == ("PCIe entity 0: Persistence Mode: it is off",)


@pytest.mark.parametrize("text", ["", "{broken", '{"version": "4"}', "dcgmi did not end within 180 s"])
def test_a_diagnostic_that_did_not_run_is_a_problem(text: str) -> None:
    report = read_dcgmi(text)
    assert report.problems
    assert not report.ran


@pytest.mark.parametrize(
    "text",
    [
        "Error: unable to establish a connection to the specified host: localhost\n",
        "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n",
        '{"DCGM Diagnostic": {"runtime_error": "Unable to connect to host engine."}}',
    ],
)
def test_a_service_that_does_not_run_is_no_failure(text: str) -> None:
    report = read_dcgmi(text)
    assert report.problems == ()
    assert report.left_out == "nv-hostengine does not answer"


def test_bandwidths_of_nvbandwidth() -> None:
    cases = [
        {
            "name": "host_to_device_memcpy_ce",
            "status": "Passed",
            "bandwidth_matrix": [["55.1", "55.3", "12.9"]],
            "sum": 165.3,
        },
        {
            "name": "device_to_device_memcpy_read_ce",
            "status": "Passed",
            "bandwidth_matrix": [["N/A", "390.5"], ["391.5", "N/A"]],
        },
        {"name": "host_device_latency_sm", "status": "Passed", "bandwidth_matrix": [["772.5"]]},
        {"name": "device_to_device_memcpy_write_ce", "status": "Waived"},
        {"name": "all_to_host_memcpy_ce", "status": "Error", "error": "CUDA_ERROR_ECC_UNCORRECTABLE"},
    ]
    report = read_nvbandwidth(json.dumps({"nvbandwidth": {"git_version": "v0.8", "testcases": cases}}))
    assert report.values == {"host_to_device_memcpy_ce": 12.9, "device_to_device_memcpy_read_ce": 390.5}
    assert report.problems == ("all_to_host_memcpy_ce: CUDA_ERROR_ECC_UNCORRECTABLE",)
    assert report.remarks == ("host_to_device_memcpy_ce: one GPU reaches 12.9 GB/s, the median is 55.1",)


def test_nvbandwidth_without_a_driver() -> None:
    assert read_nvbandwidth('{"nvbandwidth": {"error": "CUDA driver is insufficient"}}').problems == (
        "CUDA driver is insufficient",
    )
    assert read_nvbandwidth("no such thing").problems == ("no such thing",)


IB = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Link type       : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.66             392.00             0.747681
---------------------------------------------------------------------------------------
"""


def test_the_rate_of_ib_write_bw() -> None:
    report = read_ib_write_bw(IB, "mlx5_0")
    assert report.values == {"mlx5_0": 49.0}
    assert report.problems == ()


def test_ib_write_bw_without_a_row() -> None:
    report = read_ib_write_bw(" Unable to find the Infiniband/RoCE device\n", "mlx5_9")
    assert report.problems == ("mlx5_9: Unable to find the Infiniband/RoCE device",)
