"""Values, defaults and sweeps of nccom-test's command line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import FLAGS
from busbw.frontdoors.nccom_options import Options, parse, parse_bytes

MIB = 2**20


def options(line: str) -> Options:
    return parse(line.split())


def test_the_defaults_are_those_of_the_original() -> None:
    plain = options("-r 2 allr")
    assert (plain.operand, plain.collective, plain.nworkers, plain.nnodes) == ("allr", "all_reduce", 2, 1)
    assert plain.sizes_bytes == (32 * MIB,)
    assert plain.calls == (25, 20)
    assert (plain.datatype, plain.check, plain.stats) == ("uint8", "", ("avg",))
    assert (plain.slurm_job_id, plain.rounds) == ("alloc", None)


def test_every_flag_is_a_field() -> None:
    assert {flag.key for flag in FLAGS} == {f.name for f in fields(Options)} - {"operand", "values"}


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        # The examples of the description
        ("-b 8 -e 16 -i 4", (8, 12, 16)),
        ("-b 8 -e 32 -f 2", (8, 16, 32)),
        ("-b 1kb -e 1mb -f 8", (1024, 8192, 65536, 524288)),
        # ten additive steps without -i and -f
        ("-b 0 -e 100", tuple(range(0, 101, 10))),
        ("-b 22M -e 32M", tuple(n * MIB for n in range(22, 33))),
        ("-b 0 -e 1005", tuple(range(0, 1001, 100))),
        ("-b 8 -e 12", (8, 9, 10, 11, 12)),
        ("-b 8 -e 27", tuple(range(8, 27, 2))),
        ("-b 64 -e 64", (64,)),
        # units in any case, and as a factor
        ("-b 1K -e 2KB -f 2", (1024, 2048)),
        ("-b 8 -e 64kb -f 2kb", (8, 16384)),
        ("-b 4 -e 2048 -f 16", (4, 64, 1024)),
        ("-b 8 -e 16 -f 1", (8,)),
        ("-b 8 -e 16 -f 1.5", (8, 12)),
    ],
)
def test_sweeps(line: str, sizes: tuple[int, ...]) -> None:
    assert options(f"-r 2 {line} allr").sizes_bytes == sizes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("8", 8), ("2kb", 2048), ("2KB", 2048), ("2K", 2048), ("2k", 2048), ("2Kb", 2048), ("2KiB", 2048)),
        *(("1MB", MIB), ("1m", MIB), ("1gb", 2**30), ("1G", 2**30), ("512KB", 524288), ("1.5k", 1536)),
    ],
)
def test_units_are_powers_of_1024_in_any_case(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("line", "run", "measured"),
    [
        ("-n 15 -w 5", 20, 15),
        ("-n 15 -w 5 -I 10", 200, 150),  # the two worked examples of the description
        ("-n 15 -w 5 -I 10 -W 5", 300, 150),
        ("-n 15 -w 5 -W 5", 120, 15),
    ],
)
def test_two_level_iterations(line: str, run: int, measured: int) -> None:
    assert options(f"-r 2 {line} allr").calls == (run, measured)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no operation given"),
        ("-r 2", "no operation given"),
        ("allr", "-r (--nworkers) is missing"),
        ("-r 2 all_scatter", "unknown operation 'all_scatter'"),
        ("-r 2 allr allg", "several operations given: allr allg"),
        ("-r two allr", "--nworkers: not a number: 'two'"),
        ("-r 0 allr", "--nworkers 0 is too small"),
        ("-r 3 -N 2 allr", "-r 3 ranks cannot be divided equally among -N 2 nodes"),
        ("-r 2 -b 64 -e 8 allr", "the first size"),
        ("-r 2 -b 64q allr", "--minbytes: not a size: '64q'"),
        ("-r 2 -b -8 allr", "--minbytes: not a size: '-8'"),
        ("-r 2 -f 0.5 allr", "--stepfactor 0.5 is no factor from 1 up"),
        ("-r 2 -f nan allr", "--stepfactor nan is no factor from 1 up"),
        ("-r 2 -b 0 -f 2 allr", "a sweep by a factor cannot start at 0 bytes"),
        ("-r 2 -b 8 -e 16 -i 0 allr", "the step between sizes is 0"),
        ("-r 2 -d fp64 allr", "--datatype: unknown 'fp64'"),
        ("-r 2 -t p100 allr", "p100 is not between 0 and 100"),
        ("-r 2 -t median allr", "not a statistic: 'median'"),
        ("-r 2 --coalesced-cc-size-ratio [1,x] allr", "--coalesced-cc-size-ratio: not a list of ratios"),
        ("-r 2 --coalesced-cc-size-ratio [1,0] allr", "--coalesced-cc-size-ratio: not a list of ratios"),
        ("-r 2 -n 0 allr", "--iters 0 is too small"),
        ("-r 2 --seed -1 allr", "--seed -1 is too small"),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        options(line)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--coalesced-cc-size-ratio [1,2,1]", "coalesced_cc_size_ratio", (1, 2, 1)),
        ("--stats p50 avg p50", "stats", ("p50", "avg")),
        ("-d FP32", "datatype", "fp32"),
        ("-c", "check", "random"),
        ("--check all_ones", "check", "all_ones"),
        ("--vcpu-pin-mode", "vcpu_pin_mode", True),
        ("-W 3", "neff_warmup_iters", 3),
        ("--seed 0", "seed", 0),
    ],
)
def test_values(line: str, field: str, value: Any) -> None:
    assert getattr(options(f"-r 2 {line} allr"), field) == value


def test_home_has_a_hosts_file_or_not(tmp_path: Path) -> None:
    from busbw.frontdoors.nccom_options import default_hosts_file

    assert default_hosts_file(tmp_path) is None
    (tmp_path / "hosts").write_text("a\n")
    assert default_hosts_file(tmp_path) == tmp_path / "hosts"
