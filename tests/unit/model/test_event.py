from __future__ import annotations

from dataclasses import dataclass

import pytest

from busbw.model.event import EventKind, decode, encode, event
from busbw.model.result import CaseResult, Status


@dataclass(frozen=True)
class Point:
    x: int


ITEM = event(EventKind.CASE, result=Point(3), text='a "quoted" line\nand {"busbw":1} inside')


def test_values_become_plain() -> None:
    assert ITEM["result"] == {"x": 3}
    assert (ITEM["busbw"], ITEM["event"]) == (1, "case")


def test_one_event_is_one_line() -> None:
    assert "\n" not in encode(ITEM)
    assert decode(encode(ITEM)) == ITEM


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "[0] ", "node7: 12: ", "\x1b[0m", "{noise} "])
def test_events_are_found_behind_a_launchers_prefix(prefix: str) -> None:
    assert decode(prefix + encode(ITEM)) == ITEM


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NCCL INFO Bootstrap : Using eth0",
        '{"event":"case"}',
        '{"busbw":99,"event":"case"}',
        '{"busbw":1}',
        '{"busbw":"1","event":"case"}',
        encode(ITEM)[:-1],
        encode(ITEM)[: len(encode(ITEM)) // 2],
        encode(ITEM) + encode(ITEM),
    ],
)
def test_what_is_no_whole_event_is_text(line: str) -> None:
    assert decode(line) is None


def test_trailing_space_does_not_hide_an_event() -> None:
    assert decode(encode(ITEM) + " \r") == ITEM


def test_a_result_with_no_numbers_travels() -> None:
    item = event(EventKind.CASE, result=CaseResult(0, Status.NOT_APPLICABLE))
    assert decode(encode(item))["result"]["time_ns"] is None  # type: ignore[index]
