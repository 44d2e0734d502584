"""Faults of a library, put into MPI_Allreduce by a preloaded shim: every one is found in every case. What is
not found stands in the table of docs/concepts/what-a-check-sees.md with the reason.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

TYPES: Final = ("float", "double", "half", "bfloat16", "int8")
OPS: Final = ("sum", "prod", "min", "max", "avg")
FAULTS: Final = {
    "last bit": "wrong, first at element 3",
    "truncated mantissa": "wrong, first at element",
    "stale": "wrong, first at element 0",
    "dropped contribution": "wrong, first at element",
    "later call only": "in the check after the timed calls",
    "past the end": "wrote 16 bytes past the receive buffer",
    "before the start": "wrote 16 bytes before the receive buffer",
    "send buffer changed": "changed the send buffer",
}


def found(launcher: Any, shim: str, fault: str, *words: str) -> tuple[str, list[Any]]:
    """What is printed, and (type, reduction, whether the fault is found) of the cases out of place."""
    environ = {"LD_PRELOAD": shim, "SHIM_FAULT": fault, "SHIM_BYTES": "2048"}
    run = launcher.begin("run", "all_reduce", "-b", "2K", "-e", "2K", "-n", "8", "-w", "2", *words, **environ)
    done = run.finish()
    assert done.code == (fault != "none"), done
    record = run.record()
    cases = [
        (case["dtype"], case["op"], result["status"] == "wrong")
        for case, result in zip(record["plan"]["cases"], record["results"], strict=True)
        if case["placement"] == "out-of-place"
    ]
    return done.out, cases


@pytest.mark.parametrize(
    ("fault", "ranks"), [*((fault, 2) for fault in FAULTS), ("last bit", 3), ("truncated mantissa", 3)]
)
def test_a_fault_of_the_library_is_found_in_every_type_and_reduction(
    launcher: Any, shim: str, fault: str, ranks: int
) -> None:
    words = ("--ranks", str(ranks), "-d", ",".join(TYPES), "-o", ",".join(OPS))
    out, cases = found(launcher, shim, fault, *words)
    assert len(cases) == len(TYPES) * len(OPS)
    assert [case[:2] for case in cases if not case[2]] == []
    assert FAULTS[fault] in out


def test_without_a_fault_nothing_is_found(launcher: Any, shim: str) -> None:
    _, cases = found(launcher, shim, "none", "--ranks", "2")
    assert [case[2] for case in cases] == [False]
