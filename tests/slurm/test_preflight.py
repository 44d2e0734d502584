"""Faults that preflight names on a real Slurm: some before anything is submitted, some on the nodes."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

NULL = ("--backend", "null", "--world", "nccl", "--on", "slurm")
RUN = ("run", "all_reduce", "-b", "8", "-e", "8", *NULL)


def test_a_shared_folder_and_none(front: Any, far_front: Any) -> None:
    done = front.run("preflight", *NULL, "-N", "4", "--strict")
    assert done.code == 0, done
    assert "on 4 hosts" in done.out
    assert "# result   nothing found" in done.out
    assert front.record()["findings"] == []
    done = far_front.run("preflight", *NULL, "-N", "2", "--strict")
    assert done.code == 4
    assert done.error.startswith("no node sees the run folder")
    assert done.hint == "set BUSBW_HOME to a folder that the nodes share"


def test_one_rank_too_few(front: Any) -> None:
    """srun takes the last of two contradicting words."""
    done = front.run(*RUN, "-N", "4", "--srun-args=--ntasks=3")
    assert done.code == 4, done
    assert "3 ranks take part, but 4 were requested" in done.error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-N", "9", "--strict"), "Slurm would not start this job now: "),
        (("-N", "2", "--image", "ubuntu"), "this Slurm cannot start containers"),
    ],
)
def test_what_slurm_cannot_do_is_known_before_a_job_is_submitted(
    front: Any, words: tuple[str, ...], error: str
) -> None:
    done = front.run("preflight", *NULL, *words)
    assert done.code == 4, done
    assert done.error.startswith(error)
    assert "submitted" not in done.err
    assert "# error    " + error in done.out
