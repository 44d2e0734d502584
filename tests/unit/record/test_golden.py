"""What a run writes stays as it is: other programs read it, and so must every later busbw.

BUSBW_WRITE_GOLDEN=1 writes the expectations anew. A new key is an addition; one that goes or changes its
meaning needs a new SCHEMA_VERSION or STREAM_VERSION.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.golden import is_golden

from busbw.model.event import EventKind, Joiner, decode
from busbw.model.record import RunStatus
from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, SAMPLE_DTYPE
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE
from busbw.record.parquet import compact
from busbw.record.read import read_digests, read_record, read_samples

GOLDEN: Final = Path(__file__).parent / "golden"
OLD_RUN: Final = GOLDEN / "version-0.1.0"
# What depends on the machine, the moment or the chance of a run; whose type is compared all the same.
CHANGING: Final = {
    "created", "ended", "finished", "folder", "host", "pid", "machine", "environment", "facts",
    "places", "timing_cost_ns", "busbw_version", "elapsed_s", "eta_s",
}  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """A run folder, and the standard output of both ranks."""

    folder: Path
    output: tuple[str, str]

    def events(self, rank: int) -> list[dict[str, Any]]:
        """The events of a rank, whole."""
        joiner = Joiner()
        lines = (decode(line) for line in self.output[rank].splitlines())
        return [whole for item in lines if item is not None and (whole := joiner.take(item)) is not None]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two ranks with scripted times, started as a front process starts them."""
    folder = tmp_path_factory.mktemp("home") / "20260101-000000-all_reduce-0000"
    for part in ("samples", "request", "log"):
        (folder / part).mkdir(parents=True)
    request = json.loads((GOLDEN / "request.json").read_text())
    file = folder / "request" / "request.json"
    file.write_text(json.dumps({**request, "folder": str(folder), "plan": json.dumps(request["plan"])}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"BUSBW_WORLD_SIZE": "2", "BUSBW_LOCAL_SIZE": "2", "BUSBW_ROOT": f"127.0.0.1:{port}"}
    token = secrets.token_hex(16)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "busbw.rank"],
            env=clean_environ(
                BUSBW_REQUEST=str(file),
                BUSBW_WORLD="nccl",
                BUSBW_LAUNCHER="busbw",
                BUSBW_TOKEN=token,
                BUSBW_RANK=str(rank),
                BUSBW_LOCAL_RANK=str(rank),
                **world,
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    output = tuple(rank.communicate(timeout=60)[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0], output
    return Ran(folder, (output[0], output[1]))


def _shape(value: Any, name: str = "") -> Any:
    """The value, with what changes from run to run replaced by its type."""
    if name in CHANGING:
        return _types(value)
    if isinstance(value, dict):
        return {key: _shape(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return value


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: type(each).__name__ for key, each in value.items()}
    return list(map(_types, value)) if isinstance(value, list) else type(value).__name__


def test_the_record(ran: Ran) -> None:
    fields = json.loads((ran.folder / "run.json").read_text())
    is_golden(json.dumps(_shape(fields), indent=1) + "\n", GOLDEN / "run.json")


def test_the_columns_of_samples_and_digests(ran: Ran) -> None:
    columns = {}
    for file, dtype in ((SAMPLES_FILE, SAMPLE_DTYPE), (DIGESTS_FILE, DIGEST_DTYPE)):
        rows, rest = divmod((ran.folder / file).stat().st_size, dtype.itemsize)
        assert rest == 0
        kinds = {name: f"{kind[0]} at {kind[1]}" for name, kind in (dtype.fields or {}).items()}
        columns[str(file)] = {**kinds, "rows": rows}
    is_golden(json.dumps(columns, indent=1) + "\n", GOLDEN / "columns.json")


def test_the_event_stream(ran: Ran) -> None:
    seen = [[f"rank {rank}", _shape(item)] for rank in range(2) for item in ran.events(rank)]
    header = next(item for _, item in seen if item["event"] == EventKind.HEADER)
    assert header["plan"] == json.loads((GOLDEN / "run.json").read_text())["plan"]
    header["plan"] = "as in the record"
    is_golden(json.dumps(seen, indent=1) + "\n", GOLDEN / "events.json")


def test_every_line_of_a_rank_is_an_event(ran: Ran) -> None:
    assert all(decode(line) is not None for output in ran.output for line in output.splitlines())


def test_a_record_of_version_0_1_0_still_reads() -> None:
    record = read_record(OLD_RUN)
    assert (record.busbw_version, record.status) == ("0.1.0", RunStatus.COMPLETE)
    assert [result.case for result in record.results] == list(range(len(record.plan.cases)))
    samples, digests = read_samples(OLD_RUN), read_digests(OLD_RUN)
    of_all = samples["rank"] == MAX_OVER_RANKS
    assert int(of_all.sum()) == sum(result.samples for result in record.results) > 0
    assert set(digests["rank"].tolist()) == {0, 1}


def test_what_is_written_today_is_what_was_written_then(ran: Ran, tmp_path: Path) -> None:
    old, new = read_record(OLD_RUN), read_record(ran.folder)
    assert [result.time_ns for result in new.results] == [result.time_ns for result in old.results]
    compacted = tmp_path / "run"
    shutil.copytree(ran.folder, compacted)
    assert compact(compacted)
    for read in (read_samples, read_digests):
        assert np.array_equal(read(compacted), read(ran.folder))
