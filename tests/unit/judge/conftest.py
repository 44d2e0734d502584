"""The folder of a run as rank 0 writes it, with samples whose answers are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from busbw_testing.ranks_of_a_case import LATE, RESULT, RUN_ID, digest_rows, make_record, sample_rows

from busbw.record.folder import create
from busbw.record.write import RunWriter


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A run whose first of four cases is that of ``LATE``."""
    folder = create(tmp_path, RUN_ID)
    RunWriter(folder, make_record()).append(RESULT, sample_rows(LATE), digest_rows(LATE))
    return folder
