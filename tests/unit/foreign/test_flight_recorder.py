"""Dumps of PyTorch's flight recorder, as torch 2.11 writes them: pickles, and the same as JSON."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.foreign.flight_recorder.read import read_folder


def entry(
    number: int, operation: str = "all_reduce", state: str = "completed", size: int = 1024
) -> dict[str, Any]:
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{operation}",
        "time_created_ns": 1_700_000_000_000_000_000 + number,
        "input_sizes": [(size,)],
        "input_dtypes": ["Float"],
        "output_sizes": [(size,)],
        "output_dtypes": ["Float"],
        "state": state,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "train.py", "line": 10 + number}],
    }


def write_dumps(
    folder: Path, entries: dict[int, list[dict[str, Any]]], ranks: int, form: str = "pickle"
) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, own in entries.items():
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
        dump = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": own}
        data = pickle.dumps(dump) if form == "pickle" else json.dumps(dump).encode()
        (folder / f"nccl_trace_rank_{rank}{'' if form == 'pickle' else '.json'}").write_bytes(data)
    return folder


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_both_forms_are_read(tmp_path: Path, form: str) -> None:
    own = {0: [entry(1), entry(2, state="started")], 1: [entry(1)]}
    (group,) = read_folder(write_dumps(tmp_path, own, 3, form))
    assert group.members == (0, 1, 2)
    assert {rank: list(found) for rank, found in group.entries.items()} == {0: [1, 2], 1: [1]}
    assert group.entries[0][2].frames == ("step (train.py:12)",)


class Evil:
    """Runs a command in who loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("run-by-the-pickle",))


def test_a_pickle_that_would_run_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Evil()]}))
    with pytest.raises(UsageError, match="an object"):
        read_folder(tmp_path)
    assert not (tmp_path / "run-by-the-pickle").exists()


def test_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no dump"):
        read_folder(tmp_path)
    (tmp_path / "notes1").write_text("no dump")
    with pytest.raises(UsageError, match="notes1 is no dump"):
        read_folder(tmp_path)
