"""Streams on NCCL: which communicators, streams and events a round uses, and how it is enqueued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from busbw_testing.cases import case_of

from busbw.machine.native.cuda import CudaDriver
from busbw.model.plan import Limits, Plan, Stream
from busbw.rank.backends import nccl
from busbw.rank.backends.base import CallFailed, IdleCase
from busbw.rank.backends.nccl import NcclBackend
from busbw.rank.backends.streams import StreamsBackend

RANK, SIZE = 1, 4
Made = tuple[StreamsBackend, list[NcclBackend], Callable[[], list[list[str]]]]


@pytest.fixture
def made(
    build_stand_in: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Made]:
    """``made(Stream(...), ...)`` -> the connected backend, those of its streams, and what was asked since."""
    log = tmp_path / "asked"
    log.touch()
    monkeypatch.setenv("STAND_IN_LOG", str(log))

    def asked() -> list[list[str]]:
        lines = [line.split() for line in log.read_text().splitlines()]
        log.write_text("")
        return lines

    def make(*streams: Stream) -> Made:
        monkeypatch.setattr(nccl, "CudaDriver", partial(CudaDriver, build_stand_in("cuda", "STREAMS")))
        path = build_stand_in("nccl", "VERSION=22809", "STREAMS")
        plan = Plan("nccl", (), 65536, Limits(), 0, 0, nccl_path=path, streams=streams)
        own = [NcclBackend(plan.of_stream(number), 1) for number in range(len(streams))]
        backend = StreamsBackend(own)
        unique_id = bytes(i if i % 3 else 0 for i in range(128))
        world: Any = SimpleNamespace(
            rank=RANK, size=SIZE, broadcast=lambda _: unique_id, barrier=lambda: None, max=lambda own: own
        )
        backend.connect(world)
        return backend, own, asked

    return make


def prepare(backend: StreamsBackend, names: Sequence[str]) -> Any:
    return backend.prepare_step([case_of(name, SIZE) for name in names])


def words(lines: list[list[str]], own: list[NcclBackend]) -> list[tuple[str, int]]:
    """What was asked, and by which stream: A call's last argument is its stream, an event's and a wait's the
    first one.
    """
    by_stream = {str(backend._stream): number for number, backend in enumerate(own)}
    return [
        (line[0], by_stream[line[1] if line[0] in ("EventRecord", "StreamWaitEvent") else line[-1]])
        for line in lines
    ]


def test_every_stream_has_a_communicator_a_stream_and_buffers_of_its_own(made: Callable[..., Made]) -> None:
    backend, own, asked = made(Stream("all_reduce", 65536), Stream("all_gather", 4096))
    assert [line[0] for line in asked() if line[0].startswith("Comm")] == ["CommInitRank"] * 2
    assert len({each._connected().comm for each in own}) == 2
    assert len({each._stream for each in own}) == 2
    assert [each.pair.size_bytes for each in own] == [65536, 4096]
    assert len({each.pair.send for each in own} | {each.pair.recv for each in own}) == 4
    assert backend.identity.facts["streams"] == 2
    assert backend.memory_report()["buffers"] == sum(each.memory_report()["buffers"] for each in own)


def test_a_round_is_enqueued_in_turns_between_events_that_hold_it_together(made: Callable[..., Made]) -> None:
    backend, own, asked = made(Stream("all_reduce", 65536), Stream("all_gather", 65536))
    step = prepare(backend, ["all_reduce", "all_gather"])
    asked()
    looks, overlap = step.time([2, 4], 0, 1)
    lines = asked()
    assert words(lines, own) == [
        *(("EventRecord", 0), ("StreamWaitEvent", 1), ("EventRecord", 1)),
        # Both begin in the first turn; of every other turn the first stream has no call.
        *(("AllReduce", 0), ("AllGather", 1)),
        ("AllGather", 1),
        *(("AllReduce", 0), ("EventRecord", 0), ("AllGather", 1)),
        *(("AllGather", 1), ("EventRecord", 1)),
        # The next round cannot begin before all have ended; then the host waits for this one.
        *(("StreamWaitEvent", 0), ("EventRecord", 0)),
    ]
    begin = lines[0][2]
    assert lines[1][2] == begin  # the second stream waits for the first one's begin
    assert lines[-2][2] == lines[-3][2]  # and the first for the second one's end
    # Events come a microsecond apart, in this order: 0 begins at 0, 1 at 1; 0 ends at 2, 1 at 3.
    assert [own_look.elapsed_ns.tolist() for own_look in looks] == [[2000], [2000]]
    assert overlap.tolist() == [[0.5], [0.5]]


def test_rounds_have_events_of_their_own_and_untimed_ones_come_first(made: Callable[..., Made]) -> None:
    backend, own, asked = made(Stream("all_reduce", 65536), Stream("broadcast", 65536))
    step = prepare(backend, ["all_reduce", "broadcast"])
    asked()
    looks, _ = step.time([1, 1], 2, 3)
    lines = asked()
    assert sum(line[0] == "AllReduce" for line in lines) == sum(line[0] == "Broadcast" for line in lines) == 5
    records = [(int(line[1]), line[2]) for line in lines if line[0] == "EventRecord"]
    first = [event for stream, event in records if stream == own[0]._stream]
    second = [event for stream, event in records if stream == own[1]._stream]
    # Two events a round, those of the untimed rounds are the first round's; the last one is waited for.
    assert len(set(first)) == 7
    assert len(set(second)) == 6
    assert first[:4] == [first[0], first[1]] * 2
    assert all(own_look.elapsed_ns.shape == (3,) for own_look in looks)
    assert backend.max_samples_per_look * 2 + 1 <= nccl.MAX_SAMPLES_PER_LOOK + 1


def test_a_check_runs_all_streams_and_looks_at_one(made: Callable[..., Made]) -> None:
    backend, own, asked = made(Stream("all_reduce", 65536), Stream("all_gather", 65536))
    step = prepare(backend, ["all_reduce", "all_gather"])
    asked()
    step.run(0)
    assert [word for word in words(asked(), own) if word[0].startswith("All")] == [
        ("AllReduce", 0),
        ("AllGather", 1),
    ]


def test_a_rank_that_sits_out_of_a_stream_has_the_others(made: Callable[..., Made]) -> None:
    groups = ((0, 2),)
    backend, _, asked = made(Stream("all_reduce", 65536, groups=groups), Stream("all_gather", 65536))
    step = backend.prepare_step([case_of("all_reduce", 2), case_of("all_gather", SIZE)])
    asked()
    looks, overlap = step.time([3, 2], 0, 1)
    assert [line[0] for line in asked()].count("AllGather") == 2
    assert [own_look.took_part for own_look in looks] == [False, True]
    assert looks[0].elapsed_ns.tolist() == [0]
    assert str(overlap.tolist()) == "[[nan], [nan]]"  # there is nobody beside it on this rank
    assert isinstance(step.parts[0], IdleCase)
    step.close()
    backend.close()


def test_a_failed_call_names_the_library(made: Callable[..., Made], monkeypatch: pytest.MonkeyPatch) -> None:
    backend, _, _ = made(Stream("all_reduce", 65536), Stream("all_gather", 65536))
    step = prepare(backend, ["all_reduce", "all_gather"])
    monkeypatch.setenv("STAND_IN_FAILS", "AllGather")
    with pytest.raises(CallFailed, match="NCCL call failed"):
        step.run(0)
    monkeypatch.setenv("STAND_IN_FAILS", "StreamWaitEvent")
    with pytest.raises(CallFailed, match="CUDA call failed"):
        step.run(0)
