"""--streams-json of nccom-test: entries as command lines of their own, and what ``busbw run`` gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.foreign.door import in_words_of
from busbw.foreign.nccom.options import Options, parse
from busbw.foreign.nccom.settings import THEIR_FLAGS, operations_of, run_settings
from busbw.foreign.nccom.streams import stream_options
from busbw.model.plan import Plan
from busbw.plan.make import make_plan

MakeOptions = Callable[..., Options]


@pytest.fixture
def options(tmp_path: Path) -> MakeOptions:
    """``options([entry, ...], "-r 4 allr ...")``."""

    def make(entries: Any, line: str = "-r 4 allr") -> Options:
        path = tmp_path / "s.json"
        path.write_text(json.dumps({"streams": entries}))
        return parse([*line.split(), "--streams-json", str(path)])

    return make


def plan(given: Options) -> Plan:
    return make_plan(operations_of(given), run_settings(given, {}), "null", given.nworkers)


def test_the_command_line_has_the_defaults_of_every_stream(options: MakeOptions) -> None:
    given = options(
        [{"operation": "allg", "maxbytes": "2kb"}, {"datatype": "bf16", "stepfactor": 4}],
        "-r 4 allr -b 1kb -e 4KB -i 1kb -d fp32",
    )
    gathered, reduced = stream_options(given)
    assert (gathered.options.collective, reduced.options.collective) == ("all_gather", "all_reduce")
    assert gathered.options.sizes_bytes == (1024, 2048)
    assert reduced.options.sizes_bytes == (1024, 4096)  # the factor replaces -i
    assert (gathered.options.datatype, reduced.options.datatype) == ("fp32", "bf16")
    assert (gathered.calls, reduced.calls) == (1, 1)


def test_streams_name_their_operations_where_the_command_line_has_none(options: MakeOptions) -> None:
    found = stream_options(options([{"operation": "allg"}, {"operation": "allr"}], "-r 4"))
    assert [stream.options.collective for stream in found] == ["all_gather", "all_reduce"]
    with pytest.raises(UsageError, match='stream 1: unknown operation ""'):
        stream_options(options([{"operation": "allg"}, {"datatype": "fp32"}], "-r 4"))


def test_the_plan_has_their_types_sizes_and_ratio(options: MakeOptions) -> None:
    made = plan(
        options(
            [
                {"operation": "allr", "minbytes": "1KB", "maxbytes": "4KB", "stepfactor": 2},
                {"operation": "allg", "datatype": "fp32", "ops_per_iter": 2, "data_parallel_dimension": 2},
            ],
            "-r 4 allr -b 64 -e 64",
        )
    )
    assert [stream.calls for stream in made.streams] == [1, 2]
    assert [stream.groups for stream in made.streams] == [(), ((0, 1), (2, 3))]
    assert [[case.size_bytes for case in step] for step in made.steps] == [[1024, 64], [2048, 64], [4096, 64]]
    assert (made.cases[0].dtype, made.cases[1].dtype) == ("uint8", "float")
    assert made.timing.time == "max"  # a mean over groups is the time of none
    assert made.limits.calls == 20
    alone = plan(options([{"operation": "allg"}], "-r 4 allr -b 64 -e 64"))
    assert alone.timing.time == "avg"


def test_files_of_one_operation_do_not_reach_the_others(options: MakeOptions, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"metadata": [{"send_counts": [1, 2, 3, 4]}]}')
    line = f"-r 4 alltoallv -b 64 -e 64 --alltoallv-metadata {tmp_path / 'm.json'}"
    made = plan(options([{}, {"operation": "allr"}], line))
    assert [len(stream.counts) for stream in made.streams] == [1, 0]


def test_what_holds_for_the_run_may_be_said_again(options: MakeOptions) -> None:
    entries = [{"operation": "allg", "iters": 7, "check": True, "nworkers": 4, "stats": ["avg", "p50"]}]
    given = options(entries, "-r 4 allr -n 7 -c --stats avg p50")
    assert len(stream_options(given)) == 1
    off = options([{"operation": "allg", "check": False, "unique_buff": False}])
    assert stream_options(off)[0].options.check == ""


def test_a_stream_has_its_own_iterations_check_and_buffers(options: MakeOptions) -> None:
    entries = [
        {"operation": "allg", "iters": 7, "warmup_iters": 0, "check": "all_ones", "ops_per_iter": 3},
        {"unique_buff": True, "iters": 10, "check": False, "seed": 4},
        {},
    ]
    given = options(entries, "-r 4 allr -n 20 -w 5 --check random --seed 9 -b 64 -e 64 -d fp32")
    made = make_plan(operations_of(given), run_settings(given, {}), "mpi", 4)
    ones, apart, rest = (made.of_stream(number) for number in range(3))
    assert [(own.limits.calls, own.limits.warmup_calls) for own in (ones, apart, rest)] == [
        (7, 0),
        (10, 5),
        (20, 5),
    ]
    assert [(own.checks, own.data, own.seed, own.save_wrong) for own in (ones, apart, rest)] == [
        (1, "all_ones", 9, False),
        (0, "exact", 4, False),
        (1, "random", 9, True),
    ]
    assert [(own.unique_buffers, own.rotate) for own in (ones, apart, rest)] == [
        (False, False),
        (True, True),
        (False, False),
    ]
    assert apart.buffer_bytes == 64 * (10 + 5)
    assert [stream.own for stream in made.streams][2] == {}
    assert "calls 1:3, iterations 10:7" in made.cases[0].beside[0]
    assert Plan.from_json(made.to_json()) == made


def test_a_switch_of_the_command_line_is_off_where_a_stream_says_so(options: MakeOptions) -> None:
    entries = [{"check": False, "unique_buff": False}, {}]
    off, on = stream_options(options(entries, "-r 4 allr --check all_ones --unique-buff"))
    assert (off.options.check, off.options.unique_buff) == ("", False)
    assert (on.options.check, on.options.unique_buff) == ("all_ones", True)
    with pytest.raises(UsageError, match="debug differs from --debug"):
        stream_options(options([{"debug": False}], "-r 4 allr --debug"))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([3], "stream 0: 3 is not an object"),
        ([{"operation": "x"}], 'stream 0: unknown operation "x"'),
        ([{}, {"ops_per_iter": 0}], "stream 1: ops_per_iter is 0"),
        ([{"minsize": 3}], 'stream 0: unknown key "minsize"'),
        ([{"streams_json": "s.json"}], 'stream 0: unknown key "streams_json"'),
        ([{"minbytes": "1 potato"}], "stream 0: -b/--minbytes: not a size"),
        ([{"iters": 0}], "stream 0: iters 0 is too small"),
        (
            [{"neff_iters": 5}],
            "stream 0: neff_iters differs from --neff-iters of the command line: one value holds for all",
        ),
        ([{"nworkers": 2}], "nworkers differs from --nworkers of the command line"),
        ([{"stats": ["p50"]}], "stats differs from --stats of the command line"),
        ([{"check": "sometimes"}], 'stream 0: "sometimes" is unknown'),
        ([{"unique_buff": 1}], "stream 0: --unique-buff: ignored explicit argument"),
        ([{"sb2sb": True}], "stream 0: sb2sb differs"),
        ([{}] * 17, "17 streams"),
    ],
)
def test_entries_that_cannot_be_meant(options: MakeOptions, entries: Any, said: str) -> None:
    given = options(entries)
    with pytest.raises(UsageError) as refused, in_words_of(THEIR_FLAGS):
        plan(given)
    assert said in refused.value.message
    assert refused.value.message.startswith("--streams-json")


def test_what_the_plan_refuses_names_their_flags(options: MakeOptions) -> None:
    given = options([{"data_parallel_dimension": 3}])
    with pytest.raises(UsageError) as refused, in_words_of(THEIR_FLAGS):
        plan(given)
    assert refused.value.message == (
        "--streams-json: stream 0: --data-parallel-dimension 3 does not divide 4 ranks"
    )
    parts = options([{}], "-r 4 allr --coalesced-cc-size-ratio [1,2]")
    with pytest.raises(UsageError) as refused, in_words_of(THEIR_FLAGS):
        plan(parts)
    assert "--streams-json cannot be combined with --coalesced-cc-size-ratio" in refused.value.message
