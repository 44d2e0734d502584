"""NCCL's lines about calls, in the words of every version."""

from __future__ import annotations

import pytest

from busbw.model.tuning_line import tuning_lines

# Line, function, size on 4 ranks, what was chosen, channels.
FORMS = (
    ("8 Bytes -> Algo 0 proto 0 time 12.5", "", 8, "TREE LL", None),
    ("AllGather: 4096 Bytes -> Algo 1 proto 2 time 9.1", "AllGather", 4096, "RING SIMPLE", None),
    ("AllReduce: 8 Bytes -> Algo 9 proto 7 time 12.5", "AllReduce", 8, "9 7", None),
    ("AllReduce: 8 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}", "AllReduce", 8, "RING LL128", 16),
    ("AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={2..3} cgaClusterSize 4",
     "AllGather", 16384, "RING LL", 2),
    ("ReduceScatter [Symmetric]: 64 Bytes -> Kernel ReduceScatter_LD nchannels 16 nthreads 512 nWorks 1",
     "ReduceScatter", 256, "SYMMETRIC ReduceScatter_LD", 16),
    ("AllGather [Copy Engine]: 64 Bytes -> cudaMemcpyBatchAsync", "AllGather", 256, "COPY ENGINE", None),
    ("AllGather [Hierarchical CE]: 64 Bytes -> Rail RMA proxy + CE", "AllGather", 256,
     "HIERARCHICAL CE", None),
)  # fmt: skip


@pytest.mark.parametrize(("line", "function", "size", "words", "channels"), FORMS)
def test_lines_of_all_versions(line: str, function: str, size: int, words: str, channels: int | None) -> None:
    (told,) = tuning_lines(f"node0:1:1 [0] NCCL INFO {line}\n")
    assert (told.function, told.size_bytes(4)) == (function, size)
    assert (told.choice.words, told.choice.channels) == (words, channels)


def test_a_part_has_no_size_without_ranks() -> None:
    part, whole = tuning_lines(
        "AllGather: 8 Bytes -> Algo RING proto LL\nAllReduce: 8 Bytes -> Algo RING proto LL"
    )
    assert (part.size_bytes(0), whole.size_bytes(0)) == (None, 8)


def test_other_lines_tell_nothing() -> None:
    assert tuning_lines("n:1:1 [0] NCCL INFO 8 Bytes -> somewhere, 8 Bytes are free") == []
