"""Whole job scripts as text, and what decides them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import is_golden
from busbw_testing.stand_ins import stand_in
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import SiteError, UsageError
from busbw.launch.batch import END_MARK
from busbw.launch.engine import Job, Work
from busbw.launch.slurm import engine
from busbw.launch.slurm.script import mpi_plugin, render, sbatch_words, shape
from busbw.launch.topology.order import read
from busbw.plan.flags.launch import LaunchSettings

GOLDEN = Path(__file__).parent / "golden" / "slurm"
FACTS: Mapping[str, str] = {
    "python": "/env/bin/python",
    "user_id": "1000",
    "setup": "",
    "mpi": "pmix none pmi2",
    "gpus": "0",
    "family": "mpich",
}
GPUS = {**FACTS, "gpus": "8"}
UNASKED = {name: value for name, value in FACTS.items() if name != "mpi"}
TOPOLOGY = {"topology": read([("lines", "h1 s0.s1\nh2 s0.s2\nh3 s0.s1\n")])}
COMMAND = Work(("train", "--lr", "a b"), is_busbw=False)


def job(words: str = "run all_reduce --format=jsonl --deliver=/runs/R", **settings: Any) -> Job:
    own = {name: settings.pop(name) for name in ("environ", "backend", "world", "ranks") if name in settings}
    launch = LaunchSettings(on="slurm", **{"nodes": "2", **settings})
    run_id = "20261122-101500-all_reduce-3f9a"
    return Job(run_id, f"/runs/{run_id}", Work(tuple(words.split())), launch, **own)


CASES: Mapping[str, tuple[Job, Mapping[str, str]]] = {
    "mpich": (job(), FACTS),
    "openmpi": (
        job(mpi="openmpi", ranks_per_node=4, partition="fast", account="team", time_limit="20:00"),
        FACTS,
    ),
    "gpus": (
        job(nodes="16", segment=16, environ={"NCCL_DEBUG": "INFO", "NAME": "it's $(one)\nof two"}),
        GPUS,
    ),
    "container": (
        job(image="docker://registry.example#a/b:1", mounts="/data:/data", environ={"NCCL_DEBUG": "INFO"}),
        {**GPUS, "user_id": "0"},
    ),
    "setup": (job(mpi="none"), {**FACTS, "setup": "module load nccl\n"}),
    "in-an-allocation": (
        job(job_id="4711", nodes="", srun_args="--cpu-bind=none"),
        {**FACTS, "job_nodes": "4"},
    ),
    # CPU ranks in an image: what installing busbw puts there is MPICH.
    "container-mpi": (job(image="busbw.sqsh"), {**FACTS, "family": ""}),
    "exec": (replace(job(ranks_per_node=2, environ={"A": "b"}), work=COMMAND), GPUS),
    "exec-in-an-allocation": (
        replace(job(job_id="4711", image="i.sqsh", setup_script=None), work=COMMAND),
        {**FACTS, "job_nodes": "4", "family": "", "setup": "module load x\n"},
    ),
    "topology": (job(nodes="3", ranks=7, bring=True), {**FACTS, **TOPOLOGY}),
    "topology-exec": (
        replace(job(job_id="4711", ranks_per_node=2), work=COMMAND),
        {**FACTS, **TOPOLOGY, "job_nodes": "4"},
    ),
    "words": (job(partition="a b", sbatch_args="--qos='x y' --reservation=r", exclusive=False), FACTS),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_request_has_a_script_that_bash_understands(name: str) -> None:
    request = engine.request(*CASES[name])
    is_golden(str(request) + "\n", GOLDEN / f"{name}.txt")
    text = request.files[engine.SCRIPT]
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("settings", "facts", "plugin"),
    [
        ({}, FACTS, "pmi2"),
        ({}, {**FACTS, "family": "openmpi"}, "pmix"),
        ({"mpi": "openmpi"}, FACTS, "pmix"),
        ({"image": "i"}, {**FACTS, "family": "", "mpi": "pmix none"}, "pmix"),
        ({"mpi": "mpich"}, {**FACTS, "mpi": "cray_shasta none"}, "cray_shasta"),
        ({"mpi": "none"}, FACTS, "none"),
        ({"world": "nccl"}, FACTS, "none"),
        ({"backend": "nccl"}, FACTS, "none"),
        ({"backend": "null", "world": "mpi"}, UNASKED, "pmi2"),
        ({"backend": "mpi"}, GPUS, "pmi2"),
        ({}, GPUS, "none"),
    ],
)
def test_the_plugin_that_starts_the_ranks(settings: dict[str, Any], facts: Any, plugin: str) -> None:
    assert mpi_plugin(job(**settings), facts) == plugin


@pytest.mark.parametrize(
    ("family", "offered", "plugin", "is_told"),
    [
        ("", "pmix none pmi2", None, True),
        ("none", "pmix none pmi2", None, False),
        ("mpich", "pmix none pmi2", "pmi2", False),
        ("openmpi", "pmix none pmi2", "pmix", False),
        ("openmpi", "none pmi2", None, True),
    ],
)
def test_the_plugin_of_a_command_that_is_not_ours(
    family: str, offered: str, plugin: str | None, is_told: bool
) -> None:
    command = replace(job(), work=Work(("train",), is_busbw=False))
    facts = {**FACTS, "family": family, "mpi": offered}
    assert mpi_plugin(command, facts) == plugin
    assert "BUSBW_TOKEN" not in render(command, facts)
    notes = engine.request(command, facts).notes
    assert [note.split(",")[0] for note in notes] == ["busbw cannot see which MPI train uses"] * is_told


@pytest.mark.parametrize("settings", [{"nodes": "1"}, {"mpi": "mpich"}])
def test_a_command_of_one_rank_or_with_mpi_said_needs_no_note(settings: Any) -> None:
    command = replace(job(**settings), work=COMMAND)
    assert engine.request(command, {**FACTS, "family": ""}).notes == ()


def test_an_mpi_that_slurm_cannot_start_is_refused() -> None:
    with pytest.raises(
        SiteError, match=r"cannot start Open MPI ranks: `srun --mpi=list` names none, pmi2"
    ) as refused:
        mpi_plugin(job(mpi="openmpi"), {**FACTS, "mpi": "none pmi2"})
    assert "--mpi none" in refused.value.hint


@pytest.mark.parametrize(
    ("settings", "facts", "nodes", "ranks", "even"),
    [
        ({}, FACTS, 2, 2, True),
        ({}, GPUS, 2, 16, True),
        ({"ranks_per_node": 4}, GPUS, 2, 8, True),
        ({"ranks": 5}, FACTS, 2, 5, False),
        ({"nodes": "3", "job_id": "7"}, {**FACTS, "job_nodes": "4"}, 3, 3, True),
    ],
)
def test_how_many(settings: Any, facts: Any, nodes: int, ranks: int, even: bool) -> None:
    found = shape(job(**settings), facts)
    assert (found.nodes, found.ranks, found.is_even) == (nodes, ranks, even)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"nodes": ""}, FACTS),
        ({"nodes": "5", "job_id": "7"}, {**FACTS, "job_nodes": "4"}),
        ({"ranks": 1}, FACTS),
        ({"mpi": "none", "world": "mpi"}, FACTS),
        ({"srun_args": "'open"}, FACTS),
        ({"sbatch_args": "'open"}, FACTS),
    ],
)
def test_what_does_not_fit_is_refused(settings: Any, facts: Any) -> None:
    with pytest.raises(UsageError):
        render(job(**settings), facts)


@given(
    value=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
    words=st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")), max_size=4),
)
def test_no_value_becomes_a_line_of_its_own(value: str, words: list[str]) -> None:
    """A #SBATCH line is the one place where quoting would not help."""
    plain = job(partition=value, account=value, time_limit=value, environ={"NAME": value})
    wild = replace(plain, work=Work(tuple(words)), folder=f"/runs/{value}")
    facts = {**FACTS, "setup": value}
    script, (options, _) = render(wild, facts), sbatch_words(wild, shape(wild, facts), facts)
    header = script[: script.index("\nrun_folder=")]
    wanted = render(job(), FACTS)
    names = {line.split("=")[0] for line in wanted[: wanted.index("\nrun_folder=")].splitlines()}
    more = {"#SBATCH --partition", "#SBATCH --account", "#SBATCH --time", ""}
    assert {line.split("=")[0] for line in header.splitlines()} <= names | more
    for name in ("--partition", "--account", "--time"):
        assert f"#SBATCH {name}={value}" in header.splitlines() or f"{name}={value}" in options


def test_nodes_come_in_whole_segments() -> None:
    with pytest.raises(UsageError, match="18 nodes cannot be split into segments of 16") as caught:
        shape(job(nodes="18", segment=16), FACTS)
    assert "-N 16 or 32" in caught.value.hint
    assert shape(job(nodes="32", segment=16), FACTS).nodes == 32
    assert shape(job(nodes="18", segment=16, job_id="7"), {**FACTS, "job_nodes": "18"}).nodes == 18


def test_fewer_nodes_than_a_segment_are_one() -> None:
    asked = engine.request(job(nodes="12", segment=16), FACTS)
    assert "#SBATCH --segment=12\n" in asked.files["job.sbatch"]
    assert asked.notes == ("--segment 16 is larger than the job: its 12 nodes are one segment",)
    assert not engine.request(job(nodes="16", segment=16), FACTS).notes


def test_a_path_of_the_user_s_is_the_ranks_alone() -> None:
    """The job script, srun and what makes the host file on a node find their programs by the node's."""
    (text,) = engine.request(job(environ={"PATH": "/no pe"}), FACTS).files.values()
    assert "\nsrun --label " in text
    assert text.endswith(
        "\\\n  /usr/bin/env 'PATH=/no pe' /env/bin/python -m busbw run all_reduce --format=jsonl"
        " --deliver=/runs/R\n"
    )
    command = replace(job(environ={"PATH": "/p"}, image="i"), work=COMMAND)
    (text,) = engine.request(command, FACTS).files.values()
    assert text.endswith(" busbw-command /usr/bin/env PATH=/p train --lr 'a b'\n")
    (text,) = engine.request(job(environ={"PATH": "/p"}, bring=True), FACTS).files.values()
    assert '\n  /usr/bin/env PATH="$brought/bin":/p "$brought/bin/python" -m busbw' in text


# A stand-in: what it was told, and the variables that it would give to the ranks.
SRUN = """
case " $* " in *" --label "*) env -0 >"${0%/*}/ranks" ;; *) env -0 >>"${0%/*}/steps" ;; esac
"""


@pytest.mark.parametrize(
    "settings", [{"topology": "yes"}, {"topology": "yes", "bring": True}, {"image": "i"}]
)
def test_a_variable_of_the_ranks_is_none_of_the_scripts(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Whatever it is called: each name that the script itself uses is given to the ranks, with a file's path
    as its value, and the script does what it did without.
    """
    facts = {**FACTS, **TOPOLOGY} if settings.pop("topology", "") else FACTS
    victim, places = tmp_path / "victim", tmp_path / "bin"
    for folder in (tmp_path / "run/request", tmp_path / "run/log"):
        folder.mkdir(parents=True)
    victim.write_text("kept")
    programs = {"srun": SRUN, "sbcast": "", "scontrol": "printf '%s\\n' h1 h2 h3"}
    for name, program in programs.items():
        stand_in(places, name, program)
    plain = replace(job(nodes="3", **settings), folder=str(tmp_path / "run"))
    (tmp_path / "run/request/ticket").write_text("run")
    text = engine.request(plain, facts).files[engine.SCRIPT]
    names = {name for name in re.findall(r"\b([A-Za-z_]\w*)\+?=", text) if not name.startswith("BUSBW_")}
    names |= {"i", "n", "node", "PATH", "NCCL_DEBUG", "RANDOM"}
    assert {"job", "log", "run_folder"} <= names
    environ = dict.fromkeys(sorted(names), str(victim))
    script = engine.request(replace(plain, environ=environ), facts).files[engine.SCRIPT]
    given = {
        "PATH": f"{places}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "h",
    }
    done = subprocess.run(
        ["bash", "-s"], input=script, env=given, text=True, check=False, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    output = (tmp_path / f"run/log/slurm-{os.getpid()}.out").read_text()
    assert output == f"{END_MARK}0\n"
    assert victim.read_text() == "kept"
    assert not list(Path("/tmp").glob(f"{plain.name}-{os.getpid()}*"))
    seen = dict(item.split("=", 1) for item in (places / "ranks").read_text().split("\0") if item)
    assert {name: seen.get(name) for name in names - {"PATH"}} == dict.fromkeys(names - {"PATH"}, str(victim))
    if settings.get("bring"):
        steps = (places / "steps").read_text()
        assert str(victim) not in steps
