"""nccl-tests' flags, one by one: letters, names, numbers, and what it says of a wrong line."""

from __future__ import annotations

from dataclasses import fields

import pytest

from busbw.frontdoors.nccl_tests_flags import (
    LETTERS,
    PROGRAMS,
    Options,
    c_integer,
    find_program,
    parse_size,
    read,
)

MIB = 1 << 20


def options(*words: str) -> Options:
    line = read("all_reduce_perf", words)
    assert (line.status, line.out, line.err) == (None, (), ())
    return line.options


def test_defaults_are_those_of_2_19_6() -> None:
    found = options()
    assert (found.minbytes, found.maxbytes, found.stepbytes, found.stepfactor) == (32 * MIB, 32 * MIB, MIB, 1)
    assert (found.iters, found.warmup_iters, found.agg_iters, found.run_cycles) == (20, 1, 1, 1)
    assert (found.op, found.datatype, found.root, found.check, found.average) == ("sum", "float", 0, 1, 1)
    assert (found.nthreads, found.ngpus, found.cta_policy) == (1, 1, -1)


def test_every_flag_by_letter_and_by_name() -> None:
    known = {field.name for field in fields(Options)}
    assert {name for name in LETTERS if name != "help"} == known
    assert len(set(LETTERS.values())) == len(LETTERS)
    texts = {"op": "max", "datatype": "half", "output_file": "x.json"}
    for name in known:
        # Large enough that a limit on -K does not come in.
        value = texts.get(name, "7")
        expected = texts.get(name, 7)
        for words in ((f"-{LETTERS[name]}", value), (f"--{name}={value}",)):
            more = ("-e", "8G", "-n", "99", "-I", "1") if name not in ("maxbytes", "iters") else ()
            extra = ("-b", "1") if name == "maxbytes" else ()
            line = read("all_reduce_perf", (*more, *extra, *words))
            if name == "per_iter_timing":  # 7 is neither on nor off
                assert line.options.per_iter_timing == 0
            else:
                assert getattr(line.options, name) == expected, name


def test_the_last_of_a_repeated_flag_wins_and_operands_are_not_looked_at() -> None:
    found = options("-n", "5", "x", "--iters=7", "y")
    assert found.iters == 7


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("1K", 1024),
        ("1k", 1024),
        ("1.5M", 3 * MIB // 2),
        ("2g", 2 << 30),
        ("16 G", 16 << 30),
        ("8KB", 8192),  # nothing behind the letter is looked at
        ("0", 0),
        ("1e3", 1000),
        (".5K", 512),
        ("0.3", 0),
        ("1T", None),  # 2.19.6 has no T
        ("8B", None),
        ("", None),
        ("K", None),
        ("-1", None),
        ("=8", None),
        ("1e30", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("20", 20),
        ("-1", -1),
        (" +5x", 5),
        ("0x10", 16),
        ("010", 8),
        ("2.7", 2),
        ("abc", 0),
        ("", 0),
        ("0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2**63 - 1),
        ("-9223372036854775809", -(2**63)),
        ("1" + "0" * 5000, 2**63 - 1),
        ("0x" + "f" * 5000, 2**63 - 1),
        ("0" * 5000 + "17", 15),
        ("0x" + "0" * 5000 + "f", 15),
    ],
)
def test_integers_are_those_of_strtol(text: str, number: int) -> None:
    assert c_integer(text) == number


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-b", "8B"), "invalid size specified for 'minbytes'"),
        (("-e", "x"), "invalid size specified for 'maxbytes'"),
        (("-i", "-1"), "invalid size specified for 'stepBytes'"),
        (("-b", "2K", "-e", "1K"), "invalid sizes for 'minbytes' and 'maxbytes': 2048 > 1024"),
        (("-b", "64M"), "invalid sizes for 'minbytes' and 'maxbytes': 67108864 > 33554432"),
    ],
)
def test_lines_that_cannot_be_meant_leave_with_255(words: tuple[str, ...], message: str) -> None:
    line = read("all_reduce_perf", words)
    assert (line.status, line.err) == (255, (message,))


def test_an_unknown_flag_prints_the_usage_and_leaves_with_0() -> None:
    line = read("all_reduce_perf", ("-n", "3", "--gpus", "8"))
    assert line.status == 0
    assert line.err == ("all_reduce_perf: unrecognized option '--gpus'",)
    assert line.out[:2] == ("invalid option '?'", "USAGE: all_reduce_perf ")
    assert sum("[-" in text for text in line.out) == len(LETTERS)


def test_help_prints_the_usage() -> None:
    line = read("all_reduce_perf", ("-h",))
    assert (line.status, line.err) == (0, ())
    assert line.out[0] == "USAGE: all_reduce_perf "


def test_unknown_words_fall_back_and_are_said() -> None:
    line = read("all_reduce_perf", ("-d", "fp32", "-o", "plus"))
    assert (line.options.datatype, line.options.op, line.status) == ("float", "sum", None)
    assert line.out == (
        "invalid type fp32, defaulting to float .. ",
        "invalid op plus, defaulting to sum .. ",
    )


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        (("-I", "2"), "per_iter_timing", "per-iteration timing (-I) only supports 0=off or 1=on. Disabling."),
        (
            ("-I", "1", "-G", "1"),
            "per_iter_timing",
            "per-iteration timing (-I) is incompatible with CUDA graph mode (-G). Disabling.",
        ),
        (
            ("-z", "3", "-G", "1"),
            "blocking",
            "blocking mode (-z 3) is incompatible with CUDA graph mode (-G). Disabling.",
        ),
        (
            ("-I", "1", "-K", "20"),
            "per_iter_skip",
            "per-iteration skip (-K) must be between 0 and 19. Disabling.",
        ),
        (
            ("-K", "3"),
            "per_iter_skip",
            "per-iteration skip (-K) requires per-iteration timing (-I 1). Disabling.",
        ),
    ],
)
def test_what_cannot_go_together_is_disabled_and_said(words: tuple[str, ...], name: str, said: str) -> None:
    line = read("all_reduce_perf", words)
    assert (getattr(line.options, name), line.err, line.status) == (0, (said,), None)


def test_programs_are_found_behind_any_path() -> None:
    assert len(PROGRAMS) == 11
    assert find_program("/opt/nccl-tests/build/alltoallv_perf") == "alltoallv_perf"
    assert find_program("./all_reduce_perf") == "all_reduce_perf"
    assert not find_program("all_reduce")
    assert not find_program("all_reduce_perf/")


@pytest.mark.parametrize("word", ["all_reduce_perf", "/usr/bin/all_reduce_perf_mpi", "all_reduce_perf_mpi"])
def test_tests_built_with_mpi_have_an_ending(word: str) -> None:
    assert find_program(word) == "all_reduce_perf"


@pytest.mark.parametrize(
    ("text", "number"), [("4294967297", 1), ("2147483648", -(2**31)), ("1" + "0" * 400, -1), ("-1", -1)]
)
def test_numbers_keep_their_lowest_32_bits_as_in_an_int(text: str, number: int) -> None:
    line = read("all_reduce_perf", ("-n", text))
    assert line.options.iters == number
    assert line.cut == (() if text == "-1" else (f"-n {text} means {number} to nccl-tests",))


def test_a_factor_has_64_bits() -> None:
    line = read("all_reduce_perf", ("-f", "1" + "0" * 400))
    assert line.options.stepfactor == 2**63 - 1
    assert line.cut[0].endswith("means 9223372036854775807 to nccl-tests")


def test_a_factor_below_zero_is_a_large_one_to_nccl_tests() -> None:
    line = read("all_reduce_perf", ("-f", "-1"))
    assert line.options.stepfactor == -1
    assert line.cut == ("-f -1 is a step by -i here, to nccl-tests 2^64 - 1",)
