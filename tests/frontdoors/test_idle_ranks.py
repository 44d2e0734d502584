"""Ranks that have no part in an operation are in none of its times, on real MPI ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ

from busbw.record.folder import run_folders
from busbw.record.read import read_digests, read_record

PAIR = {"src_target_pairs": [[[0, 1], [1, 0]]]}
# Ranks 0 and 1 exchange; 2 and 3 neither send nor receive.
COUNTS = {
    "metadata": [{"send_counts": [[0, 4, 0, 0], [4, 0, 0, 0], [0] * 4, [0] * 4][rank]} for rank in range(4)]
}


def ran(folder: Path, *words: str) -> Path:
    """The run folder of a command that ends well."""
    home = folder / "home"
    done = subprocess.run(
        [sys.executable, "-m", "busbw", *words],
        env=clean_environ(BUSBW_HOME=str(home), BUSBW_BACKEND="mpi", BUSBW_NCCOM_TEST="none"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    (found,) = run_folders(home)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (COUNTS, ("nccom-test", "-r", "4", "alltoallv", "-d", "fp32", "--variable-size-op-metadata")),
        (PAIR, ("run", "permute", "--ranks", "4", "-a", "1", "-n", "20", "-d", "uint8", "--pairs")),
    ],
    ids=["counts", "native"],
)
def test_the_mean_is_over_ranks_that_send_or_receive(tmp_path: Path, content: Any, words: Any) -> None:
    file = tmp_path / "what.json"
    file.write_text(json.dumps(content))
    folder = ran(tmp_path, *words, str(file), "-b", "1M", "-e", "1M")
    result = next(result for result in read_record(folder).results if result.time_ns)
    digests = read_digests(folder)
    own = digests[digests["case"] == result.case]
    assert sorted(own["rank"]) == [0, 1]
    assert own["mean_ns"].min() <= result.mean_ns <= own["mean_ns"].max()
