"""nccom-test's command line: its words, values, defaults and sweeps; the guide has every flag."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import ExitCode, UsageError
from busbw.foreign.nccom.columns import OPERANDS
from busbw.foreign.nccom.options import (
    EXAMPLES,
    FLAGS,
    Options,
    help_text,
    parse,
    split,
)

MIB = 2**20


def options(line: str) -> Options:
    return parse(line.split())


def test_the_defaults_are_those_of_the_original() -> None:
    plain = options("-r 2 allr")
    assert (plain.operand, plain.collective, plain.nworkers, plain.nnodes) == ("allr", "all_reduce", 2, 1)
    assert plain.sizes_bytes == (32 * MIB,)
    assert (plain.iters, plain.warmup_iters) == (20, 5)
    assert (plain.datatype, plain.check, plain.stats) == ("uint8", "", ("avg",))
    assert (plain.slurm_job_id, plain.rounds) == ("alloc", (None, None))


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        # The examples of the description
        ("-b 1kb -e 1mb -f 8", (1024, 8192, 65536, 524288)),
        # ten additive steps without -i and -f
        ("-b 0 -e 100", tuple(range(0, 101, 10))),
        ("-b 22M -e 32M", tuple(n * MIB for n in range(22, 33))),
        ("-b 8 -e 12", (8, 9, 10, 11, 12)),
        # units in any case, and as a factor
        ("-b 1K -e 2KB -f 2", (1024, 2048)),
        ("-b 2k -e 2KiB", (2048,)),
        ("-b 1.5k -e 1.5Kb", (1536,)),
        ("-b 1gb -e 1024m", (2**30,)),
        ("-b 8 -e 64kb -f 2kb", (8, 16384)),
        ("-b 8 -e 16 -f 1", (8,)),
    ],
)
def test_sweeps(line: str, sizes: tuple[int, ...]) -> None:
    assert options(f"-r 2 {line} allr").sizes_bytes == sizes


@pytest.mark.parametrize(
    ("line", "operands", "values"),
    [
        # --check takes a word only where it is a check mode
        ("--check allg", ["allg"], {"check": "random"}),
        ("--check all_ones allg", ["allg"], {"check": "all_ones"}),
        # lists end at the next flag, or at a word that is not theirs
        ("--stats avg p50 --iters 9 allg", ["allg"], {"stats": ("avg", "p50"), "iters": 9}),
        ("allr --hosts A B", ["allr"], {"hosts": ("A", "B")}),
        ("--hosts A B -r 2 allr", ["allr"], {"hosts": ("A", "B"), "nworkers": 2}),
        ("--hosts A,B allr", ["allr"], {"hosts": ("A", "B")}),
        ("allr --hosts allr allg", ["allr"], {"hosts": ("allr", "allg")}),
        # the operation first, in the middle, last
        ("allr -r 2 -n 9", ["allr"], {"nworkers": 2, "iters": 9}),
        # spellings of a value, and of a name
        ("-r2 -b8 -e=16 --stepbytes=4 allr", ["allr"],
            {"nworkers": 2, "minbytes": 8, "maxbytes": 16, "stepbytes": 4}),
        ("--warmup_iters 5 allr", ["allr"], {"warmup_iters": 5}),
        ("-d FP32 allr", ["allr"], {"datatype": "fp32"}),
        # both names of what was renamed
        ("--alltoallv-metadata m.json alltoallv", ["alltoallv"], {"variable_size_op_metadata": "m.json"}),
        ("--custom-replica-group g.json allr", ["allr"], {"custom_replica_groups": "g.json"}),
        # a list that a shell has split
        ("--coalesced-cc-size-ratio [1,2,1] allr", ["allr"], {"coalesced_cc_size_ratio": (1, 2, 1)}),
        ("--coalesced-cc-size-ratio [1, 2, 1] allr", ["allr"], {"coalesced_cc_size_ratio": (1, 2, 1)}),
        ("--input-shape [1,2][3,4] allr", ["allr"], {"input_shape": "[1,2][3,4]"}),
        # newer than our table
        ("--of-next-year 7 allr", ["--of-next-year", "7", "allr"], {}),
    ],
)  # fmt: skip
def test_a_line_and_its_words(line: str, operands: list[str], values: dict[str, Any]) -> None:
    assert split(line.split()) == (values, operands)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no operation given"),
        ("allr", "-r (--nworkers) is missing"),
        ("-r 2 all_scatter", "unknown operation 'all_scatter'"),
        ("-r 2 allr allg", "several operations given: allr allg"),
        ("--frobnicate -r 2 allr", "unknown flag --frobnicate"),
        ("-r", "-r/--nworkers: expected one argument"),
        ("--slurm allr", "ambiguous option: --slurm could match"),
        ("-s p50 -r 2 allr", "-s was --stats in Neuron 2.11"),
        ("-r two allr", "-r/--nworkers: not a number: 'two'"),
        ("-r 0 allr", "-r/--nworkers: 0 is too small"),
        ("-r 3 -N 2 allr", "-r 3 ranks cannot be divided equally among -N 2 nodes"),
        ("-r 2 -b 64 -e 8 allr", "the first size"),
        ("-r 2 -b -8 allr", "--minbytes: not a size: '-8'"),
        ("-r 2 -f nan allr", "--stepfactor: nan is no factor from 1 up"),
        ("-r 2 -b 0 -f 2 allr", "a sweep by a factor cannot start at 0 bytes"),
        ("-r 2 -b 8 -e 16 -i 0 allr", "the step between sizes is 0"),
        ("-r 2 -d fp64 allr", "--datatype: unknown 'fp64'"),
        ("-r 2 -t p100 allr", "p100 is not between 0 and 100"),
        ("-r 2 -t median allr", "not a statistic: 'median'"),
        ("-r 2 --coalesced-cc-size-ratio [1,x] allr", "not a list of ratios"),
        ("-r 2 --hosts-file= allr", "--hosts-file: empty"),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        options(line)
    assert caught.value.hint


def test_help_has_every_flag_and_operation() -> None:
    told = help_text()
    assert all(word in told for name, flag in FLAGS.items() for word in flag.spellings(name))
    assert all(name in told for name in OPERANDS)


# ---- the guide ------------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "from-nccom-test.md"
TEXT = PAGE.read_text(encoding="utf-8")
SUPPORT = TEXT.partition("## Support")[2]
LINES = sorted(
    {*re.findall(r"busbw nccom-test (-[^`\n]*)", TEXT), *(e.partition("test ")[2] for e in EXAMPLES)}
)


def test_every_flag_and_operation_has_its_support() -> None:
    for name, flag in FLAGS.items():
        assert any(f"`{word}`" in SUPPORT for word in flag.spellings(name)), name
    short = {"all_reduce", "all_gather", "reduce_scatter", "all_gatherv"}
    assert all(f"`{name}`" in SUPPORT for name in set(OPERANDS) - short)


def test_command_lines_of_the_page_and_the_help_parse() -> None:
    assert len(LINES) >= 4
    assert all(parse(shlex.split(line)).sizes_bytes for line in LINES)


def test_exit_codes_are_those_of_busbw() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert told == {int(code) for code in ExitCode if code is not ExitCode.INTERRUPTED}
