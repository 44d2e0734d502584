from __future__ import annotations

import re
from dataclasses import asdict
from importlib import import_module

import pytest

from busbw.launch.base import Command
from busbw.launch.engine import Handle, Job, JobRequest, Work, load
from busbw.model.plain import from_plain
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.record.folder import new_run_id

# Kubernetes' names are the narrowest (RFC 1123 labels), and an operator adds its own endings to them.
LEGAL = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")


@pytest.mark.parametrize("name", ["all_reduce", "all_reduce+sendrecv+x-more", "exec"])
def test_job_names_are_legal_everywhere_and_unique(name: str) -> None:
    ids = {new_run_id(name) for _ in range(20)}
    names = {Job(run_id, "", Work(()), LaunchSettings()).name for run_id in ids}
    assert len(names) == len(ids)
    assert all(LEGAL.match(job) for job in names), names


def test_work_of_busbw_gets_the_python_that_has_it() -> None:
    assert Work(("run", "all_reduce")).argv("/x/python") == ("/x/python", "-m", "busbw", "run", "all_reduce")
    assert Work(("sh", "-c", "echo $A"), is_busbw=False).argv("/x/python") == ("sh", "-c", "echo $A")


def test_a_handle_survives_its_file() -> None:
    handle = Handle("slurm", "17", "busbw-1", {"host": "a"})
    assert from_plain(Handle, asdict(handle)) == handle


def test_a_request_prints_its_files_and_what_submits_them() -> None:
    command = Command(("sbatch", "a b/job.sbatch"))
    one = JobRequest("slurm", "n", 2, 2, {"job.sbatch": "#!/bin/bash\n"}, (command,))
    assert str(one) == "#!/bin/bash\n\n# sbatch 'a b/job.sbatch'"
    two = JobRequest("hosts", "n", 2, 2, {"hostfile": "a\n", "rank.sh": "x"}, (command,))
    assert str(two).startswith("# hostfile\na\n\n# rank.sh\nx\n")


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_engine_has_the_whole_contract(name: str) -> None:
    engine = load(name)
    assert engine.WAIT_SECONDS is None or engine.WAIT_SECONDS > 0
    for part in ("inquire", "request", "submit", "follow", "cancel", "state", "collect", "clean"):
        assert callable(getattr(engine, part)), part
    row = ENGINES[name]
    assert callable(import_module(row.check or row.module).check)
