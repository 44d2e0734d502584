"""Run folders and spec files that were changed, cut or made by somebody else: an error that names the file,
and never a traceback, a hang, or a number that cannot be. A sample of ``busbw_testing.damage_campaign``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from busbw_testing import damage_campaign

_SECONDS = 25.0
# Another part of the campaign every day, the same all day.
_FIRST = int(time.time()) // 86400 % 1000 * 1000 + 10_000


@pytest.mark.slow
def test_damaged_run_folders_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    runs = damage_campaign.make_runs(home, damage_campaign.RUNS[:4])
    monkeypatch.setenv("BUSBW_HOME", str(home))
    numbers = range(_FIRST, _FIRST + 500)
    found = damage_campaign.damaged_folders(home, runs, numbers, time.monotonic() + _SECONDS)
    assert found.cases
    assert found.faults == []


@pytest.mark.slow
def test_damaged_spec_files_are_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "home"))
    numbers = range(_FIRST, _FIRST + 1000)
    found = damage_campaign.damaged_specs(tmp_path, numbers, time.monotonic() + _SECONDS)
    assert found.cases
    assert found.faults == []
