"""Operations at once: the file, and the steps that it makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from busbw.errors import UsageError
from busbw.model.case import ALONE
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import read_settings
from busbw.plan.make import check_settings, make_plan
from busbw.plan.streams import MOST_STREAMS, with_files

RANKS: Final = 4
ALL_REDUCE: Final = {"operation": "all_reduce", "minbytes": "1K", "maxbytes": "4K"}
ALL_GATHER: Final = {"operation": "all_gather", "datatype": "int8", "minbytes": 512, "maxbytes": "512"}
Plans = Callable[..., Plan]


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    """``plans([entry, ...], operations, setting=...)`` -> the plan of 4 ranks."""

    def make(entries: Any, operations: tuple[str, ...] = (), backend: str = "null", **settings: Any) -> Plan:
        path = tmp_path / "streams.json"
        path.write_text(entries if isinstance(entries, str) else json.dumps({"streams": entries}))
        run = read_settings(RunSettings, {"streams": str(path), **settings})
        return make_plan(operations, run, backend, RANKS)

    return make


def refusal(plans: Plans, entries: Any, *operations: str, **settings: Any) -> str:
    with pytest.raises(UsageError) as refused:
        plans(entries, operations, **settings)
    return refused.value.message


# ---- what a stream has of its own ---------------------------------------------------------------------


def test_a_check_is_a_number_or_a_word_of_nccom_test(plans: Plans) -> None:
    said: tuple[Any, ...] = (3, True, "random", "all_ones", False, 0)
    plan = plans([{**ALL_REDUCE, "check": word} for word in said], backend="mpi")
    found = [plan.of_stream(number) for number in range(len(said))]
    assert [(own.checks, own.data, own.save_wrong) for own in found] == [
        (3, "exact", False),
        (1, "random", True),
        (1, "random", True),
        (1, "all_ones", False),
        (0, "exact", False),
        (0, "exact", False),
    ]


def test_buffers_lie_where_each_stream_says(plans: Plans) -> None:
    entries = [
        {**ALL_REDUCE, "hot": True},
        {**ALL_REDUCE, "unique_buffers": True, "ops_per_iter": 2},
        ALL_GATHER,
    ]
    plan = plans(entries, iters=10, warmup_iters=2)
    assert plan.places == (
        "stream 0: one place (hot); stream 1: a place of its own for every call;"
        " stream 2: rotating through the largest size"
    )
    assert plan.streams[1].buffer_bytes == 4096 * 2 * 12
    assert plans([ALL_REDUCE, ALL_GATHER]).places == "rotating through the largest size"


def test_iterations_of_a_stream_need_those_of_the_others(plans: Plans) -> None:
    own = {**ALL_REDUCE, "iters": 5, "ops_per_iter": 1}
    plan = plans([own, {**ALL_GATHER, "ops_per_iter": 2}], iters=20)
    assert [plan.of_stream(number).limits.calls for number in (0, 1)] == [5, 20]
    assert plan.cases[0].beside == ("all_gather int8 512 B, calls 2:1, iterations 20:5",)
    assert "others are sampled until" in refusal(plans, [own, {**ALL_GATHER, "ops_per_iter": 2}])
    assert "stream 1 has as many calls as last" in refusal(plans, [own, ALL_GATHER], iters=20)


# ---- steps --------------------------------------------------------------------------------------------


def test_a_step_has_one_case_of_every_stream_and_the_shorter_sweep_repeats_its_last_size(
    plans: Plans,
) -> None:
    plan = plans([ALL_REDUCE, ALL_GATHER])
    assert [[(case.stream, case.collective, case.size_bytes) for case in step] for step in plan.steps] == [
        [(0, "all_reduce", 1024), (1, "all_gather", 512)],
        [(0, "all_reduce", 2048), (1, "all_gather", 512)],
        [(0, "all_reduce", 4096), (1, "all_gather", 512)],
    ]
    assert [case.index for case in plan.cases] == list(range(6))


def test_every_case_says_what_runs_beside_it_and_how_many_calls_of_it(plans: Plans) -> None:
    plan = plans([{**ALL_REDUCE, "ops_per_iter": 1}, {**ALL_GATHER, "ops_per_iter": 2}, ALL_GATHER])
    first, second, third = plan.steps[1]
    assert first.beside == ("all_gather int8 512 B, calls 2:1", "all_gather int8 512 B, balanced")
    assert second.beside == ("all_reduce sum float 2048 B, calls 1:2", "all_gather int8 512 B, balanced")
    assert third.beside[0] == "all_reduce sum float 2048 B, balanced"
    assert [stream.calls for stream in plan.streams] == [1, 2, 0]


def test_the_command_line_says_what_an_entry_leaves_out(plans: Plans) -> None:
    plan = plans(
        [{}, {"operation": "all_gather", "datatype": "int8"}], ("all_reduce",), maxbytes="64", datatype="half"
    )
    assert [(case.collective, case.dtype, case.size_bytes) for case in plan.cases] == [
        ("all_reduce", "half", 64),
        ("all_gather", "int8", 64),
    ]


def test_an_entry_replaces_what_says_the_same_in_another_way(plans: Plans) -> None:
    plan = plans(
        [{**ALL_REDUCE, "stepbytes": "1K"}, {**ALL_GATHER, "group_size": 2}], stepfactor=4.0, split="MOD 2"
    )
    assert [case.size_bytes for case in plan.cases if case.stream == 0] == [1024, 2048, 3072, 4096]
    assert plan.streams[0].groups == ((0, 2), (1, 3))
    assert plan.streams[1].groups == ((0, 1), (2, 3))


def test_every_stream_has_buffers_of_its_own_size(plans: Plans) -> None:
    plan = plans([ALL_REDUCE, ALL_GATHER])
    assert [stream.buffer_bytes for stream in plan.streams] == [4096, 512]
    assert plan.buffer_bytes == 4608
    unique = plans([{**ALL_REDUCE, "ops_per_iter": 3}], unique_buffers=True, iters=10, warmup_iters=5)
    assert unique.buffer_bytes == 4096 * 15 * 3


def test_a_stream_is_a_plan_of_its_own(plans: Plans, tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text('{"src_target_pairs": [[[0, 1], [1, 0]]]}')
    permute = {
        "operation": "permute",
        "maxbytes": 64,
        "custom_src_target_pairs": str(tmp_path / "pairs.json"),
    }
    uneven = {"operation": "alltoallv", "maxbytes": 64, "skew": 2, "data_parallel_dimension": 2}
    plan = plans([permute, uneven])
    own = plan.of_stream(1)
    assert (own.groups, own.counts[0].origin, own.pairs) == (((0, 1), (2, 3)), "skew 2", ())
    assert own.buffer_bytes == plan.streams[1].buffer_bytes
    assert plan.of_stream(0).pairs == ((0, 1), (1, 0))
    assert plan.of_case(plan.cases[1]) == own
    assert own.of_case(plan.cases[1]) == own
    # Rank 2 is in no pair; it is the first of the second group, which gets all that the two ranks send.
    assert [plan.rank_bytes(case, 2, RANKS) for case in plan.cases] == [(0, 0), (32, 64)]


def test_one_stream_alone_is_a_stream(plans: Plans) -> None:
    plan = plans([ALL_REDUCE])
    assert [case.stream for case in plan.cases] == [0, 0, 0]
    assert plan.cases[0].beside == ()
    assert make_plan(("all_reduce",), RunSettings(), "null", 2).cases[0].stream == ALONE


def test_the_columns_are_those_of_streams(plans: Plans) -> None:
    assert plans([ALL_REDUCE]).show == ("overlap", "imbalance", "n")
    assert plans([ALL_REDUCE], stats=("avg",)).show == ("avg",)


# ---- files elsewhere, and ranks not known yet ---------------------------------------------------------


def test_files_travel_in_the_text(plans: Plans, tmp_path: Path) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text('{"replica_groups": [[[0, 1]]]}')
    (tmp_path / "s.json").write_text(json.dumps({"streams": [{**ALL_REDUCE, "groups": str(groups)}]}))
    text = with_files(str(tmp_path / "s.json"))
    groups.unlink()
    (tmp_path / "s.json").unlink()
    plan = make_plan((), RunSettings(streams=text), "null", RANKS)
    assert plan.streams[0].groups == ((0, 1),)


def test_a_first_look_does_not_need_the_number_of_ranks(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"streams": [{**ALL_REDUCE, "groups": "not/there.json", "group_size": 64}]}))
    check_settings((), RunSettings(streams=str(path), groups="neither.json"))
    with pytest.raises(UsageError) as refused:
        check_settings((), RunSettings(streams=str(path), ranks=64))
    assert refused.value.message == "--streams: stream 0: --groups and --group-size cannot be combined"


# ---- what cannot be meant -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{}], "stream 0: no operation given"),
        ([ALL_REDUCE, {"operation": "allr"}], "stream 1: unknown"),
        ([ALL_REDUCE, 3], "stream 1 is 3, not an object"),
        ([{**ALL_REDUCE, "ops_per_iter": 0}], "ops_per_iter is 0"),
        ([{**ALL_REDUCE, "iterations": 5}], 'stream 0 has the unknown key "iterations"'),
        ([{**ALL_REDUCE, "iters": 5}], "stream 0 has iters of its own, and the others are sampled"),
        ([{**ALL_REDUCE, "neff_iters": 5}], "stream 0: neff_iters is one value for all streams"),
        ([{**ALL_REDUCE, "check": "sometimes"}], "stream 0: --check: 'sometimes': Input should be a valid"),
        ([{**ALL_REDUCE, "unique_buff": []}], "stream 0: --unique-buffers: []: Input should be a valid"),
        ([{**ALL_REDUCE, "unique_buff": True}], "stream 0: --unique-buffers needs a fixed number of calls"),
        ([{**ALL_REDUCE, "stepfactor": "two"}], "stream 0: --stepfactor: 'two': Input should be a valid"),
        ([{**ALL_REDUCE, "group_size": 3}], "stream 0: --group-size 3 does not divide 4 ranks"),
        ([{**ALL_REDUCE, "maxbytes": "8X"}], "stream 0: "),
        ([{**ALL_REDUCE, "counts": "c.json"}], "stream 0: --counts does not apply to all_reduce"),
        ([{"operation": "barrier"}], "stream 0: barrier moves nothing"),
        ([ALL_REDUCE] * (MOST_STREAMS + 1), "17 streams"),
        ([], "streams is empty"),
        ('{"stream": []}', "has no key streams"),
        ('{"streams": [{}], "minbytes": "1M"}', 'has "minbytes" beside streams'),
    ],
)
def test_files_that_cannot_be_meant(plans: Plans, entries: Any, said: str) -> None:
    message = refusal(plans, entries)
    assert said in message
    assert message.startswith("--streams")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"coalesce": "1,2"}, "cannot be combined"),
        ({"agg_iters": 2}, "cannot be combined"),
        ({"cudagraph": 1}, "cannot be combined"),
        ({"mode": "latency"}, "cannot be combined"),
        ({"time": "loop"}, "cannot be combined"),
        ({"unique_buffers": True, "iters": 5}, "number must be known"),
    ],
)
def test_settings_that_streams_cannot_have(plans: Plans, settings: dict[str, Any], said: str) -> None:
    assert said in refusal(plans, [ALL_REDUCE], **settings)


def test_streams_have_one_operation_to_fall_back_on(plans: Plans) -> None:
    said = refusal(plans, [{}], "all_reduce", "all_gather")
    assert "--streams cannot be combined with 2 operations" in said
