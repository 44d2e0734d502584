from __future__ import annotations

import json

import pytest

from busbw.model.plain import from_bytes
from busbw.rank.world.wire import (
    FRAME_BYTES,
    Hello,
    Kind,
    Message,
    Op,
    pack,
    unpack,
)


@pytest.mark.parametrize("length", [0, 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES])
def test_message_survives_in_frames_of_bounded_size(length: int) -> None:
    message = Message(Kind.PART, bytes(length), Op.GATHER, 2**40)
    frames = pack(message)
    assert all(len(frame) <= FRAME_BYTES for frame in frames)
    assert unpack([bytes(frame) for frame in frames]) == message


def test_hello_of_a_newer_version_is_understood_enough_to_refuse_it() -> None:
    newer = {"version": "9.0", "size": 4, "rank": 1, "host": "h1", "pid": 7, "colour": "blue"}
    assert from_bytes(Hello, json.dumps(newer).encode()).version == "9.0"
