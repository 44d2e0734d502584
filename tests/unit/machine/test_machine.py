from __future__ import annotations

import json
from typing import TYPE_CHECKING

from busbw.machine.machine import read_environment_record, read_machine

if TYPE_CHECKING:
    import pytest


def test_record_of_this_machine_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_TOKEN", "s3cret-of-the-job")
    text = json.dumps([read_machine(), read_environment_record()])
    assert "s3cret-of-the-job" not in text
    machine, environment = json.loads(text)
    assert machine["host"]["processors"]["usable_cores"] >= 1
    parts = {"host", "available_memory", "nics", "gpus", "gpu_clocks", "libraries", "image"}
    assert set(machine) == parts
    assert environment["redacted"] == ["BUSBW_TOKEN"]
