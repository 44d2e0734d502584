"""A record that comes home through an event stream, whole, once, and also in pieces."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from busbw.model.event import Event, EventKind, decode, encode, event, now_utc
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, Status, not_run
from busbw.record import close
from busbw.record.absent import absent_files
from busbw.record.arrive import Arrival, Delivery, packets
from busbw.record.folder import (
    DIGESTS_FILE,
    NCCL_FILES,
    REQUEST_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    STREAM_FILE,
    TICKET_FILE,
    create,
)
from busbw.record.read import read_record, read_samples
from busbw.record.write import RunWriter


@pytest.fixture
def home(tmp_path: Path, record: RunRecord) -> Path:
    """A front process's run folder, with its request."""
    folder = create(tmp_path / "front", record.run_id)
    empty = replace(record.plan, cases=())
    body = {"run_id": record.run_id, "argv": ["busbw", "run", "--on", "slurm"], "settings": {"on": "slurm"}}
    (folder / REQUEST_FILE).write_text(json.dumps({**body, "plan": empty.to_json()}))
    return folder


def header(record: RunRecord, folder: Path) -> Event:
    return event(
        EventKind.HEADER,
        run_id=record.run_id,
        folder=str(folder),
        plan=record.plan,
        world=record.world,
        method=record.method,
        machine=record.machine,
        environment=record.environment,
    )


@pytest.fixture
def items(home: Path, record: RunRecord, samples: np.ndarray, digests: np.ndarray) -> list[Event]:
    """What rank 0 emits of a run with two finished cases and an end, as it comes out of a launcher."""
    heard: list[Event] = []
    delivery = Delivery(home, heard.append)
    writer = RunWriter(delivery.folder, record)
    delivery.emit(header(record, delivery.folder))
    for index in range(2):
        result = CaseResult(case=index, status=Status.GOOD, time_ns=1000.0 + index, samples=4)
        writer.append(result, samples, digests)
        delivery.emit(event(EventKind.CASE, result=result))
    writer.finish(RunStatus.COMPLETE, now_utc())
    delivery.emit(event(EventKind.END, exit_code=0))
    return [item for item in (decode(f"0: {encode(item)}") for item in heard) if item is not None]


def test_the_record_that_comes_home_is_the_one_that_was_written(
    home: Path, record: RunRecord, items: list[Event], samples: np.ndarray, digests: np.ndarray
) -> None:
    arrival = Arrival(home)
    for item in items:
        assert arrival.take(item)
    read = read_record(home)
    assert [result.time_ns for result in read.results[:2]] == [1000.0, 1001.0]
    assert len(read.results) == len(record.plan.cases)
    assert (read.world, read.method, read.machine) == (record.world, record.method, record.machine)
    assert read.status is RunStatus.COMPLETE
    assert read.argv == ("busbw", "run", "--on", "slurm")  # what the user typed
    np.testing.assert_array_equal(read_samples(home), np.concatenate([samples] * 2))
    assert (home / DIGESTS_FILE).read_bytes() == digests.tobytes() * 2
    assert not (home / RESULTS_FILE).exists()


def test_every_prefix_of_a_stream_is_a_record(home: Path, items: list[Event]) -> None:
    for cut in range(1, len(items)):
        copy = home.with_name(f"{home.name}-{cut}")
        shutil.copytree(home, copy)
        arrival = Arrival(copy)
        for item in items[:cut]:
            arrival.take(item)
        assert close.close(copy, RunStatus.FAILED, now_utc(), error="the node died")
        read = read_record(copy)
        done = sum(item["event"] == EventKind.CASE for item in items[:cut])
        assert [result.case for result in read.results if result.status is Status.GOOD] == list(range(done))


def test_a_stream_that_is_read_again_counts_once(home: Path, items: list[Event]) -> None:
    first = Arrival(home)
    for item in items[:2]:
        assert first.take(item)
    with (home / STREAM_FILE).open("a") as file:
        file.write('{"busbw":1,"event":"case","resu')  # the front process was killed while writing
    second = Arrival(home)
    assert [item["event"] for item in second.replay()] == ["header", "case"]
    assert [second.take(item) for item in items] == [False, False] + [True] * (len(items) - 2)
    assert len([r for r in read_record(home).results if r.status is Status.GOOD]) == 2
    lines = (home / STREAM_FILE).read_text().splitlines()
    assert [decode(line) is not None for line in lines] == [True] * len(items)


def test_a_shared_folder_is_written_by_the_ranks_alone(home: Path, record: RunRecord) -> None:
    (home / TICKET_FILE).write_text(record.run_id + "\n")
    heard: list[Event] = []
    delivery = Delivery(home, heard.append)
    assert (delivery.is_shared, delivery.folder) == (True, home)
    delivery.emit(header(record, delivery.folder))
    delivery.emit(event(EventKind.END, exit_code=0))
    assert [item["event"] for item in heard] == ["header", "end"]
    arrival = Arrival(home)
    for item in heard:
        arrival.take(item)
    assert arrival.is_shared
    assert not (home / RUN_FILE).exists()


@pytest.mark.parametrize("ticket", ["another-run", ""])
def test_a_folder_of_the_same_name_is_not_taken_for_the_front_s(
    home: Path, record: RunRecord, ticket: str
) -> None:
    (home / TICKET_FILE).write_text(ticket)
    delivery = Delivery(home, lambda item: None)
    assert not delivery.is_shared
    assert delivery.folder != home
    delivery.emit(event(EventKind.END))
    assert not delivery.folder.exists()  # nothing stays on the node


def test_what_is_too_large_stays_and_is_named(tmp_path: Path, home: Path, record: RunRecord) -> None:
    """NCCL's own files come before the samples, which may be too large."""
    folder = create(tmp_path, "r")
    (folder / RUN_FILE).write_text(json.dumps(asdict(record)))
    (folder / SAMPLES_FILE).write_bytes(np.random.default_rng(1).bytes(100_000))
    (folder / NCCL_FILES[0]).parent.mkdir()
    for name in NCCL_FILES:
        (folder / name).write_text(f"<{name}/>")
    items = list(packets(folder, most_bytes=50_000))
    names = map(str, (RUN_FILE, *NCCL_FILES))
    assert [(item["path"], item["parts"]) for item in items] == [
        *((name, 1) for name in names),
        (str(SAMPLES_FILE), 0),
    ]
    arrival = Arrival(home)
    for item in items:
        arrival.take(item)
    assert arrival.left_out == (str(SAMPLES_FILE),)
    assert [(home / name).read_text() for name in NCCL_FILES] == [f"<{name}/>" for name in NCCL_FILES]
    assert read_record(home).plan == record.plan
    (result,) = not_run(1, 0)
    measured = replace(record, results=(replace(result, samples=9),))
    assert [DIGESTS_FILE.name in said for said in absent_files(home, measured)] == [True]


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", "request/job.json", "log/../../evil"])
def test_a_stream_writes_its_own_files_only(home: Path, path: str) -> None:
    before = sorted(home.parent.rglob("*"))
    Arrival(home).take(event(EventKind.RECORD, path=path, part=0, parts=1, data=""))
    assert sorted(set(home.parent.rglob("*")) - {home / STREAM_FILE}) == before
