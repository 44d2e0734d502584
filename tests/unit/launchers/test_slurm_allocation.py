"""The job that holds nodes for many launches, and what launches are inside it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.launchers.engine import Job, Work
from busbw.launchers.slurm_allocation import as_steps, is_wanted, job_around, reason_of, request
from busbw.launchers.slurm_script import render
from busbw.launchers.slurm_state import Reading
from busbw.settings.launch import LaunchSettings

FACTS: Mapping[str, str] = {"gpus": "0", "mpi": "pmi2", "partition": "fast"}
NEW = {
    "partition": "fast",
    "account": "team",
    "time_limit": "2:00:00",
    "segment": 2,
    "sbatch_args": "--qos 'a b' --constraint=h100",
}


def held(counts: tuple[int, ...], facts: Mapping[str, str] = FACTS, **fields: Any) -> tuple[str, ...]:
    own = {name: fields.pop(name) for name in ("backend", "ranks") if name in fields}
    launch = LaunchSettings(on="slurm", **{"nodes": ",".join(map(str, counts)), **fields})
    (command,) = request(Job("20261126-1-setups-ab", "", Work(()), launch, **own), counts, facts).commands
    return command.argv


def test_it_is_asked_for_as_a_job_of_its_own_is() -> None:
    launch = LaunchSettings(on="slurm", nodes="4", **NEW)
    job = Job("20261126-1-all_reduce-ab", "/runs/R", Work(("run",)), launch, backend="mpi")
    of_launch = [word for word in render(job, FACTS).options if not word.startswith(("--output", "--error"))]
    words = held((2, 4), backend="mpi", **NEW)
    assert words[:2] == ("sbatch", "--parsable")
    assert words[-1] == "--wrap=exec sleep infinity"
    assert [word for word in words[2:-1] if not word.endswith("=/dev/null")] == of_launch
    assert words.index("--qos") < words.index("a b") < words.index("--constraint=h100")
    assert shlex.split(shlex.join(words)) == list(words)


@pytest.mark.parametrize(
    ("counts", "fields", "nodes", "per_node"),
    [
        ((2, 8, 4), {}, 8, 1),
        ((2, 8, 4), {"ranks_per_node": 4}, 8, 4),
        ((2, 4), {"ranks": 8}, 4, 4),
        ((3,), {"ranks": 7}, 3, 3),
    ],
)
def test_it_has_room_for_every_launch(
    counts: tuple[int, ...], fields: dict[str, Any], nodes: int, per_node: int
) -> None:
    words = held(counts, **fields)
    assert f"--nodes={nodes}" in words
    assert f"--ntasks-per-node={per_node}" in words
    assert "--exclusive" in words


def test_gpus_and_shared_nodes() -> None:
    assert "--gpus-per-node=8" in held((2,), {**FACTS, "gpus": "8"}, backend="auto")
    assert "--gpus-per-node=8" not in held((2,), {**FACTS, "gpus": "8"}, backend="mpi")
    assert "--exclusive" not in held((2,), exclusive=False)


def test_what_no_allocation_can_be() -> None:
    with pytest.raises(UsageError, match="how many nodes is not said"):
        held(())
    with pytest.raises(UsageError, match="--sbatch-args --array=2 is for busbw to say"):
        held((2,), sbatch_args="--array=2")


def test_a_step_is_not_asked_what_the_job_was() -> None:
    launch = LaunchSettings(
        on="slurm", nodes="2,4", exclusive=False, wait="5m", mpi="none", srun_args="--cpu-bind=none", **NEW
    )
    assert as_steps(launch, "17") == LaunchSettings(
        on="slurm", nodes="2,4", job_id="17", mpi="none", srun_args="--cpu-bind=none"
    )


def test_where_one_is_taken() -> None:
    slurm, around = LaunchSettings(on="slurm", nodes="2"), {"SLURM_JOB_ID": "9"}
    assert [is_wanted(slurm), is_wanted(replace(slurm, job_id="7"))] == [True, False]
    assert not is_wanted(LaunchSettings(on="hosts"))
    assert job_around(slurm, around) == "9"
    assert job_around(slurm, {}) == job_around(replace(slurm, job_id="7"), around) == ""
    assert job_around(replace(slurm, partition="fast"), around) == ""
    assert job_around(LaunchSettings(on="hosts"), around) == ""


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("RUNNING", ""),
        ("COMPLETING", "its state is COMPLETING, TimeLimit"),
        ("TIMEOUT", "its time limit came"),
        ("COMPLETED", "its state is COMPLETED, TimeLimit"),
        ("", "Slurm does not know the job any more"),
    ],
)
def test_when_nothing_can_be_started_any_more(state: str, why: str) -> None:
    assert reason_of(Reading(state, "TimeLimit")) == why
    assert reason_of(Reading("RUNNING", is_late=True)) == "its time limit came"
