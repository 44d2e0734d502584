from __future__ import annotations

import time
from pathlib import Path

from busbw.launch.leftovers import remove_leftovers


def test_files_that_nobody_holds_go_and_others_stay(tmp_path: Path) -> None:
    began_s = time.time() - 1
    left, held, other = (tmp_path / name for name in ("mpich_shm_1_0", "nccl-abcdef", "notes"))
    left.touch()
    other.touch()
    with held.open("w"):
        remove_leftovers(began_s, str(tmp_path))
        assert sorted(tmp_path.iterdir()) == [held, other]
        remove_leftovers(time.time() + 60, str(tmp_path))
    assert sorted(tmp_path.iterdir()) == [held, other]  # of an earlier launch
