"""The tokeniser's traps: every one is a command line that somebody may have written."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.frontdoors.nccom_flags import FLAGS, OPERANDS, Takes, help_text
from busbw.frontdoors.nccom_words import tokenise


def words(line: str) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    found = tokenise(shlex.split(line))
    return found.operands, dict(found.values)


@pytest.mark.parametrize(
    ("line", "operands", "values"),
    [
        # --check takes a word only where it is a check mode
        ("--check allg", ("allg",), {"check": ()}),
        ("-c allg", ("allg",), {"check": ()}),
        ("--check random allg", ("allg",), {"check": ("random",)}),
        ("--check all_ones allg", ("allg",), {"check": ("all_ones",)}),
        ("allg --check", ("allg",), {"check": ()}),
        ("allg -c -r 4", ("allg",), {"check": (), "nworkers": ("4",)}),
        ("--check=all_ones allr", ("allr",), {"check": ("all_ones",)}),
        ("-crandom allr", ("allr",), {"check": ("random",)}),
        ("-cr 2 allr", ("allr",), {"check": (), "nworkers": ("2",)}),
        # lists end at the next flag, or at a word that is not theirs
        ("--stats avg p50 --iters 9 allg", ("allg",), {"stats": ("avg", "p50"), "iters": ("9",)}),
        ("--stats avg p25 p50 p90 p99 allg", ("allg",), {"stats": ("avg", "p25", "p50", "p90", "p99")}),
        ("-t p15 allr", ("allr",), {"stats": ("p15",)}),
        ("allr --hosts A B", ("allr",), {"hosts": ("A", "B")}),
        ("--hosts A B -r 2 allr", ("allr",), {"hosts": ("A", "B"), "nworkers": ("2",)}),
        ("--hosts A B allr", ("allr",), {"hosts": ("A", "B")}),
        ("--hosts A allr -r 2", ("allr",), {"hosts": ("A",), "nworkers": ("2",)}),
        ("allr --hosts allr allg", ("allr",), {"hosts": ("allr", "allg")}),
        ("-s A B allr", ("allr",), {"hosts": ("A", "B")}),
        # the operation first, in the middle, last
        ("allr -r 2 -n 9", ("allr",), {"nworkers": ("2",), "iters": ("9",)}),
        ("-r 2 allr -n 9", ("allr",), {"nworkers": ("2",), "iters": ("9",)}),
        ("-r 2 -n 9 allr", ("allr",), {"nworkers": ("2",), "iters": ("9",)}),
        ("-r 2 -- allr", ("allr",), {"nworkers": ("2",)}),
        # spellings of a value, and of a name
        ("-r2 -b8 -e=16 --stepbytes=4 allr", ("allr",), {
            "nworkers": ("2",), "minbytes": ("8",), "maxbytes": ("16",), "stepbytes": ("4",)}),
        ("--warmup_iters 5 allr", ("allr",), {"warmup_iters": ("5",)}),
        ("--warmup-iters 5 allr", ("allr",), {"warmup_iters": ("5",)}),
        ("--nwork 5 allr", ("allr",), {"nworkers": ("5",)}),
        ("-Su 8 allr", ("allr",), {"slurm_mode": (), "slurm_vcpus_per_node": ("8",)}),
        ("-r 2 -r 4 allr", ("allr",), {"nworkers": ("4",)}),
        # both names of what was renamed
        ("--alltoallv-metadata m.json alltoallv", ("alltoallv",), {"variable_size_op_metadata": ("m.json",)}),
        ("--variable-size-op-metadata m alltoallv", ("alltoallv",), {"variable_size_op_metadata": ("m",)}),
        ("--custom-replica-group g.json allr", ("allr",), {"custom_replica_groups": ("g.json",)}),
        ("--custom-replica-groups g.json allr", ("allr",), {"custom_replica_groups": ("g.json",)}),
        # a list that a shell has split
        ("--coalesced-cc-size-ratio [1,2,1] allr", ("allr",), {"coalesced_cc_size_ratio": ("[1,2,1]",)}),
        ("--coalesced-cc-size-ratio [1, 2, 1] allr", ("allr",), {"coalesced_cc_size_ratio": ("[1,2,1]",)}),
        ("--input-shape [1,2][3,4] allr", ("allr",), {"input_shape": ("[1,2][3,4]",)}),
    ],
)  # fmt: skip
def test_a_line_and_its_words(line: str, operands: tuple[str, ...], values: dict[str, Any]) -> None:
    assert words(line) == (operands, values)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--frobnicate allr", "unknown flag --frobnicate"),
        ("-Q allr", "unknown flag -Q"),
        ("-r", "-r needs a value"),
        ("-r -n 5 allr", "-r needs a value"),
        ("--stats --iters 9 allr", "--stats needs a value"),
        ("--debug=yes allr", "--debug takes no value: --debug=yes"),
        ("--check=perhaps allr", "unknown check 'perhaps'"),
        ("--slurm allr", "--slurm is short for several flags: "),
        ("-s p50 -r 2 allr", "-s p50: -s means --hosts"),
        ("-s avg p99.9 -r 2 allr", "-s avg p99.9"),
        ("--custom x allr", "--custom is short for several flags: "),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        words(line)
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_a_negative_number_is_a_value_and_judged_as_one() -> None:
    assert words("-b -8 allr") == (("allr",), {"minbytes": ("-8",)})


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_is_read_under_all_its_names(flag: Any) -> None:
    value = {Takes.NOTHING: "", Takes.STATISTICS: "p50", Takes.CHECK_MODE: "random"}.get(flag.takes, "7")
    expected = {flag.key: (value,) if value else ()}
    names = [f"--{name}" for name in (flag.name, *flag.aliases)]
    names += [f"-{flag.short}"] if flag.short else []
    for name in [*names, *(name.replace("-", "_").replace("__", "--", 1) for name in names[:1])]:
        line = f"{name} {value} --non-interactive allr" if value else f"{name} --non-interactive allr"
        operands, values = words(line)
        assert (operands, values) == (("allr",), {**expected, "non_interactive": ()})


def test_help_has_every_flag_and_operation() -> None:
    told = help_text()
    assert all(f"--{name}" in told for flag in FLAGS for name in (flag.name, *flag.aliases))
    assert all(f"-{flag.short}, " in told for flag in FLAGS if flag.short)
    assert all(name in told for name in OPERANDS)
    assert max(map(len, told.splitlines())) <= 140
