"""Exports of Nsight Systems: kernels by rank and size, NICs, and files that are none."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest
from busbw_testing.nsys import Recorded

from busbw.errors import UsageError
from busbw.foreign.nsys.read import read_profile
from busbw.model.profile import Join, KernelName

RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
OWN = "all_reduce float sum 26214400 B in-place"


def test_a_kernel_gets_the_size_of_the_call_that_launched_it(tmp_path: Path) -> None:
    recorded = Recorded(rank=3, host="gpu3")
    recorded.communicator()
    for duration in (1_860_000, 1_900_000):
        recorded.call(RING, duration, size_bytes=26_214_400)
    recorded.call(RING, 700, size_bytes=1024)
    recorded.call("ampere_sgemm_128x64", 5_000)
    profile = read_profile(recorded.write(tmp_path / "some.sqlite"))
    assert (profile.version, profile.host, profile.join) == ("2025.4.1.136", "gpu3", Join.LAUNCH)
    found = {each.size_bytes: each for each in profile.kernels}
    assert found[26_214_400].durations_ns == (1_860_000, 1_900_000)
    assert found[1024].durations_ns == (700,)
    assert {each.rank for each in profile.kernels} == {3}


def test_busbws_own_range_counts_before_nccls_and_knows_the_placement(tmp_path: Path) -> None:
    recorded = Recorded()
    recorded.communicator()
    recorded.call(RING, 1_000, size_bytes=26_214_400, own=OWN)
    (kernels,) = read_profile(recorded.write(tmp_path / "x.sqlite")).kernels
    assert (kernels.size_bytes, kernels.placement) == (26_214_400, "in-place")


def test_nccls_size_of_one_part_becomes_that_of_nccl_tests(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllGather_RING_LL"
    recorded = Recorded(ranks=8)
    recorded.communicator()
    recorded.call(name, 1_000, size_bytes=1024, nccl="ncclAllGather")
    (kernels,) = read_profile(recorded.write(tmp_path / "x.sqlite")).kernels
    assert (kernels.size_bytes, kernels.is_part) == (8192, False)
    unknown = Recorded()
    unknown.call(name, 1_000, size_bytes=1024)
    (kernels,) = read_profile(unknown.write(tmp_path / "rank-00005-n.sqlite")).kernels
    assert (kernels.size_bytes, kernels.is_part, kernels.rank) == (1024, True, 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (RING, KernelName("AllReduce", "f32", False)),
        ("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(Args4K)", KernelName("AllReduce", "bf16", True)),
        ("ncclDevKernel_ReduceScatter_Sum_f8e4m3_RING_LL", KernelName("ReduceScatter", "f8e4m3", False)),
        ("ncclDevKernel_AllGather_RING_LL", KernelName("AllGather", "", False)),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", KernelName("SendRecv")),
        ("ncclKernel_AllReduce_TREE_LL_Sum_half", KernelName("AllReduce", "half", True)),
        ("void cutlass::Kernel<RING_LL>", None),
    ],
)  # fmt: skip
def test_a_name_tells_three_things_and_no_more(name: str, expected: KernelName | None) -> None:
    assert KernelName.read(name) == expected
    assert [each.name for each in fields(KernelName)] == ["collective", "type_class", "is_tree"]


def test_infiniband_in_bytes_and_in_rates(tmp_path: Path) -> None:
    recorded = Recorded(host="n1")
    recorded.infiniband("mlx5_0", 1, "IB: Bytes sent", [0, 40_000_000, 42_000_000])
    recorded.infiniband("mlx5_1", 2, "IB: Bytes received", [0, 0, 0])
    recorded.infiniband("mlx5_1", 2, "IB: Send wait", [9, 9, 9], unit="ticks")
    first, second = read_profile(recorded.write(tmp_path / "x.sqlite")).nics
    assert (first.host, first.device, first.counter) == ("n1", "mlx5_0 port 1", "IB: Bytes sent")
    assert first.gb_per_s == (0.0, 40.0, 42.0)
    assert second.gb_per_s == (0.0, 0.0, 0.0)
    rates = Recorded()
    rates.infiniband("mlx5_0", 1, "IB: Bytes sent", [3350], unit="MB/s")
    (nic,) = read_profile(rates.write(tmp_path / "y.sqlite")).nics
    assert nic.gb_per_s == (3.35,)


def test_efa_as_counts_and_as_rates(tmp_path: Path) -> None:
    counts = Recorded()
    for at, value in enumerate(range(5, 2_000_000_000, 335_000_000)):
        counts.generic({"Device": "rdmap16s27", "rdma_read_bytes": value, "lifespan": 12}, at * 100_000_000)
    (nic,) = read_profile(counts.write(tmp_path / "x.sqlite")).nics
    assert (nic.device, nic.counter, nic.gb_per_s) == ("rdmap16s27", "rdma_read_bytes", (3.35,) * 5)
    rates = Recorded()
    for at, value in enumerate((0.0, 3.35e9, 3.3e9)):
        rates.generic({"rdmap32s27 rdma_read_resp_bytes": value}, at * 100_000_000)
    (nic,) = read_profile(rates.write(tmp_path / "y.sqlite")).nics
    assert (nic.device, nic.counter) == ("rdmap32s27", "rdma_read_resp_bytes")
    assert nic.gb_per_s == pytest.approx((0.0, 3.35, 3.3))


@pytest.mark.parametrize(
    "values", [(3.35e9,), (3.35e9,) * 3, (1e12, 1.1e12), (0.0, 3.3e9, 3.4e9), (0.0, 0.0, 3.3e9, 3.3e9)]
)
def test_values_of_efa_that_can_be_either_are_undecided(values: tuple[float, ...], tmp_path: Path) -> None:
    recorded = Recorded()
    for at, value in enumerate(values):
        recorded.generic({"Device": "rdmap16s27", "rdma_read_bytes": value}, at * 100_000_000)
    (nic,) = read_profile(recorded.write(tmp_path / "x.sqlite")).nics
    assert nic.gb_per_s == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it has no tables"),
        (b"NVIDIA report", "file is not a database"),
        (b"SQLite format 3\x00" + b"\xff" * 4096, "cannot read"),
    ],
)
def test_files_that_are_no_databases(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        read_profile(path)
    assert "nsys export" in caught.value.hint


def test_foreign_missing_and_cut_databases(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE moz_places (id INTEGER, start INTEGER)")
    database.close()
    with pytest.raises(
        UsageError, match=r"not an export of Nsight Systems: it has tables such as moz_places"
    ):
        read_profile(tmp_path / "other.sqlite")
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(tmp_path / "missing.sqlite")
    recorded = Recorded()
    for _ in range(500):
        recorded.call(RING, 1_000, size_bytes=8)
    whole = recorded.write(tmp_path / "whole.sqlite").read_bytes()
    for share in (0.2, 0.5, 0.9):
        (tmp_path / "cut.sqlite").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(UsageError, match="cannot read"):
            read_profile(tmp_path / "cut.sqlite")


def test_a_word_where_a_number_belongs_is_damage(tmp_path: Path) -> None:
    recorded = Recorded()
    recorded.call(RING, 1_000, size_bytes=8)
    recorded.rows["CUPTI_ACTIVITY_KIND_KERNEL"][0]["end"] = "soon"
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(recorded.write(tmp_path / "x.sqlite"))


def test_tables_and_columns_of_other_versions(tmp_path: Path) -> None:
    bare = read_profile(Recorded().write(tmp_path / "bare.sqlite"))
    assert (bare.kernels, bare.nics) == ((), ())
    assert [note.partition(":")[0] for note in bare.notes] == [
        "no kernels were traced",
        "no NIC was sampled",
    ]
    recorded = Recorded()
    recorded.call(RING, 1_000, size_bytes=8)
    path = recorded.write(tmp_path / "old.sqlite", drop_columns={"NVTX_EVENTS": "jsonText"})
    profile = read_profile(path)
    assert [each.size_bytes for each in profile.kernels] == [None]
    assert any("--include-blobs true" in note for note in profile.notes)
