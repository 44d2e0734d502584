"""A line of nccl-tests becomes a plan that measures the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.foreign.nccl_tests.flags import Variables, find_program, read
from busbw.foreign.nccl_tests.settings import operation, remarks, run_settings
from busbw.model.plan import Plan
from busbw.model.soak import Soak
from busbw.plan.make import make_plan

NO_VARIABLES = Variables()


def plan(
    *words: str, program: str = "all_reduce_perf", backend: str = "nccl", variables: Variables = NO_VARIABLES
) -> Plan:
    line = read(program, words)
    settings = run_settings(line, variables, backend)
    return make_plan((operation(program),), settings, backend, 4)


def test_a_bare_line_is_one_loop_of_20_calls_behind_one_untimed() -> None:
    found = plan()
    assert [case.size_bytes for case in found.cases] == [32 << 20] * 2
    assert (found.limits.calls, found.limits.warmup_calls, found.checks) == (20, 1, 1)
    assert found.limits.warmup_seconds == 0.02
    assert (found.timing.mode, found.timing.time) == ("throughput", "loop-avg")
    assert (found.options.memory, found.buffer_bytes) == ("nccl", 32 << 20)


@pytest.mark.parametrize(("average", "time"), [(0, "rank0"), (1, "avg"), (2, "min"), (3, "max")])
def test_averages(average: int, time: str) -> None:
    assert plan("-a", str(average)).timing.time == f"loop-{time}"
    assert plan("-a", str(average), "-z", "3").timing.time == time


def test_sizes_grow_by_a_factor_or_by_bytes() -> None:
    assert [case.size_bytes for case in plan("-b", "8", "-e", "100", "-f", "3").cases][::2] == [8, 24, 72]
    stepped = plan("-b", "1K", "-e", "3K", "-i", "1K").cases
    assert [case.size_bytes for case in stepped][::2] == [1024, 2048, 3072]
    # Without a factor it steps by 1M.
    assert [case.size_bytes for case in plan("-b", "1M", "-e", "2M").cases][::2] == [1 << 20, 2 << 20]


def test_what_changes_the_calls_reaches_the_plan() -> None:
    found = plan("-n30", "-m4", "-w2", "-c0", "-G3", "-u1", "-T9")
    assert (found.limits.calls, found.limits.warmup_calls, found.checks) == (120, 8, 0)
    options = found.options
    assert (options.aggregate, options.graph, options.unalign, options.timeout_s) == (4, 3, 1, 9.0)
    assert plan("-R", "2").options.register == 2
    assert plan("-N", "1").soak is None
    assert plan("-N", "2").soak == Soak(cycles=2, keep_going=True)
    assert plan("-N", "0").soak == Soak(keep_going=True)
    assert [case.root for case in plan("-r", "-1", program="broadcast_perf").cases][::2] == [0, 1, 2, 3]


def test_all_types_and_reductions_in_the_order_of_nccl_tests() -> None:
    found = plan("-d", "all", "-o", "all").cases[::2]
    types = list(dict.fromkeys(case.dtype for case in found))
    assert types[:3] == ["int8", "uint8", "int32"]
    assert len(types) == 12
    assert list(dict.fromkeys(case.op for case in found)) == ["sum", "prod", "max", "min", "avg", "mulsum"]


def test_single_iterations_are_asked_for_only_where_they_are_shown() -> None:
    assert not any(word.startswith("p") for word in plan().show)
    assert "p99" in plan("-I", "1").show


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-D", "1"), "device kernels"),
        (("-C", "1"), "replaces the time"),
        (("-x", "1"), "-x is not supported"),
        (("-N", "2", "-I", "1"), "-I keeps every iteration"),
        (("-n", "5000", "-G", "1"), "too many for one CUDA graph"),
        (("-z", "9"), "-z"),
        (("-r", "4"), "root 4"),
    ],
)
def test_what_busbw_does_not_have_is_refused_with_a_reason(words: tuple[str, ...], message: str) -> None:
    program = "broadcast_perf" if "-r" in words else "all_reduce_perf"
    with pytest.raises(UsageError, match=message) as refused:
        plan(*words, program=program)
    assert refused.value.hint


def test_variables_make_groups_and_counts() -> None:
    split = plan(variables=Variables(split="MOD 2"))
    assert split.groups == ((0, 2), (1, 3))
    even = plan("-b", "1K", program="alltoallv_perf", variables=Variables(spread=0.0)).cases[0]
    uneven = plan("-b", "1K", program="alltoallv_perf").cases[0]
    # In proportion to the distances 0, 1, 2 and 3, each rounded down to 16 bytes.
    assert (even.size_bytes, uneven.size_bytes) == (1024, 0 + 160 + 336 + 512)


def test_a_difference_from_nccl_tests_is_said() -> None:
    line = read("all_reduce_perf", ("-I", "1", "-K", "2"))
    said = "\n".join(remarks(line, Variables(split="MOD 2"), "mpi"))
    assert "CPU ranks over MPI" in said
    assert "with 18 samples i_p99 is the largest" in said
    assert "split MOD 2" in said
    assert remarks(read("all_reduce_perf", ()), NO_VARIABLES, "nccl") == []
    assert any("-z 1" in text for text in remarks(read("all_reduce_perf", ("-z1",)), NO_VARIABLES, "nccl"))


def test_a_name_that_writes_nothing_is_said() -> None:
    said = ["-J out.txt writes nothing: the name must end in .json"]
    assert remarks(read("reduce_perf", ("-J", "out.txt")), NO_VARIABLES, "nccl") == said


PAGE = Path(__file__).parents[4] / "docs" / "guides" / "from-nccl-tests.md"
# In a table or a block, up to the end of the code or cell.
IN_PAGE = [
    shlex.split(words)
    for words in re.findall(r"busbw nccl-tests (\S+_perf[^`|\n]*)", PAGE.read_text(encoding="utf-8"))
    if "..." not in words
]


assert len(IN_PAGE) >= 5


@pytest.mark.parametrize("words", IN_PAGE, ids=" ".join)
def test_lines_in_the_page_are_plans(words: list[str]) -> None:
    line = read(find_program(words[0]), words[1:])
    settings = run_settings(line, NO_VARIABLES, "nccl")
    assert make_plan((operation(line.program),), settings, "nccl", 64).cases


def test_iterations_of_every_rank_are_kept_where_the_file_has_them() -> None:
    def kept(*words: str) -> int:
        return run_settings(read("all_reduce_perf", words), NO_VARIABLES, "mpi").raw_ranks

    assert kept("-I", "1") == kept("-J", "a.json") == 16
    assert kept("-I", "1", "-J", "a.json", "-n", "20") > 10_000
    # A case's samples stay within 64 MiB on rank 0.
    assert 1_000 < kept("-I", "1", "-J", "a.json", "-n", "1000") < 2_000
    assert kept("-I", "1", "-J", "a.json", "-n", "1000000") == 16
