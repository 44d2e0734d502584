"""A job on hosts and its agents, on this machine alone: the connection is a pipe instead of ssh."""

from __future__ import annotations

import io
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from busbw_testing.marked import marked

from busbw.errors import SiteError
from busbw.launch.engine import Handle, Item, JobRequest, JobState, Output, Phase
from busbw.launch.hosts import engine
from busbw.launch.hosts.job import AgentSpec, JobSpec, Task
from busbw.launch.hosts.ssh import agent_command, probe
from busbw.launch.observed import Story
from busbw.launch.verdict import judge
from busbw.rank.world.watched import watch_address

PATIENCE_S = 60.0
LOCAL = agent_command("here", local=True, ssh=(), python=sys.executable, setup="")


def shell(text: str, job: str, rank: int | None = None) -> Task:
    return Task(("/bin/sh", "-c", text), {"BUSBW_JOB": job}, rank)


@pytest.fixture
def job() -> Iterator[str]:
    """A job's name; nothing that carries it is left."""
    name = f"busbw-test-{secrets.token_hex(4)}"
    yield name
    left = marked(f"BUSBW_JOB={name}")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def submit(folder: Path, spec: JobSpec) -> tuple[Handle, Iterator[Item]]:
    """The job, and what it gives once it is followed."""
    (folder / "request").mkdir(parents=True)
    handle = engine.submit(JobRequest("hosts", spec.job, None, None, payload=spec), folder)
    return handle, engine.follow(handle, folder)


def agent(host: str, *tasks: Task) -> AgentSpec:
    return AgentSpec(host, LOCAL, tasks)


def outcome(folder: Path, spec: JobSpec) -> tuple[list[Output], JobState]:
    """What a job that is left alone prints, and its end."""
    outputs, states = finish(submit(folder, spec)[1])
    return outputs, states[-1]


def finish(items: Iterator[Item]) -> tuple[list[Output], list[JobState]]:
    deadline = time.monotonic() + PATIENCE_S
    outputs, states = [], []
    for item in items:
        assert time.monotonic() < deadline, (outputs, states)
        if isinstance(item, Output):
            outputs.append(item)
        elif isinstance(item, JobState):
            states.append(item)
    return outputs, states


def until_output(items: Iterator[Item], lines: int = 1) -> None:
    while lines:
        if isinstance(next(items), Output):
            lines -= 1


def test_output_and_the_end_are_heard(tmp_path: Path, job: str) -> None:
    tasks = (shell("echo one; echo two >&2", job, 0), shell("printf 'no end'", job, 1))
    handle, items = submit(tmp_path, JobSpec(job, (agent("h1", *tasks),)))
    assert engine.state(handle).phase is Phase.RUNNING
    outputs, states = finish(items)
    assert sorted(outputs, key=lambda output: output.text) == [
        Output("no end", "h1 rank 1"),
        Output("one", "h1 rank 0"),
        Output("two", "h1 rank 0", is_error=True),
    ]
    assert states == [JobState(Phase.RUNNING), JobState(Phase.ENDED, code=0)]
    assert engine.state(handle).phase is Phase.ENDED
    engine.cancel(handle, now=True)  # does nothing


def test_a_job_of_a_process_that_is_gone(tmp_path: Path) -> None:
    gone = Handle("hosts", "job", "job", {"folder": str(tmp_path), "host": "login"})
    _, (end,) = finish(engine.follow(gone, tmp_path))
    assert end == engine.state(gone)
    assert (end.phase, end.why) == (Phase.ENDED, "the busbw process on login that ran it is gone")
    assert "tmux" in end.hint


def test_tags_of_launchers_name_the_rank_and_its_host(tmp_path: Path, job: str) -> None:
    text = "echo '[1,1]<stdout>: a'; echo '[0] [x] b'; echo '[7] c'; echo '[mpiexec@h1] d'"
    spec = JobSpec(job, (agent("head", shell(text, job)),), hosts_by_rank=("h1", "h2"))
    outputs, _ = outcome(tmp_path, spec)
    assert [(output.source, output.text) for output in outputs] == [
        ("h2 rank 1", "a"),
        ("h1 rank 0", "[x] b"),
        ("head", "[7] c"),
        ("head", "[mpiexec@h1] d"),
    ]


def test_a_rank_that_fails_is_named_and_ends_the_others(tmp_path: Path, job: str) -> None:
    agents = agent("h1", shell("sleep 1000", job, 0)), agent("h2", shell("exit 7", job, 1))
    _, end = outcome(tmp_path, JobSpec(job, agents))
    assert end == JobState(Phase.ENDED, "rank 1 on h2 ended with exit code 7", code=7, rank=1, host="h2")


# A launcher on this machine whose words blame nobody: a rank dies, another one aborts over it and says so,
# the last is told to end and takes its leave; as mpirun of Open MPI has them under load.
LAUNCHER = """
import os, signal, subprocess, sys, time
RANK = '''
import os, signal, sys, time
from busbw.rank.world.watched import Watched
rank, told_fd = map(int, sys.argv[1:])
watched = Watched(rank, os.environ)
signal.signal(signal.SIGTERM, lambda *_: (watched.leave(), os._exit(130)))
os.write(1, b"[1,%d]<stdout>: up" % rank + bytes([10]))  # in one piece: they share the pipe
os.write(told_fd, b".")
if rank == 0:
    sys.stdin.read(1)
    print("[1,0]<stderr>: [h1:1] *** An error occurred in Socket closed", flush=True)
    os._exit(14)
time.sleep(1000)
'''
up, told = os.pipe()
ranks = []
for rank in range(3):
    argv = [sys.executable, "-c", RANK, str(rank), str(told)]
    ranks.append(subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=[told]))
for _ in ranks:
    os.read(up, 1)

def abort():
    ranks[0].stdin.close()
    ranks[0].wait()
    time.sleep(0.5)  # it is seen to end

def die():
    ranks[1].kill()
    ranks[1].wait()

for act in (die, abort) if sys.argv[1] == "first" else (abort, die):
    act()
ranks[2].terminate()
ranks[2].wait()
sys.exit(14)
"""


@pytest.mark.parametrize("dies", ["first", "after the survivor was seen to end"])
def test_a_rank_that_its_launcher_does_not_name(tmp_path: Path, job: str, dies: str) -> None:
    task = Task((sys.executable, "-c", LAUNCHER, dies), {"BUSBW_JOB": job})
    agents, hosts = (agent("head", task), agent("h1")), ("h1", "h2", "h3")
    spec = JobSpec(job, agents, hosts_by_rank=hosts, watch=watch_address(job))
    outputs, end = outcome(tmp_path, spec)
    story = Story(output=[output.text for output in outputs], exits={0: end.code or 0}, state=end)
    error = judge(story).error
    assert error is not None
    why = "rank 1 on h2 ended first, and the launcher ended the others"
    assert (error["message"], error["rank"], error["host"]) == (why, 1, "h2")
    assert error["hint"] == "its last words: up", outputs


OR_ENDED = "(or ended by mpiexec, after another rank there had failed)"
LOST = "[mpiexec@h1] process manager error waiting for completion"


@pytest.mark.parametrize(
    ("hosts", "said", "why", "rank"),
    [
        # A user's program: signals are told from codes by hydra alone.
        (("h1", "h2"), "EXIT STRING: Killed (signal 9)", "was killed by SIGKILL", 1),
        (("h2", "h2"), "EXIT STRING: Killed (signal 9)", f"was killed by SIGKILL {OR_ENDED}", None),
        (("h1", "h2"), LOST, "ended with 9 (an exit code, or a signal's number: hydra prints both alike)", 1),
    ],
)
def test_how_a_command_of_the_users_ended(
    tmp_path: Path, job: str, hosts: tuple[str, ...], said: str, why: str, rank: int | None
) -> None:
    lines = ["=" * 80, "=   PID 500 RUNNING AT h2", "=   EXIT CODE: 9", "=" * 80, said]
    text = "".join(f"echo '{line}';" for line in lines)
    agents = (agent("h1", shell(f"{text} exit 1", job)),)
    _, end = outcome(tmp_path, JobSpec(job, agents, hosts_by_rank=hosts, announces=False))
    assert (end.why, end.rank) == (why, rank)


def test_a_command_that_is_not_there(tmp_path: Path, job: str) -> None:
    _, end = outcome(tmp_path, JobSpec(job, (agent("h1", Task(("/no/such",), {}, 0)),)))
    assert (end.why, end.host) == ("/no/such: No such file or directory on h1", "h1")


@pytest.mark.parametrize("now", [False, True])
def test_cancelling_ends_all_that_carries_the_mark(tmp_path: Path, job: str, now: bool) -> None:
    """Also what has left its parent and its session."""
    text = "setsid sleep 1000 & trap 'echo ended; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    handle, items = submit(tmp_path, JobSpec(job, (agent("h1", shell(text, job, 0)),)))
    until_output(items)
    engine.cancel(handle, now=now)
    outputs, states = finish(items)
    assert ("ended" in [output.text for output in outputs]) is not now
    assert states[-1].why == "cancelled"


def test_a_connection_that_ends_is_a_lost_host(tmp_path: Path, job: str) -> None:
    spec = JobSpec(
        job,
        (
            agent("h1", shell("echo up; sleep 1000", job, 0)),
            # Nobody can end what runs on a host that is lost.
            AgentSpec("h2", ("env", f"TEST_AGENT={job}", *LOCAL), (shell("echo up; exec sleep 5", "", 1),)),
        ),
        announces=False,
    )
    _, items = submit(tmp_path, spec)
    until_output(items, lines=2)
    its_agent = min(marked(f"TEST_AGENT={job}"))  # its rank came after it
    os.kill(its_agent, signal.SIGKILL)
    _, states = finish(items)
    assert states[-1].why.startswith("host h2 is lost: ")
    assert states[-1].host == "h2"


def test_a_host_that_cannot_be_reached_is_hopeless(tmp_path: Path, job: str) -> None:
    refuse = ("/bin/sh", "-c", "echo ssh: no route >&2; exit 255")
    spec = JobSpec(
        job,
        (agent("h1", shell("sleep 1000", job)), AgentSpec("h2", refuse)),
        hosts_by_rank=("h1",),
    )
    _, items = submit(tmp_path, spec)
    _, states = finish(items)
    assert states[0].hopeless
    assert states[0].why == "h2: ssh: no route"
    assert states[-1].why == "h2 cannot be reached: ssh: no route"
    assert states[-1].host == "h2"


def test_nothing_outlives_who_follows(tmp_path: Path, job: str) -> None:
    deaf = agent("h1", shell("trap '' TERM; echo up; while :; do sleep 1; done", job, 0))
    handle, items = submit(tmp_path, JobSpec(job, (deaf,)))
    until_output(items)
    del items
    assert engine.state(handle).phase is Phase.ENDED


def test_a_job_waits_for_its_hosts(tmp_path: Path, job: str) -> None:
    agents = (agent("h1", shell("echo up; sleep 1000", job, 0)),)
    locks = (tmp_path / "locks" / "h1",)
    _, first = submit(tmp_path / "first", JobSpec(job, agents, locks=locks))
    until_output(first)
    handle, second = submit(tmp_path / "second", JobSpec(f"{job}-2", agents, locks=locks))
    assert next(second) == JobState(Phase.PENDING, "another job of busbw uses h1")
    assert next(second) is None
    engine.cancel(handle, now=False)
    _, states = finish(second)
    assert states == [JobState(Phase.ENDED, "cancelled before it started")]


def test_a_bundle_is_a_python_of_its_own_and_removed(
    tmp_path: Path, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    module = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/brought.py"
    with tarfile.open(bundle, "w:gz") as archive:
        member = tarfile.TarInfo(module)
        member.size = 15
        archive.addfile(member, io.BytesIO(b"where = 'here'\n"))
    monkeypatch.setattr("busbw.launch.hosts.bring.make_bundle", lambda: bundle)
    place = str(tmp_path / "brought it's")
    task = Task((f"{place}/bin/python", "-c", "import brought; print(brought.where)"), {"BUSBW_JOB": job}, 0)
    outputs, end = outcome(tmp_path, JobSpec(job, (agent("h1", task),), bundle_folder=place))
    assert ([output.text for output in outputs], end.code) == (["here"], 0)
    assert not Path(place).exists()


def test_hosts_answer_what_they_are() -> None:
    """Whatever a shell's start-up files print before."""
    import busbw

    talks = ("/bin/sh", "-c", "echo Welcome; printf 'and {now'; echo; exec \"$@\"", "sh", *LOCAL)
    (answer,) = probe({"here": talks}, 1).values()
    assert answer.python == sys.version_info[:2]
    assert answer.busbw == busbw.__version__
    assert answer.cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/bin/sh", "-c", "echo ssh: timed out >&2; exit 255"), "h1 cannot be reached: ssh: timed out"),
        (
            ("/bin/sh", "-c", "echo sh: python: not found >&2; exit 127"),
            "no such Python on h1: sh: python: not found",
        ),
        (("/bin/sh", "-c", "exit 3"), "h1 did not answer (exit code 3): "),
        (
            agent_command("h1", local=True, ssh=(), python="/no", setup="echo no such module >&2; return 3"),
            f"the setup script ended with exit code 3 on {os.uname().nodename}: no such module",
        ),
        (("/no/such/ssh",), "h1 did not answer (exit code 2): /no/such/ssh: No such file"),
    ],
)
def test_hosts_that_do_not_answer_are_named(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(SiteError) as caught:
        probe({"ok": LOCAL, "h1": command}, 1)
    assert caught.value.message.startswith(said)
    assert caught.value.host == "h1"
    assert caught.value.hint


def busbw(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A whole job over the bundled MPICH, on this machine."""
    return subprocess.run(
        (sys.executable, "-m", "busbw", *words),
        env={**os.environ, "BUSBW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


ON = ("--on", "hosts", "--hosts", "localhost:2", "--mpi", "mpich")


def test_a_path_hides_no_program_of_the_launcher(tmp_path: Path) -> None:
    done = busbw(tmp_path, "exec", *ON, "--env", "PATH=/nope", "--", "/bin/sh", "-c", 'echo "$PATH"')
    assert (done.returncode, done.stdout.splitlines()) == (0, ["/nope", "/nope"]), done.stderr


def test_a_launcher_that_refuses_its_words_is_quoted(tmp_path: Path) -> None:
    done = busbw(tmp_path, "run", "all_reduce", "-e", "8", *ON, "--mpirun-args=-bogus")
    assert done.returncode == 4, done.stderr
    assert "hint: its last words: unrecognized argument bogus" in done.stderr
