"""A run whose writer is gone is known as such, and one that goes on is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.cli.list_runs import list_runs
from busbw.model.record import RunRecord
from busbw.record.folder import WRITER_FILE, create
from busbw.record.owner import Owner, is_abandoned
from busbw.record.results import write_record

if TYPE_CHECKING:
    import pytest

HOLD = """
import sys; from pathlib import Path
from busbw.record.folder import WRITER_FILE
from busbw.record.owner import Owner
owner = Owner(Path(sys.argv[1]), WRITER_FILE); owner.take(); print("taken", flush=True); sys.stdin.read()
"""


def test_a_killed_run_is_listed_as_killed(
    tmp_path: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    folder = create(tmp_path, record.run_id)
    write_record(folder, record)
    assert not is_abandoned(folder)  # nobody said who writes it
    with subprocess.Popen(
        (sys.executable, "-c", HOLD, str(folder)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert not is_abandoned(folder)
        os.kill(writer.pid, signal.SIGKILL)
    assert is_abandoned(folder)
    list_runs(format="json")
    assert [row["status"] for row in json.loads(capsys.readouterr().out)] == ["killed"]


def test_another_host_is_not_judged(tmp_path: Path, record: RunRecord) -> None:
    folder = create(tmp_path, record.run_id)
    with Owner(folder, WRITER_FILE) as owner:
        owner.take()
    assert is_abandoned(folder)
    (folder / WRITER_FILE).write_text(json.dumps({"pid": 1, "host": "elsewhere.invalid"}))
    assert not is_abandoned(folder)
