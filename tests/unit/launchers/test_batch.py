"""Whole AWS Batch requests as text, the nodes' own script executed, and the engine against a stand-in for
aws.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import is_golden

from busbw.cli.main import main
from busbw.errors import SiteError, UsageError
from busbw.launchers import batch
from busbw.launchers.engine import Handle, Job, JobState, Output, Phase, Unanswered, Work
from busbw.settings.launch import LaunchSettings

GOLDEN = Path(__file__).parent / "golden" / "batch"
RUN_ID = "20261122-101500-all_reduce-3f9a"


def job(folder: str = f"/runs/{RUN_ID}", words: tuple[str, ...] = (), **settings: Any) -> Job:
    own = {name: settings.pop(name) for name in ("environ", "backend", "world", "ranks") if name in settings}
    work = Work(words, is_busbw=False) if words else Work(("run", "all_reduce", f"--deliver={folder}"))
    defaults = {"nodes": "2", "image": "registry/busbw:1", "partition": "queue"}
    return Job(RUN_ID, folder, work, LaunchSettings(on="batch", **{**defaults, **settings}), **own)


CASES: Mapping[str, Job] = {
    "p5": job(set=("nic=2",), environ={"NCCL_DEBUG": "INFO"}, time_limit="30m"),
    "small": job(
        set=("gpu=0", "vcpus=4", "memory=8192", "shm=1024", "instance-type=c7i.xlarge"), ranks_per_node=2
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_request(name: str) -> None:
    text = str(batch.request(CASES[name], {})) + "\n"
    is_golden(text, GOLDEN / f"{name}.txt")


@pytest.mark.parametrize(
    "settings",
    [
        {"nodes": ""},
        {"image": ""},
        {"mpi": "openmpi"},
        {"world": "mpi"},
        {"ranks": 3},
        {"set": ("colour=red",)},
        {"set": ("gpu=many",)},
    ],
)
def test_what_does_not_fit_is_refused(settings: Any) -> None:
    with pytest.raises(UsageError):
        batch.request(job(**settings), {})


def test_every_node_starts_its_own_ranks() -> None:
    """The container's command as AWS Batch would run it, on node 1 of 2."""
    names = [f"BUSBW_{name}" for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "ROOT", "TOKEN")]
    said = "' '.join(os.environ[name] for name in names) + ' ' + repr(os.environ['A']) + chr(10)"
    ask = f"import os, sys; names = {names}; sys.stdout.write({said})"  # at once: the ranks share the pipe
    made = job(words=(sys.executable, "-c", ask), environ={"A": "it's $(one)\ntwo"}, ranks_per_node=2)
    definition = json.loads(batch.request(made, {}).files[batch.DEFINITION])
    (every,) = definition["nodeProperties"]["nodeRangeProperties"]
    container = every["container"]
    variables = {each["name"]: each["value"] for each in container["environment"]}
    given = {
        "AWS_BATCH_JOB_ID": "aa-bb#1",
        "AWS_BATCH_JOB_NODE_INDEX": "1",
        "AWS_BATCH_JOB_NUM_NODES": "2",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.7",
    }
    done = subprocess.run(
        container["command"],
        env={**os.environ, **variables, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = ["2 4 0 2 10.0.0.7 aa-bb", "3 4 1 2 10.0.0.7 aa-bb"]
    assert sorted(done.stdout.splitlines()) == [f'{line} "it\'s $(one)\\ntwo"' for line in wanted]


def on_node_0(made: Job) -> subprocess.CompletedProcess[str]:
    """The container's command as AWS Batch would run it on the main node."""
    definition = json.loads(batch.request(made, {}).files[batch.DEFINITION])
    (every,) = definition["nodeProperties"]["nodeRangeProperties"]
    variables = {each["name"]: each["value"] for each in every["container"]["environment"]}
    given = {"AWS_BATCH_JOB_ID": "x", "AWS_BATCH_JOB_NODE_INDEX": "0", "AWS_BATCH_JOB_NUM_NODES": "2"}
    return subprocess.run(
        every["container"]["command"],
        env={**os.environ, **variables, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_node_ends_as_its_ranks_do() -> None:
    assert on_node_0(job(words=("false",))).returncode == 1
    by_rank = (
        "sh",
        "-c",
        'case $BUSBW_RANK in 0) exit 0 ;; 3) exit 9 ;; *) exit "$((4 + BUSBW_RANK))" ;; esac',
    )
    assert on_node_0(job(words=by_rank, ranks_per_node=4)).returncode == 5  # of the first one that failed


@pytest.mark.parametrize("word", ["Ref::x", "--name=Ref::x"])
def test_a_word_that_aws_batch_would_replace_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"AWS Batch takes Ref:: in '.*Ref::x'") as caught:
        batch.request(job(words=("program", word)), {})
    assert """sh -c 'program Ref:":"name'""" in caught.value.hint
    done = on_node_0(job(words=("sh", "-c", 'echo Ref:":"name'), ranks_per_node=1))
    assert done.stdout == "Ref::name\n"


@pytest.mark.parametrize("name", ["MASTER_ADDR", "MASTER_PORT", "BUSBW_ROOT"])
def test_where_ranks_meet_is_the_users_to_say(name: str) -> None:
    words = ("sh", "-c", "echo $MASTER_ADDR $MASTER_PORT $BUSBW_ROOT")
    usual = on_node_0(job(words=words, ranks_per_node=1)).stdout.split()
    said = on_node_0(job(words=words, ranks_per_node=1, environ={name: "10.9.8.7"})).stdout.split()
    number = ("MASTER_ADDR", "MASTER_PORT", "BUSBW_ROOT").index(name)
    assert said == [*usual[:number], "10.9.8.7", *usual[number + 1 :]]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"status": "RUNNABLE"}, JobState(Phase.PENDING, why="RUNNABLE")),
        ({"status": "RUNNING"}, JobState(Phase.RUNNING)),
        ({"status": "SUCCEEDED"}, JobState(Phase.ENDED, code=0)),
        (
            {"status": "FAILED", "statusReason": "Host EC2 terminated", "container": {"exitCode": 137}},
            JobState(Phase.ENDED, why="Host EC2 terminated", code=137),
        ),
        ({}, JobState(Phase.ENDED, why="AWS Batch does not know the job any more")),
    ],
)
def test_the_state_as_describe_jobs_tells_it(fields: Any, wanted: JobState) -> None:
    assert batch.read_state(fields) == wanted


def test_a_queue_that_cannot_serve_the_job() -> None:
    found = batch.read_state(
        {"status": "RUNNABLE", "statusReason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"}
    )
    assert found.hopeless
    assert "MISCONFIGURATION" in found.why


AWS = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open(os.environ["AWS_STAND_IN"], "a") as log:
    print(" ".join(words), file=log)
value = lambda flag: words[words.index(flag) + 1]
if words[1] == "register-job-definition":
    json.load(open(value("--cli-input-json").removeprefix("file://")))
    answer = {{"jobDefinitionArn": "arn:definition:1"}}
elif words[1] == "submit-job":
    if os.environ.get("AWS_REFUSES"):
        sys.exit("An error occurred (ClientException): JobQueue queue not found.")
    answer = {{"jobId": "aa-bb"}}
    if os.environ.get("AWS_SILENT"):
        sys.exit("Read timeout on endpoint URL")
elif words[1] == "list-jobs":
    is_known = value("--filters").endswith(os.environ.get("AWS_KNOWS", "none"))
    answer = {{"jobSummaryList": [{{"jobId": "cc-dd"}}] if is_known else []}}
elif words[1] == "terminate-job" and os.environ.get("AWS_KEEPS"):
    sys.exit("An error occurred (AccessDeniedException): not authorized")
elif words[1] == "describe-jobs":
    node = value("--jobs").partition("#")[2]
    code = os.environ.get("AWS_CODE", "")
    job = {{"status": "FAILED" if code else "SUCCEEDED"}}
    if code:
        job["statusReason"] = "Essential container exited"
    if node:
        job["container"] = {{"logStreamName": f"stream{{node}}", "exitCode": int(code or 0)}}
    else:  # a multi-node job has no container of its own
        job["nodeProperties"] = {{"numNodes": 2}}
    answer = {{"jobs": [job] if node != os.environ.get("AWS_FORGETS", "none") else []}}
elif words[1] == "get-log-events":
    page = value("--next-token") if "--next-token" in words else "0"
    events = {{"0": [{{"message": "one"}}], "1": [{{"message": "two"}}]}}.get(page, [])
    late = os.environ["AWS_STAND_IN"] + ".late"
    following = str(min(2, int(page) + 1))
    if page == "2":  # CloudWatch brings one line more at the third look
        with open(late, "a") as looks:
            print("look", file=looks)
        if len(open(late).readlines()) == 3:
            events, following = [{{"message": "three"}}], "3"
    if page == "3":
        following = "3"
    answer = {{"events": events, "nextForwardToken": following}}
else:
    answer = {{}}
print(json.dumps(answer))
"""


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "aws"
    program.parent.mkdir()
    program.write_text(AWS.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("AWS_STAND_IN", str(tmp_path / "calls"))
    monkeypatch.setattr(batch, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(batch, "_TRAIL_SECONDS", 5.0)
    return tmp_path


def submit(folder: Path) -> Handle:
    (folder / "request").mkdir(parents=True)
    (folder / "log").mkdir()
    request = batch.request(job(str(folder)), {})
    for name, text in request.files.items():
        (folder / "request" / name).write_text(text)
    return batch.submit(request, folder)


def test_from_submission_to_the_end(aws: Path) -> None:
    handle = submit(aws / "run")
    assert (handle.id, handle.details) == (
        "aa-bb",
        {"queue": "queue", "definition": "arn:definition:1"},
    )
    items = [item for item in batch.follow(handle, aws / "run") if item is not None]
    assert items[:-1] == [Output(line, "node 0") for line in ("one", "two", "three")]
    assert items[-1] == JobState(Phase.ENDED, code=0)
    batch.collect(handle, aws / "run")
    assert "node 1: /aws/batch/job stream1" in (aws / "run/log/cloudwatch.txt").read_text()
    batch.cancel(handle, now=False)
    batch.clean(handle)
    calls = (aws / "calls").read_text()
    assert "terminate-job --job-id aa-bb" in calls
    assert "deregister-job-definition --job-definition arn:definition:1" in calls


def test_a_job_ends_with_the_code_of_its_main_node(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CODE", "7")
    handle = submit(aws / "run")
    ended = JobState(Phase.ENDED, why="Essential container exited", code=7)
    assert batch.state(handle) == ended
    monkeypatch.setenv("AWS_CODE", "0")  # another node failed
    assert batch.state(handle) == replace(ended, code=None)
    monkeypatch.setenv("AWS_CODE", "7")
    monkeypatch.setenv("AWS_FORGETS", "0")  # a node that never started is none
    assert batch.state(handle) == replace(ended, code=None)


def test_a_refused_job_leaves_no_definition(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REFUSES", "yes")
    with pytest.raises(SiteError, match="JobQueue queue not found"):
        submit(aws / "run")
    assert "deregister-job-definition" in (aws / "calls").read_text()


def test_what_was_asked_is_kept_beside_the_handle_and_a_refusal_is_no_job(
    aws: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(aws / "home"))
    words = ["run", "all_reduce", "--on", "batch", "-N", "2", "--image", "i", "--partition", "q"]
    assert main([*words, "--detach"]) == 0
    (folder,) = (aws / "home").iterdir()
    assert json.loads((folder / "request" / batch.SUBMISSION).read_text())["jobQueue"] == "q"
    monkeypatch.setenv("AWS_REFUSES", "yes")
    assert main(words) == 4
    assert "hint: try `aws batch describe-job-queues`" in capsys.readouterr().err
    assert main(["jobs", "--format", "json"]) == 0
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [folder.name]


def test_without_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SiteError, match="no AWS Batch here: aws was not found"):
        batch.submit(batch.request(job(), {}), tmp_path)


def test_a_submission_without_an_answer_is_found_by_its_name(
    aws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SILENT", "yes")
    with pytest.raises(Unanswered) as told:
        submit(aws / "run")
    handle = told.value.handle
    assert batch.find(handle) is None
    monkeypatch.setenv("AWS_KNOWS", handle.name)
    assert batch.find(handle) == replace(handle, id="cc-dd")
    assert "deregister" not in (aws / "calls").read_text()  # the job may need it


def test_a_cancel_that_aws_does_not_take_is_an_error(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_KEEPS", "yes")
    with pytest.raises(SiteError, match="not authorized"):
        batch.cancel(Handle("batch", "aa-bb", "run"), now=False)
