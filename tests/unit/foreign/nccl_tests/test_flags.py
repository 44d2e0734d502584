"""nccl-tests' flags, one by one: letters, names, numbers, and what cannot be meant."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.foreign.nccl_tests.flags import (
    FLAGS,
    PROGRAMS,
    Options,
    find_program,
    read,
    usage,
)

MIB = 1 << 20


def options(*words: str) -> Options:
    return read("all_reduce_perf", words).options


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_by_letter_and_by_name(name: str) -> None:
    texts = {"op": "max", "datatype": "half", "output_file": "x.json", "per_iter_timing": "1"}
    value = texts.get(name, "7")
    more = ("-n", "99", "-I", "1") if name == "per_iter_skip" else ()
    for words in ((f"-{FLAGS[name].letter}", value), (f"--{name}={value}",)):
        found = getattr(options(*more, *words), name)
        assert str(found) == value
    assert len({flag.letter for flag in FLAGS.values()}) == len(FLAGS)


def test_the_last_of_a_repeated_flag_wins_and_operands_are_not_looked_at() -> None:
    found = options("-n5", "x", "--it", "7", "y", "-b", "8", "--minb=4")
    assert (found.iters, found.minbytes) == (7, 4)


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8), ("1K", 1024), ("1.5M", 3 * MIB // 2), ("16 g", 16 << 30), ("8KB", 8192)],
)
def test_sizes(text: str, size: int) -> None:
    assert options("-b", text, "-e", "32G").minbytes == size


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-b", "8X"), "-b: not a size"),
        (("-n", "20x"), "-n: not a whole number: '20x'"),
        (("-d", "fp32"), "-d: unknown word 'fp32'"),
        (("--gpus", "8"), "option --gpus not recognized"),
        (("-g", "0"), "-t 1 -g 0 starts no rank"),
        (("-I", "2"), "-I 2 is unknown"),
        (("-I", "1", "-G", "1"), "-G excludes -I and -z"),
        (("-I", "1", "-K", "20"), "-K 20 leaves no iteration"),
        (("-n", str(2**31)), "-n: 2147483648 is too large"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        read("all_reduce_perf", words)
    assert refused.value.hint


def test_the_usage_has_every_flag() -> None:
    assert read("all_reduce_perf", ("-n", "3", "-h")).wants_help
    assert usage("all_reduce_perf").count("[-") == len(FLAGS) + 1


def test_programs_are_found_behind_any_path() -> None:
    assert len(PROGRAMS) == 11
    assert find_program("/opt/nccl-tests/build/alltoallv_perf") == "alltoallv_perf"
    assert find_program("./all_reduce_perf") == "all_reduce_perf"
    assert find_program("/usr/bin/all_reduce_perf_mpi") == "all_reduce_perf"  # as distributions call it
    assert not find_program("all_reduce")
    assert not find_program("all_reduce_perf/")
