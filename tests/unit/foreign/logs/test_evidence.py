"""What NCCL's own lines tell is kept, as far as a log can go."""

from __future__ import annotations

from busbw.foreign.logs.context import Evidence
from busbw.model.tuning_line import tuning_lines

INFO = "node0:1:1 [0] NCCL INFO "


def taken(*lines: str) -> Evidence:
    evidence = Evidence()
    for line in lines:
        assert Evidence.is_one(INFO + line)
        evidence.take(INFO + line)
    return evidence


def test_lines_of_calls_are_kept_in_nccls_own_words() -> None:
    new = "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
    assert Evidence.is_of_a_call(INFO + new)
    assert not Evidence.is_of_a_call(INFO + "Using network IB")
    found = taken(new, new, "8 Bytes -> Algo 0 proto 2 time 12.5").as_dict()
    assert found == {"algorithm": [new, "8 Bytes -> Algo 0 proto 2"]}


def test_kept_lines_of_copy_engines_are_read_again() -> None:
    found = taken("AllGather [Hierarchical CE]: 1048576 Bytes -> RMA proxy + CE").as_dict()
    assert [line.choice.algorithm for text in found["algorithm"] for line in tuning_lines(text)] == [
        "HIERARCHICAL CE"
    ]
