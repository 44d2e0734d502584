from __future__ import annotations

from dataclasses import dataclass

import pytest

from busbw.model.event import EventKind, Joiner, decode, encode, encode_parts, event


@dataclass(frozen=True)
class Point:
    x: int


ITEM = event(EventKind.CASE, result=Point(3), text='a "quoted" line\nand {"busbw":1} inside')


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


LONG = event(
    EventKind.HEADER, seq=1, plan=[{"case": number, "text": str(number**9)} for number in range(3000)]
)


def test_a_long_event_travels_in_lines_that_a_pipe_takes_whole() -> None:
    lines = encode_parts(LONG)
    assert len(lines) > 5
    assert all(len(line.encode()) + 1 <= 4096 for line in lines)
    joiner = Joiner()
    heard = [joiner.take(decode(f"[0] {line}") or {}) for line in lines]
    assert heard == [*[None] * (len(lines) - 1), LONG]


def test_parts_that_come_again_or_mixed_with_others_make_the_same_events() -> None:
    other = event(EventKind.RECORD, data=LONG["plan"][:1000])
    ours, theirs = encode_parts(LONG), encode_parts(other)
    mixed = [*ours[:2], theirs[0], *ours[:-1], *theirs[1:], ours[-1], *theirs]
    joiner = Joiner()
    heard = [joiner.take(decode(line) or {}) for line in mixed]
    assert [item for item in heard if item is not None] == [other, LONG, other]


def test_a_lost_part_is_no_event() -> None:
    joiner = Joiner()
    lines = encode_parts(LONG)
    assert [joiner.take(decode(line) or {}) for line in lines[:2] + lines[3:]] == [None] * (len(lines) - 1)
    assert joiner.take(ITEM) == ITEM
