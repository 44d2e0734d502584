"""Launches in held pods: the job that holds, and that each launch gets what its own job would have had."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from busbw.errors import SiteError
from busbw.launchers import kubernetes, kubernetes_hold
from busbw.launchers.engine import Handle, Job, JobRequest, Work
from busbw.launchers.keeper_spec import KeeperSpec
from busbw.launchers.kubernetes_exec import exit_code
from busbw.launchers.kubernetes_held import Held, held_by, holding, in_pods
from busbw.launchers.kubernetes_manifest import JOB_FILE, unescaped
from busbw.launchers.kubernetes_yaml import from_yaml
from busbw.settings.launch import LaunchSettings

STRANGE = "a  b'c\"d $(PATH) $$ $HOME `id` \\ ;\nsecond line"
FACTS = {"namespace": "team", "token": "t", "bundle": "b"}
KINDS: Mapping[str, dict[str, Any]] = {
    "job": {"mpi": "none"},
    "job-slots": {"mpi": "none", "ranks_per_node": 4, "bring": True},
    "jobset": {"mpi": "none", "set": ("kind=jobset",)},
    "mpich": {"mpi": "mpich", "ranks_per_node": 2},
    "openmpi": {"mpi": "openmpi", "bring": True, "mpirun_args": "--mca pml ^ucx"},
}
SETUPS: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    "plain": ({}, {}),
    "strange": ({"A": STRANGE, "PYTHONPATH": "/own"}, {}),
    "before": ({"PATH": "/bin", "B": "$(C)"}, {"LD_LIBRARY_PATH": "/opt/$x y"}),
}
FOLDER = "/runs/s/launches/0001"


def request(setup: str, nodes: int = 2, **flags: Any) -> JobRequest:
    environ, prepend = SETUPS[setup]
    launch = LaunchSettings(on="kubernetes", nodes=str(nodes), image="registry/busbw:1", **flags)
    words = ("run", "all_reduce", "--format=jsonl", f"--deliver={FOLDER}")
    job = Job("20261122-101500-setups-3f9a", FOLDER, Work(words), launch, environ, prepend=prepend)
    return kubernetes.request(job, FACTS)


def container(made: JobRequest) -> dict[str, Any]:
    """The one that starts ranks."""
    spec = from_yaml(made.files[JOB_FILE])[-1]["spec"]
    if "mpiReplicaSpecs" in spec:
        spec = spec["mpiReplicaSpecs"]["Launcher"]
    elif "replicatedJobs" in spec:
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    found: dict[str, Any] = spec["template"]["spec"]["containers"][0]
    return found


def seen_in(one: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a container executes and gets, as Kubernetes makes it; "?" is what the cluster fills in."""
    words = [*one["command"], *one.get("args", ())]
    environ = {each["name"]: unescaped(each["value"]) if "value" in each else "?" for each in one["env"]}
    return tuple(map(unescaped, words)), environ


def pod(name: str, **fields: Any) -> dict[str, Any]:
    running = {"containerStatuses": [{"state": {"running": {}}}]}
    containers = [{"name": "rank"}]
    spec = {"nodeName": f"node-of-{name}", "containers": containers}
    return {"metadata": {"name": name, "uid": f"uid-{name}", **fields}, "spec": spec, "status": running}


def pods(kind: str, count: int = 2) -> list[dict[str, Any]]:
    """As an API server lists them: by name."""
    if kind in ("mpich", "openmpi"):
        role = "training.kubeflow.org/job-role"
        workers = [pod(f"j-worker-{number}", labels={role: "worker"}) for number in range(count)]
        return [pod("j-launcher-x2", labels={role: "launcher"}), *sorted(workers, key=str)]
    index = "batch.kubernetes.io/job-completion-index"
    made = [pod(f"j-{number}-{97 - number}", annotations={index: str(number)}) for number in range(count)]
    return sorted(made, key=str)


def held(kind: str, count: int = 2) -> Held:
    made = request("plain", count, **KINDS[kind])
    details = {name: made.details[name] for name in ("kind", "slots", "context", "namespace")}
    found = held_by(Handle("kubernetes", f"team/{made.name}", made.name, details), pods(kind, count), count)
    assert found is not None
    return found


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_launch_gets_what_a_job_of_its_own_would_have(kind: str, setup: str) -> None:
    hold_words, hold_environ = seen_in(container(holding(request("plain", **KINDS[kind]), "python3", 900.0)))
    assert hold_words[:2] == ("python3", "-c")
    assert hold_words[3:] == ("900",)
    assert hold_words[2] == Path(kubernetes_hold.__file__).read_text()
    own_words, own_environ = seen_in(container(request(setup, **KINDS[kind])))
    spec = KeeperSpec.from_json(
        in_pods(request(setup, **KINDS[kind]), held(kind), "launch", "token", "python3").details["spec"]
    )
    tasks = [task for agent in spec.agents for task in agent.tasks]
    assert len(tasks) == {"job": 2, "job-slots": 8, "jobset": 2}.get(kind, 1)
    for task in tasks:
        environ = {**hold_environ, **task.environ}
        ours = {name for name in environ if name.startswith("BUSBW_")} | {"PYTHONPATH"} - own_environ.keys()
        assert {name: value for name, value in environ.items() if name not in ours} == {
            name: value for name, value in own_environ.items() if name not in ours
        }
        assert task.argv == (own_words[4:] if kind == "job-slots" else own_words)
    if kind == "job-slots":
        ranks = [(task.rank, task.environ["BUSBW_RANK"], task.environ["BUSBW_LOCAL_RANK"]) for task in tasks]
        assert ranks == [(rank, str(rank), str(rank % 4)) for rank in range(8)]


def test_every_pod_has_an_agent_and_the_first_ones_have_the_ranks() -> None:
    made = in_pods(request("plain", 2, **KINDS["job"]), held("job", 12), "launch", "token", "python3.12")
    spec = KeeperSpec.from_json(made.details["spec"])
    assert [agent.host.split("-")[1] for agent in spec.agents] == [str(number) for number in range(12)]
    assert [len(agent.tasks) for agent in spec.agents] == [1, 1, *[0] * 10]
    assert spec.agents[1].tasks[0].environ["BUSBW_WORLD_SIZE"] == "2"
    assert spec.agents[0].connect[-3:-1] == ("python3.12", "-c")
    assert (made.engine, made.nodes, spec.job) == ("hosts", 2, "launch")


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_fewer_workers_of_an_mpi_job(kind: str) -> None:
    """The launcher's file names them all, and the first are taken: in the order of their numbers."""
    more = held(kind, 11)
    assert [one["metadata"]["name"] for one in more.workers][-1] == "j-worker-10"
    spec = KeeperSpec.from_json(
        in_pods(request("plain", 2, **KINDS[kind]), more, "launch", "token", "python3").details["spec"]
    )
    assert [bool(agent.tasks) for agent in spec.agents] == [True, *[False] * 11]
    script = spec.agents[0].tasks[0].argv[2]
    first, rest = script.split("\n", 1)
    assert first == "head -n 2 /etc/mpi/hostfile >/tmp/busbw-first-hostfile"
    assert "/etc/mpi/hostfile" not in rest
    assert "/tmp/busbw-first-hostfile" in rest
    slots = KINDS[kind].get("ranks_per_node", 1)
    assert spec.hosts_by_rank == tuple(f"j-worker-{number}" for number in (0, 1) for _ in range(slots))
    whole = in_pods(request("plain", 11, **KINDS[kind]), more, "launch", "token", "python3")
    assert "first-hostfile" not in whole.details["spec"]


def test_pods_that_were_made_anew_are_not_those_that_were_held() -> None:
    one = held("mpich")
    assert one.is_intact(pods("mpich"))
    assert one.nodes == ("node-of-j-worker-0", "node-of-j-worker-1")
    anew, going, ended = pods("mpich"), pods("mpich"), pods("mpich")
    anew[1]["metadata"]["uid"] = "another"
    going[2]["metadata"]["deletionTimestamp"] = "now"
    ended[0]["status"] = {"containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}]}
    for later in (anew, going, ended, anew[:1]):
        assert not one.is_intact(later)
    assert [one.died(later) for later in (pods("mpich"), anew, going, ended)] == [False, False, False, True]


def test_a_pod_whose_node_is_shut_down_was_wanted_away() -> None:
    """One that is evicted may have used up what its node had."""
    one = held("mpich")
    for reason, died in (("Terminated", False), ("Evicted", True)):
        later = pods("mpich")
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        later[1]["status"] = {"reason": reason, "conditions": [condition]}
        assert one.died(later) == died


@pytest.mark.parametrize("kind", ["job", "mpich"])
def test_pods_that_are_not_all_there_are_not_held(kind: str) -> None:
    one = held(kind)
    for left in range(len(pods(kind))):
        some = [each for number, each in enumerate(pods(kind)) if number != left]
        assert held_by(one.handle, some, 2) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"status": "Success"}, 0),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "137"}]}}, 137),
    ],
)
def test_the_exit_code_of_a_command_in_a_container(status: dict[str, Any], code: int) -> None:
    assert exit_code(json.dumps(status).encode()) == code


def test_a_command_that_did_not_start() -> None:
    status = {"status": "Failure", "message": 'container not found ("rank")', "details": {"causes": None}}
    with pytest.raises(SiteError, match="container not found"):
        exit_code(json.dumps(status).encode())


@pytest.mark.parametrize(
    "said", [b"", b"null", b"\xff", b'{"status": "Failure", "details": {"causes": [1]}}']
)
def test_a_status_that_is_none(said: bytes) -> None:
    with pytest.raises(SiteError, match="of the command's end"):
        exit_code(said)


HOLD = """
import sys
from busbw.launchers import kubernetes_hold
kubernetes_hold._LOOK_SECONDS = 0.05
kubernetes_hold.others = lambda: sys.argv[1] == "busy"
sys.exit(kubernetes_hold.hold(0.5, 0.5))
"""


def test_a_pod_is_held_while_somebody_comes() -> None:
    """And fails where nobody does, or as it is told to: a job must not be good with some of its pods gone."""
    idle, busy = (
        subprocess.Popen([sys.executable, "-c", HOLD, how], stderr=subprocess.PIPE, text=True)
        for how in ("idle", "busy")
    )
    _, words = idle.communicate(timeout=60)
    assert (idle.returncode, words.count("no launch came for ")) == (1, 1)
    time.sleep(0.5)
    assert busy.poll() is None
    busy.send_signal(signal.SIGTERM)
    busy.communicate(timeout=60)
    assert busy.returncode == 128 + signal.SIGTERM
