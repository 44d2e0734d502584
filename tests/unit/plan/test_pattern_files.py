"""Files that say who exchanges what: what is right is read, everything else is refused by name."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.damage import damaged_bytes, damaged_value

from busbw.errors import UsageError
from busbw.foreign.nccom.options import parse
from busbw.foreign.nccom.settings import run_settings
from busbw.model.counts import gathered_part, own_part
from busbw.model.plan import Plan
from busbw.plan.counts_file import read_matrix, read_metadata
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.plan.pattern import read_groups, read_pairs, split_groups

DAMAGED: Final = 1_000
RANKS: Final = 3
STREAMS: Final = {
    "streams": [
        {"operation": "all_reduce", "minbytes": "1K", "maxbytes": "4K", "stepfactor": 2, "check": True},
        {"operation": "all_gather", "minbytes": 48, "maxbytes": "1K", "ops_per_iter": 2, "datatype": "int32"},
        {"operation": "alltoallv", "maxbytes": "1K", "skew": 2, "group_size": 3, "iters": 5, "seed": 3},
    ]
}
NCCOM_STREAMS: Final = {
    "streams": [
        {"operation": "allr", "minbytes": "1kb", "maxbytes": "4kb", "stepfactor": 2, "check": "all_ones"},
        {"operation": "allg", "minbytes": 48, "maxbytes": "1KB", "ops_per_iter": 2, "unique_buff": False},
        {"operation": "redsct", "data_parallel_dimension": 3, "datatype": "fp32", "seed": 3},
    ]
}
GROUPS: Final = {"replica_groups": [[[0, 2], [1]]]}
PAIRS: Final = {"src_target_pairs": [[[0, 1], [1, 2], [2, 0]]]}
METADATA: Final = {
    "metadata": [
        {
            "send_counts": [4, 8, 0],
            "send_displs": [0, 4, 12],
            "recv_counts": [4, 1, 0],
            "recv_displs": [0, 8, 9],
        },
        {"send_counts": [1, 2, 3], "send_displs": [0, 1, 3], "recv_counts": [], "recv_displs": [0, 10, 20]},
        {
            "send_counts": [0, 5, 6],
            "send_displs": [0, 0, 5],
            "recv_counts": [0, 3, 6],
            "recv_displs": [0, 0, 3],
        },
    ]
}


Reader = Callable[[str], Any]
READ: Final[dict[str, Reader]] = {
    "groups": lambda path: read_groups(path, RANKS),
    "pairs": lambda path: read_pairs(path, RANKS),
    "counts": lambda path: read_metadata(path, "alltoallv", RANKS),
    "matrix": lambda path: read_matrix(path, 1.0, 2),
}
NO_PERMUTATIONS: Final = (
    ([[0, 1], [0, 2]], "rank 0 is the source of an earlier pair"),
    ([[0, 1], [2, 1]], "rank 1 is the target of an earlier pair"),
    ([[0]], "has 1 entries"),
    ([[0, 3]], "names rank 3"),
)
NO_COUNTS: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"send_counts": [1, 2]}, "entry 0: send_counts has 2 numbers, but 3 ranks need 3"),
    ({"send_counts": [1, 2, -3]}, "entry 0, send_counts[2] is -3"),
    ({"send_counts": [1, 2, 10**30]}, "send_counts[2] is a number beyond 2^48"),
    ({"send_counts": [0, 0, 0]}, "moves nothing"),
    ({"recv_counts": [1, 2, 3]}, "rank 0 expects 2 elements from rank 1, which sends 1"),
    ({"recv_displs": [0, 0, 0]}, "receives two segments into element 0"),
    ({"recv_displs": [0, 9]}, "recv_displs has 2 numbers"),
    ({"sendcounts": [1]}, "unknown key"),
)
NO_MATRICES: Final = (
    ("1 2\n3", "not square"),
    ("", "not square"),
    ("16 x\n1 2", "row 0, column 1 is"),
    ("16 -1\n1 2", "from 0 up"),
    ("1e300 1\n1 2", "beyond 2^48"),
    ("1 2\n3 4", "moves nothing"),
    ("16", "is for 1 ranks, these are 2"),
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    def write_file(content: Any) -> str:
        path = tmp_path / "file.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write_file


# ---- groups -------------------------------------------------------------------------------------------


def test_replica_groups_may_differ_in_size_and_leave_ranks_out(write: Callable[[Any], str]) -> None:
    assert read_groups(write({"replica_groups": [[[3, 1], [0]]]}), 5) == ((3, 1), (0,))


@pytest.mark.parametrize(
    ("read", "content", "said"),
    [
        ("groups", {"replica_groups": [[[0, 1], [1]]]}, "[0][1]: rank 1 is there in group 0 too"),
        ("groups", {"replica_groups": [[[0, 0]]]}, "rank 0 is there twice"),
        ("groups", {"replica_groups": [[[0, 9]]]}, "names rank 9, the ranks are 0..2"),
        ("groups", {"replica_groups": [[[0], []]]}, "[0][1] is empty"),
        ("groups", {"replica_groups": [[0, 1]]}, "[0][0] is 0, not a list"),
        ("groups", {"replica_groups": [[[0]], [[1]]]}, "has 2 outer entries"),
        ("groups", {"replica_groups": []}, "replica_groups is empty"),
        ("groups", {"replica_groups": [[[-1]]]}, "[0][0][0] is -1"),
        ("groups", {"groups": []}, "has no key replica_groups"),
        ("groups", "[" * 100_000, "is not JSON"),
        *(("pairs", {"src_target_pairs": [pairs]}, said) for pairs, said in NO_PERMUTATIONS),
        *(
            ("counts", {"metadata": [{"send_counts": [1, 2, 3], **change}]}, said)
            for change, said in NO_COUNTS
        ),
        *(("matrix", text, said) for text, said in NO_MATRICES),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_place(
    write: Callable[[Any], str], read: str, content: Any, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        READ[read](write(content))
    assert said in refused.value.message


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="is a pipe"):
        read_groups(str(path), 2)
    with pytest.raises(UsageError, match="or a device"):
        read_groups("/dev/zero", 2)


@pytest.mark.parametrize(
    ("expression", "groups"),
    [
        ("MOD 2", ((0, 2, 4), (1, 3))),
        ("div 2", ((0, 1), (2, 3), (4,))),
        ("AND 0x1", ((0, 2, 4), (1, 3))),
        ("0x1", ((0, 2, 4), (1, 3))),
        ("OR 0x3", ((0, 1, 2, 3), (4,))),
        ("DIV 2 MOD 2", ((0, 1, 4), (2, 3))),
    ],
)
def test_a_split_groups_ranks_by_the_value_of_the_expression(expression: str, groups: Any) -> None:
    assert split_groups(expression, 5) == groups


@pytest.mark.parametrize(
    "expression",
    ["", "XOR 1", "MOD 0", "DIV 0x0", "MOD 1.5", "MOD 1 2"],
)
def test_other_splits_are_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="--split"):
        split_groups(expression, 4)


# ---- pairs --------------------------------------------------------------------------------------------


def test_pairs_may_be_of_one_rank_and_leave_ranks_out(write: Callable[[Any], str]) -> None:
    assert read_pairs(write({"src_target_pairs": [[[0, 1], [4, 4]]]}), 5) == ((0, 1), (4, 4))


# ---- counts -------------------------------------------------------------------------------------------


def test_metadata_with_an_entry_for_each_rank(write: Callable[[Any], str]) -> None:
    table = read_metadata(write(METADATA), "alltoallv", RANKS)
    assert table.size_bytes(4) == 4 * 15  # rank 1 receives 8 + 2 + 5
    assert own_part(table, 15, 4, 1).recv_counts == (8, 2, 5)
    assert own_part(table, 15, 4, 1).recv_offsets == (0, 10, 20)
    assert table.buffer_bytes(60) == 100


def test_one_entry_is_everybodys_and_either_key_serves(write: Callable[[Any], str]) -> None:
    table = read_metadata(write({"alltoallv_metadata": [{"send_counts": [1, 2, 3]}]}), "alltoallv", RANKS)
    assert table.whole == 9  # rank 2 receives 3 from each
    assert own_part(table, 9, 4, 0).recv_counts == (1, 1, 1)


def test_an_all_gatherv_sends_one_segment(write: Callable[[Any], str]) -> None:
    entries = [{"send_counts": [count], "recv_counts": [3, 0, 5]} for count in (3, 0, 5)]
    table = read_metadata(write({"metadata": entries}), "all_gatherv", RANKS)
    assert gathered_part(table, 8, 4, 2).send_counts == (5,)
    assert gathered_part(table, 8, 4, 0).recv_counts == (3, 0, 5)


def test_a_matrix_is_scaled_cut_and_may_be_larger_than_the_group(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("100 200 150\n50\t100 75\n\n300 150 200\n")
    table = read_matrix(str(path), 1.0, 3)
    assert table.send == ((96, 192, 144), (48, 96, 64), (288, 144, 192))
    assert table.whole == 624  # rank 2 sends 288 + 144 + 192
    assert read_matrix(str(path), 0.5, 2).send == ((48, 96), (16, 48))


# ---- damage -------------------------------------------------------------------------------------------


def plan_streams(path: str) -> Plan:
    """What a run of the streams would do."""
    settings = RunSettings(streams=path, minbytes=Size("8"), maxbytes=Size("1K"), iters=4)
    return make_plan((), settings, "null", RANKS)


def plan_nccom_streams(path: str) -> Plan:
    """The same by nccom-test's front door, which has streams of another spelling."""
    options = parse(["-r", str(RANKS), "-b", "8", "-e", "1kb", "-n", "4", "--streams-json", path])
    settings = run_settings(options, {"BUSBW_BACKEND": "null"})
    return make_plan((), settings, "null", RANKS)


READERS: Final[tuple[tuple[Any, Reader], ...]] = (
    (GROUPS, READ["groups"]),
    (PAIRS, READ["pairs"]),
    (METADATA, READ["counts"]),
    ({"metadata": [{"send_counts": [7]}]}, lambda path: read_metadata(path, "all_gatherv", RANKS)),
    (STREAMS, plan_streams),
    (NCCOM_STREAMS, plan_nccom_streams),
)


def damaged(content: Any, draw: random.Random) -> str:
    """The file's text with some values damaged, and in every fifth its bytes."""
    for _ in range(draw.randint(1, 3)):
        content = damaged_value(content, draw)
    text = json.dumps(content)
    return damaged_bytes(text.encode(), draw).decode(errors="replace") if draw.random() < 0.2 else text


def test_damaged_files_are_read_right_or_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but UsageError ever comes out, and what is accepted is consistent between ranks."""
    draw, reasons, texts = random.Random(20261122), list[str](), [""]
    monkeypatch.setattr("busbw.plan.json_file.read_text", lambda _path, _flag: texts[0])
    for number in range(DAMAGED):
        content, read = READERS[number % len(READERS)]
        texts[0] = damaged(content, draw)
        try:
            found = read("file.json")
        except UsageError as error:
            reasons.append(error.message)
            continue
        if read is READ["counts"]:
            parts = [own_part(found, found.whole, 4, rank) for rank in range(RANKS)]
            for me, part in enumerate(parts):
                assert [other.send_counts[me] for other in parts] == list(part.recv_counts)
    assert all(reasons)
    assert DAMAGED - len(reasons) > DAMAGED // 100  # the damage is not always so great that nothing passes
