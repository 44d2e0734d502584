"""What Slurm says of a job before it is submitted, by stand-ins for its commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from busbw_testing.stand_ins import stand_in

from busbw.launch.base import Command
from busbw.launch.engine import JobRequest
from busbw.launch.slurm.engine import image_findings, tried
from busbw.model.finding import Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING
REQUEST = JobRequest(
    "slurm",
    "busbw-x",
    4,
    2,
    {"job.sbatch": "#!/bin/bash\n#SBATCH --nodes=2\n"},
    (Command(("sbatch", "--parsable", "--nodes=2", "/runs/R/request/job.sbatch")),),
)


def test_slurm_tries_the_job_as_it_would_be_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "sbatch", f'[ "$*" = "--test-only --nodes=2" ] && cat >{tmp_path}/script')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert list(tried(REQUEST)) == []
    assert (tmp_path / "script").read_text() == REQUEST.files["job.sbatch"]


@pytest.mark.parametrize(
    ("said", "words", "hint"),
    [
        ("allocation failure: Invalid partition name specified", "Invalid partition name", "sinfo"),
        ("sbatch: error: Invalid --time specification", "Invalid --time specification", "--time-limit"),
    ],
)
def test_what_slurm_would_not_start_is_said_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, words: str, hint: str
) -> None:
    stand_in(tmp_path, "sbatch", f"echo '{said}' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (finding,) = tried(REQUEST)
    assert finding.severity is WARNING
    assert finding.claim.startswith(f"Slurm would not start this job now: {words}")
    assert hint in finding.hint


def test_an_image_needs_pyxis_and_its_file() -> None:
    with_pyxis = "  --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    assert list(image_findings("ubuntu", with_pyxis, exists=False)) == []
    assert [each.severity for each in image_findings("/fsx/x.sqsh", with_pyxis, exists=False)] == [WARNING]
    assert [each.severity for each in image_findings("ubuntu", "", exists=False)] == [ERROR]
