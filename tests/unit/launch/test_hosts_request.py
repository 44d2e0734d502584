"""Whole requests for hosts, compared as text with golden/hosts/*.txt."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import is_golden
from hypothesis import given
from hypothesis import strategies as st

from busbw.cli.main import main
from busbw.errors import SiteError, UsageError
from busbw.launch.engine import Facts, Job, Work
from busbw.launch.hosts import engine
from busbw.launch.hosts.job import JobSpec
from busbw.launch.hosts.plan import Site, inherited
from busbw.launch.hosts.ssh import HostFacts, agent_command, read_form, ssh_words
from busbw.plan.flags.launch import LaunchSettings

GOLDEN = Path(__file__).parent / "golden" / "hosts"
PYTHON = "/env/bin/python"
WORK = Work(
    ("run", "all_reduce", "-b", "8", "--format=jsonl", "--deliver=/runs/20261122-010203-all_reduce-3f9a")
)
ANSWER = HostFacts("n", (3, 11), PYTHON, "x86_64", 8, 0, busbw="1.0", mpi="mpich", mpiexec="/env/bin/mpiexec")


def facts(*names: str, local: tuple[str, ...] = (), setup: str = "", **changes: Any) -> Facts:
    here = replace(ANSWER, hostname="login", **changes.pop("here", {}))
    answers = {name: replace(ANSWER, hostname=name, **changes) for name in names}
    return {"site": Site(answers, local, here, setup, token="0123456789abcdef")}


def job(launch: LaunchSettings, **changes: Any) -> Job:
    base = Job("20261122-010203-all_reduce-3f9a", "/runs/20261122-010203-all_reduce-3f9a", WORK, launch)
    return replace(base, **changes)


def spec_for(job: Job, known: Facts) -> JobSpec:
    spec = engine.request(job, known).payload
    assert isinstance(spec, JobSpec)
    return spec


OPEN_MPI = {"mpi": "openmpi", "here": {"mpi": "openmpi"}}
FOUR = LaunchSettings(on="hosts", hosts="h1,h2,h3,h4")
NAMES = ("h1", "h2", "h3", "h4")
CASES: dict[str, tuple[Job, dict[str, str]]] = {
    "mpich": (job(FOUR), facts(*NAMES)),
    "mpich-environment": (
        job(FOUR, environ={"NCCL_DEBUG": "INFO", "A": "it's $(x)\n"}),
        facts(*NAMES, setup="module load mpi\n"),
    ),
    "mpich-uneven": (job(replace(FOUR, hosts="h1:4,h2:2")), facts("h1", "h2")),
    "openmpi": (job(FOUR), facts(*NAMES, **OPEN_MPI)),
    "openmpi-environment": (
        job(replace(FOUR, mpirun_args="--mca btl_tcp_if_include 'eth 1'"), environ={"NCCL_DEBUG": "INFO"}),
        facts(*NAMES, **OPEN_MPI),
    ),
    "openmpi-crowded": (job(replace(FOUR, hosts="h1,h2", ranks_per_node=9)), facts("h1", "h2", **OPEN_MPI)),
    "openmpi-order": (job(replace(FOUR, hosts="h2,h1:2,h2")), facts("h1", "h2", **OPEN_MPI)),
    "nccl": (job(FOUR, world="nccl", ranks=5), facts(*NAMES)),
    "gpus": (job(replace(FOUR, nodes="2")), facts(*NAMES, gpus=2)),
    "exec": (
        job(replace(FOUR, hosts="h1", mpi="none"), work=Work(("train", "--lr", "a b"), is_busbw=False)),
        facts("h1"),
    ),
    "bring": (job(replace(FOUR, hosts="h1,h2", bring=True)), facts("h1", "h2", busbw="", mpi="")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_request_is_the_golden_text(name: str) -> None:
    text = str(engine.request(*CASES[name]))
    is_golden(text + "\n", GOLDEN / f"{name}.txt")


@pytest.mark.parametrize(
    ("hosts_flag", "nodes", "ranks", "message", "hint"),
    [
        ("h1,h2", "2", 1, "--ranks 1 on 2 nodes", "at least one rank a node"),
        ("h1:2,h2:2,h3:2,h4:2", "3", 4, "--ranks 4 fill the slots of 2 of 3 nodes", "-N 2"),
    ],
)
def test_a_node_that_was_asked_for_has_a_rank(
    hosts_flag: str, nodes: str, ranks: int, message: str, hint: str
) -> None:
    launch = replace(FOUR, hosts=hosts_flag, nodes=nodes)
    with pytest.raises(UsageError, match=message) as caught:
        engine.request(job(launch, ranks=ranks), facts(*NAMES))
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("known", "head"),
    [
        (facts(*NAMES), "login"),  # here, where the MPI is the hosts'
        (facts(*NAMES, here={"mpiexec": "/usr/bin/mpiexec"}), "h1"),  # this machine has another
        (facts(*NAMES, local=("h3",)), "h3"),  # which this machine is
    ],
)
def test_where_the_launcher_runs(known: Facts, head: str) -> None:
    agents = spec_for(job(FOUR), known).agents
    assert [agent.host for agent in agents if agent.tasks] == [head]
    assert {agent.host for agent in agents} == {*NAMES, head}
    by_ssh = {agent.host for agent in agents if agent.connect[0] == "ssh"}
    assert by_ssh == {*NAMES} - set(known["site"].local)


def test_no_secret_is_shown_or_given_to_a_command_line() -> None:
    """Each job has one of its own."""
    one, other = (job(FOUR, world="nccl", ranks=5, run_id=f"20261122-010203-x-{end}") for end in ("1", "2"))
    known = facts(*NAMES)
    agents = spec_for(one, known).agents
    (token,) = {task.environ["BUSBW_TOKEN"] for agent in agents for task in agent.tasks}
    assert len(token) == 32
    assert token not in str(engine.request(one, known))
    assert token not in repr(engine.request(other, known).payload)
    assert not any(token in word for agent in agents for word in agent.connect)


def test_hosts_without_a_rank_are_told_where_nobody_said_how_many_nodes() -> None:
    request = engine.request(job(FOUR, ranks=3), facts(*NAMES))
    assert (request.nodes, request.notes) == (
        3,
        ("--ranks 3: 3 of 4 hosts are measured, the others get no rank",),
    )
    assert engine.request(job(FOUR, ranks=4), facts(*NAMES)).notes == ()


@pytest.mark.parametrize("mpi", ["auto", "mpich"])
def test_where_ranks_meet_may_be_said(mpi: Any) -> None:
    """The name that ssh has for the first host may be known to ssh alone."""
    given = job(replace(FOUR, mpi=mpi), world="nccl", environ={"BUSBW_ROOT": "10.0.0.1:7"})
    found = spec_for(given, facts(*NAMES))
    tasks = [task for agent in found.agents for task in agent.tasks]
    assert tasks
    assert {task.environ["BUSBW_ROOT"] for task in tasks} == {"10.0.0.1:7"}


@pytest.mark.parametrize(
    ("launch", "known", "said"),
    [
        (
            FOUR,
            facts(*NAMES, busbw="", error="ModuleNotFoundError: x"),
            "busbw cannot be imported by /env/bin/python on h1",
        ),
        (FOUR, facts(*NAMES, busbw="0.9"), "busbw 0.9 on h1, 1.0 here"),
        (FOUR, facts(*NAMES, mpi="", mpiexec=""), "no MPI that can start ranks on h1"),
        (replace(FOUR, mpi="openmpi"), facts(*NAMES), "--mpi openmpi, but the Python on h1 loads mpich"),
        (
            replace(FOUR, bring=True),
            facts(*NAMES, python=(3, 12)),
            "--bring needs Python 3.11 on x86_64, h1 has 3.12",
        ),
    ],
)
def test_what_does_not_fit_is_refused(launch: LaunchSettings, known: Facts, said: str) -> None:
    with pytest.raises(SiteError) as caught:
        spec_for(job(launch), known)
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.host == "h1"


def test_hosts_with_different_mpis_are_refused() -> None:
    one, other = facts("h1")["site"], facts("h2", mpi="openmpi")["site"]
    known = {"site": replace(one, hosts={**one.hosts, **other.hosts})}
    with pytest.raises(SiteError, match="h1 has mpich, h2 has openmpi"):
        spec_for(job(replace(FOUR, hosts="h1,h2")), known)


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (replace(FOUR, hosts="me@h1"), "MPI launchers take no user with a host: me@h1"),
        (replace(FOUR, mpirun_args="'"), "--mpirun-args: No closing quotation"),
        (replace(FOUR, set=("ssh=ssh -F 'a b'",)), "MPI launchers cannot pass on 'a b'"),
        (replace(FOUR, set=("port=1",)), "--on hosts does not use --set port"),
        (replace(FOUR, set=("connect-timeout=x",)), "connect-timeout=x must be a number"),
        (replace(FOUR, bring=True, set=("tmp=here",)), "tmp=here is not an absolute path"),
    ],
)
def test_settings_that_cannot_be_honoured(launch: LaunchSettings, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec_for(job(launch), facts(*NAMES, "me@h1"))
    assert said in caught.value.message


def test_a_dry_run_asks_no_host(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no ssh
    assert (
        main(["run", "all_reduce", "--on", "hosts", "--hosts", "n[01-02]", "--mpi", "none", "--dry-run"]) == 0
    )
    told = capsys.readouterr()
    assert [line.split()[:2] for line in told.out.splitlines()] == [["ssh", "n01"], ["ssh", "n02"]]
    assert told.err.startswith("note: a dry run asks no host: this is for hosts like this one")


def test_which_variables_of_a_shell_reach_the_ranks() -> None:
    measured = ("FI_PROVIDER", "NCCL_DEBUG", "OMPI_MCA_pml", "UCX_TLS")
    own = ("SLURM_JOB_ID", "RANK", "OMPI_COMM_WORLD_RANK", "BUSBW_HOME", "LD_LIBRARY_PATH", "PATH")
    others = ("NCCL_AUTH_TOKEN", "CUDA_VISIBLE_DEVICES")
    assert inherited(dict.fromkeys((*measured, *own, *others), "x")) == dict.fromkeys(measured, "x")


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1))
def test_a_python_of_any_name_is_one_word_for_the_hosts_shell(python: str) -> None:
    ssh = ssh_words(read_form(("ssh=/opt/ssh -F /x", "connect-timeout=3")))
    *way, host, line = agent_command("h1", local=False, ssh=ssh, python=python, setup="")
    assert (way[:3], host) == (["/opt/ssh", "-F", "/x"], "h1")
    assert "ConnectTimeout=3" in way
    assert shlex.split(line)[-4:-1] == ["exec", python, "-c"]


@pytest.mark.parametrize(
    ("address", "root"), [("", "gpu1"), ("10.0.0.1", "10.0.0.1"), ("fd00::1", "[fd00::1]")]
)
def test_ranks_meet_at_an_address_where_the_name_is_sshs_alone(address: str, root: str) -> None:
    launch = LaunchSettings(on="hosts", hosts="me@gpu1,gpu2", mpi="none")
    known = facts("me@gpu1", "gpu2", address=address)
    plan = spec_for(job(launch), known)
    assert dict(plan.agents[1].tasks[0].environ)["BUSBW_ROOT"] == root
    command = spec_for(job(launch, work=Work(("train",), is_busbw=False)), known)
    assert dict(command.agents[1].tasks[0].environ)["MASTER_ADDR"] == (address or "gpu1")
