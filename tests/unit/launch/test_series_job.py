"""A series in one job: what is sent to each engine, and its output as that of the launches."""

from __future__ import annotations

import base64
import io
import json
import shlex
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from busbw.cli.main import main
from busbw.errors import SiteError, UsageError
from busbw.launch import job_loop, series_job, submit
from busbw.launch.engine import (
    Handle,
    Item,
    Job,
    JobRequest,
    JobState,
    Output,
    Phase,
    SeriesEngine,
    Work,
)
from busbw.launch.series import Series, create_series, planned_launches, read_series
from busbw.launch.series_job import follow_series, series_request
from busbw.launch.series_plan import SeriesPlan
from busbw.launch.settle import as_steps, job_around
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.setups import Setup
from busbw.record import folder as folders

SLURM: Mapping[str, str] = {"gpus": "0", "mpi": "pmi2", "partition": "fast", "python": "/py", "setup": ""}
SETUPS = (Setup("plain"), Setup("tuned", {"A": "a 'b' $c"}))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    return tmp_path


# ---- what is sent --------------------------------------------------------------------------------------


def plan(
    on: str, counts: tuple[int, ...], facts: Mapping[str, str], ranks: int | None = None, **fields: Any
) -> SeriesPlan:
    launch = LaunchSettings(on=on, nodes=",".join(map(str, counts)), **fields)
    settings = RunSettings(backend="mpi", ranks=ranks)
    made = SeriesPlan(SETUPS, counts, ("all_reduce",), settings, launch, {}, 600.0, (), io.StringIO())
    made.__dict__["facts"] = facts
    return made


def series_of(made: SeriesPlan, home: Path, blocks: int = 2) -> Series:
    order = tuple(tuple(setup.name for setup in SETUPS) for _ in range(blocks))
    return Series(home / "20261122-1-setups-ab", SETUPS, 1, order, tuple(made.counts), {}, ())


def decoded(word: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(word)))
    return found


def in_script(text: str) -> dict[str, Any]:
    """The task is the last word before the & that starts the loop."""
    return decoded(text.partition(" &\nloop=$!")[0].rpartition(" ")[2])


@pytest.mark.parametrize(
    ("counts", "ranks", "fields", "asked"),
    [
        ((2, 8, 4), None, {"ranks_per_node": 4}, "--nodes=8 --ntasks-per-node=4"),
        ((2, 4), 8, {}, "--nodes=4 --ntasks-per-node=4"),
        ((3,), 7, {}, "--nodes=3 --ntasks-per-node=3"),
    ],
)
def test_a_job_of_slurm_has_room_for_every_launch(
    home: Path, counts: tuple[int, ...], ranks: int | None, fields: dict[str, Any], asked: str
) -> None:
    made = plan("slurm", counts, SLURM, ranks, **fields)
    (command,) = series_request(made, series_of(made, home)).commands
    assert asked in shlex.join(command.argv)


def test_each_launch_on_slurm_is_a_step_with_its_setups_variables(home: Path) -> None:
    made = plan("slurm", (1, 2), SLURM)
    series = series_of(made, home)
    task = in_script(series_request(made, series).files["job.sbatch"])
    assert task["mark"] == series.folder.name
    assert [each["number"] for each in task["launches"]] == list(range(1, 9))
    assert [each["setup"] for each in task["launches"][:2]] == ["plain on 1", "tuned on 1"]
    assert {each["limit_s"] for each in task["launches"]} == {600.0}
    first, last = task["launches"][0], task["launches"][-1]
    assert "--overlap --nodes=1 --ntasks=1 " in first["argv"][2]
    assert "--overlap --nodes=2 --ntasks=2 " in last["argv"][2]
    assert f"run_folder={series.folder}/launches/0008\n" in last["argv"][2]
    assert f"--deliver={series.folder}/launches/0008" in last["argv"][2]
    assert f"export A={shlex.quote(SETUPS[1].environ['A'])}" in last["argv"][2]
    assert "export A=" not in first["argv"][2]
    assert f"export BUSBW_SERIES={series.folder.name}" in first["argv"][2]
    assert task["sweep"][:3] == ["srun", "--quiet", "--overlap"]
    assert "--nodes=2" in task["sweep"]
    assert task["sweep"][-2:] == ["busbw-sweep", series.folder.name]


def test_in_an_allocation_of_the_users_nothing_is_submitted(home: Path) -> None:
    made = plan("slurm", (2,), {**SLURM, "job_nodes": "4"}, job_id="17")
    request = series_request(made, series_of(made, home))
    (command,) = request.commands
    assert command.argv[0] == "bash"
    task = in_script(request.files["job.sbatch"])
    assert "--jobid=17 --overlap --nodes=2 --ntasks=2 " in task["launches"][0]["argv"][2]
    assert "--jobid=17" in task["sweep"]


def test_what_is_asked_of_a_step_and_where_launches_are_steps() -> None:
    new: dict[str, Any] = {
        "partition": "fast",
        "account": "team",
        "time_limit": "2:00:00",
        "segment": 2,
        "sbatch_args": "-x a",
    }
    launch = LaunchSettings(on="slurm", nodes="2,4", exclusive=False, wait="5m", mpi="none", **new)
    assert as_steps(launch, "17") == LaunchSettings(on="slurm", nodes="2,4", job_id="17", mpi="none")
    around = {"SLURM_JOB_ID": "9"}
    assert job_around(LaunchSettings(on="slurm", nodes="2"), around) == "9"
    assert job_around(LaunchSettings(on="slurm", partition="fast"), around) == ""
    assert job_around(LaunchSettings(on="hosts"), around) == ""


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_launch_in_an_mpi_job_is_what_its_launcher_would_execute(home: Path, mpi: str) -> None:
    pytest.importorskip("kubernetes")
    from busbw.launch.kubernetes.manifest import JOB_FILE
    from busbw.launch.kubernetes.yaml import from_yaml

    facts = {"namespace": "team", "token": "t"}
    made = plan("kubernetes", (1, 2), facts, image="lab/busbw", mpi=mpi)
    series = series_of(made, home)
    request = series_request(made, series)
    specs = from_yaml(request.files[JOB_FILE])[-1]["spec"]["mpiReplicaSpecs"]
    assert specs["Worker"]["replicas"] == 2
    container = specs["Launcher"]["template"]["spec"]["containers"][0]
    python, option, text, word = (each.replace("$$", "$") for each in container["command"])
    assert (python, option) == ("python3", "-c")
    assert text == Path(job_loop.__file__).read_text()
    task = decoded(word)
    first, last = task["launches"][0], task["launches"][-1]
    assert "head -n 1 /etc/mpi/hostfile" in first["argv"][2]
    assert "head -n 1" not in last["argv"][2]
    assert last["environ"]["A"] == SETUPS[1].environ["A"]
    assert "A" not in first["environ"]
    assert ("-x BUSBW_SERIES" in last["argv"][2]) == (mpi == "openmpi")
    assert last["argv"][-1] == f"--deliver={series.folder}/launches/0008"


def test_kubernetes_without_a_launchers_pod_is_refused_before_anything_is_printed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("kubernetes")
    facts = {"namespace": "team", "token": "t"}
    monkeypatch.setattr("busbw.launch.kubernetes.engine.inquire", lambda *_, **__: facts)
    (home / "s.yaml").write_text("setups: {plain: {}, other: {env: {A: b}}}")
    words = ("--ops", "all_reduce", "--on", "kubernetes", "-N", "2", "--image", "i", "--set", "kind=jobset")
    for dry in ((), ("--dry-run",)):
        assert main(["compare", str(home / "s.yaml"), *words, *dry]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert "a jobset has not" in told.err
        assert "--set kind=mpijob" in told.err
    assert [path.name for path in home.iterdir()] == ["s.yaml"]


@pytest.mark.parametrize(
    ("fields", "starts", "sweeps"),
    [
        ({}, "mpiexec -n 2 -ppn 1 ", ["mpiexec", "-n", "2", "-ppn", "1", "sh"]),
        ({"set": ("launcher=aprun",)}, "aprun -n 2 -N 1 ", ["aprun", "-q", "-n", "2", "-N", "1", "sh"]),
        ({"mpi": "openmpi"}, "mpirun -n 2 --map-by ppr:1:node ", ["sh", "-c"]),
    ],
)
def test_each_launch_on_pbs_is_the_launchers_line(
    home: Path, fields: dict[str, Any], starts: str, sweeps: list[str]
) -> None:
    made = plan("pbs", (1, 2), {"python": "/py", "setup": ""}, **fields)
    request = series_request(made, series_of(made, home))
    task = in_script(request.files["job.pbs"])
    assert starts in task["launches"][-1]["argv"][2]
    assert task["sweep"][: len(sweeps)] == sweeps
    assert "select=2:mpiprocs=1" in request.files["job.pbs"]


def test_a_series_that_does_not_fit_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_job, "_MOST_WORD_BYTES", 1000)
    made = plan("pbs", (2,), {"python": "/py", "setup": ""})
    with pytest.raises(UsageError, match="20 launches do not fit into one job"):
        series_request(made, series_of(made, home, blocks=10))


def test_a_dry_run_shows_the_job_and_a_launch(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "s.yaml").write_text("setups: {plain: {}, other: {env: {A: b}}}")
    words = ("--ops", "all_reduce", "--on", "pbs", "-N", "2,4", "--blocks", "2", "--dry-run")
    assert main(["compare", str(home / "s.yaml"), *words]) == 0
    out = capsys.readouterr().out
    assert "# setup other\nA=b\n# 8 launches in 2 blocks, order seed " in out
    assert "# all in one job:\n# #!/bin/bash" in out
    assert "select=4:mpiprocs=1" in out
    assert "# a launch of plain in it:" in out
    assert "mpiexec -n 2 -ppn 1" in out
    assert [path.name for path in home.iterdir()] == ["s.yaml"]


# ---- what comes back -----------------------------------------------------------------------------------

GOOD = '@{} o {{"busbw":2,"event":"end","status":"complete","exit_code":0,"seq":1}}'
RUNNING = JobState(Phase.RUNNING)


class FakeEngine:
    """An engine whose job prints what it is told; an error among the items is raised."""

    WAIT_SECONDS: float | None = None

    def __init__(self, *items: str | Item | SiteError) -> None:
        self.items = [Output(item) if isinstance(item, str) else item for item in items]
        self.cancelled = 0
        self.collected = 0

    def follow(self, handle: Handle, folder: Path) -> Iterator[Item]:
        for item in self.items:
            if isinstance(item, SiteError):
                raise item
            yield item
        while not self.cancelled:  # a script without an end
            yield None
        yield JobState(Phase.ENDED, cancelled=True)

    def cancel(self, handle: Handle, *, now: bool) -> None:
        self.cancelled += 1

    def state(self, handle: Handle) -> JobState:
        return RUNNING

    def collect(self, handle: Handle, folder: Path) -> None:
        self.collected += 1


@pytest.fixture
def submitted(home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A series of two setups in two blocks that was submitted to an engine that prints these items."""

    def made(*items: str | Item | SiteError) -> tuple[Path, FakeEngine]:
        engine = FakeEngine(*items)
        monkeypatch.setattr("busbw.launch.follow.load", lambda name: engine)
        series = create_series(SETUPS, 2, 7, (2,), {})
        for planned in planned_launches(series):
            folder = folders.create(planned.folder.parent, planned.folder.name)
            job = Job(folder.name, str(folder), Work(("run", "all_reduce")), LaunchSettings(on="pbs"))
            submit.write_request(folder, job, JobRequest("pbs", "busbw-x", 2, 2), (), RunSettings())
        handle = Handle("pbs", "12", "busbw-x")
        (series.folder / folders.JOB_FILE).write_text(json.dumps(asdict(handle)))
        return series.folder, engine

    return made


def followed(folder: Path, err: io.StringIO | None = None, **words: bool) -> Series:
    series = follow_series(folder, err or io.StringIO(), **{"cancels": True, **words})
    assert series is not None
    return series


def measured(number: int) -> list[str]:
    """The lines of a launch that measured."""
    return [GOOD.format(number), f'@{number} = {{"code": 0, "seconds": 2.5, "ended": false}}']


def test_lines_go_to_their_launches(submitted: Any) -> None:
    bad = ["@2 e Killed by something", '@2 = {"code": 137, "seconds": 1.5, "ended": false}']
    folder, engine = submitted(
        JobState(Phase.PENDING, "Resources"),
        RUNNING,
        "a word of the job's own",
        *measured(1),
        *bad,
        *measured(3),
        *measured(4),
        JobState(Phase.ENDED, code=0),
    )
    err = io.StringIO()
    series = followed(folder, err)
    assert not series.stopped
    assert [outcome.seconds for outcome in series.outcomes] == [2.5, 1.5, 2.5, 2.5]
    assert [bool(outcome.error) for outcome in series.outcomes] == [False, True, False, False]
    assert "SIGKILL" in series.outcomes[1].error
    assert series.outcomes[1].words == ("Killed by something",)
    assert (folder / "launches/0002/log/ranks.log").read_text() == "Killed by something\n"
    assert (folder / "log/ranks.log").read_text() == "a word of the job's own\n"
    assert "job 12: pending: Resources" in err.getvalue()
    assert err.getvalue().count("job 12: running") == 1
    assert (engine.cancelled, engine.collected) == (0, 1)
    assert followed(folder, err).outcomes == series.outcomes  # and asks nobody again
    assert engine.collected == 1


def test_what_the_loop_skips_and_ends_by_its_limit(submitted: Any) -> None:
    folder, _ = submitted(
        RUNNING,
        '@1 = {"limit_s": 25.0}',
        "@1 o mpirun: told to end",
        '@1 = {"limit_s": 25.0, "code": 143, "seconds": 25.1, "ended": false}',
        *measured(2),
        '@3 = {"skipped": true}',
        *measured(4),
        JobState(Phase.ENDED, code=0),
    )
    series = followed(folder)
    assert series.outcomes[0].error == "the launch had not ended after 25 s: no rank had said anything"
    assert [outcome.skipped for outcome in series.outcomes] == [False, False, True, False]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (
            ('@2 = {"lost": "lost a host: w1"}', JobState(Phase.ENDED, code=75)),
            "lost a host: w1",
        ),
        (
            ("@2 o hello", JobState(Phase.ENDED, "it reached its time limit", out_of_time=True)),
            "it reached its time limit",
        ),
        (
            ('@2 = {"code": 1, "ended": true}', JobState(Phase.ENDED, "cancelled", cancelled=True)),
            "cancelled",
        ),
    ],
)
def test_the_end_of_the_job_is_no_setups_failure(submitted: Any, last: tuple[Any, ...], why: str) -> None:
    folder, engine = submitted(RUNNING, *measured(1), *last)
    err = io.StringIO()
    series = followed(folder, err)
    assert [outcome.error for outcome in series.outcomes] == [""]
    assert series.stopped == f"job 12, which runs all launches, has ended: {why}"
    assert f"error: {series.stopped}" in err.getvalue()
    assert sorted(path.name for path in (folder / "launches").iterdir()) == ["0001", "0002"]
    assert engine.collected == 1


def test_a_job_that_cannot_start_is_cancelled(submitted: Any) -> None:
    folder, engine = submitted(JobState(Phase.PENDING, "never", hopeless=True), None)
    series = followed(folder)
    assert series.outcomes == ()
    assert series.stopped == "job 12 cannot start: never"
    assert engine.cancelled


def test_a_series_that_is_to_end_is_read_first(submitted: Any) -> None:
    """As by cancel, of an engine that deletes what a job printed together with the job."""
    folder, engine = submitted(RUNNING, *measured(1), "@2 o hello")
    series = followed(folder, ends=True)
    assert (len(series.outcomes), series.stopped) == (1, "interrupted")
    assert engine.cancelled


def test_who_attaches_goes_on_where_the_last_one_was(submitted: Any) -> None:
    """The output is read from its start again."""
    lines = [*measured(1), *measured(2), *measured(3), *measured(4)]
    folder, engine = submitted(RUNNING, *lines[:3], SiteError("the controller does not answer"))
    with pytest.raises(SiteError, match="the controller does not answer"):
        followed(folder)
    assert engine.cancelled == 0
    assert len(read_series(folder)[0].outcomes) == 1
    engine.items = FakeEngine(RUNNING, *lines, JobState(Phase.ENDED, code=0)).items
    assert len(followed(folder, cancels=False).outcomes) == 4


def test_the_workers_of_an_mpi_job_are_all_asked(tmp_path: Path) -> None:
    """By ssh; its stand-in notes the worker, and is another host for one of them."""
    pytest.importorskip("kubernetes")
    made = plan("kubernetes", (2,), {"namespace": "team", "token": "t"}, image="i")
    marked = ("sh", "-c", 'echo "$1 $2" >>"$HERE/swept"; [ ! -e "$HERE/lost" ]', "busbw-sweep", "mark's")
    words = cast("SeriesEngine", made.engine).sweep(made.job_of(SETUPS[0], 2, tmp_path), marked, made.facts)
    (tmp_path / "hostfile").write_text("w0.job:8\nw1.job slots=8\n")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\necho "$1" >>"$HERE/hosts"\nsh -c "$2"\n')
    ssh.chmod(0o755)
    argv = [word.replace("/etc/mpi/hostfile", str(tmp_path / "hostfile")) for word in words]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HERE": str(tmp_path)}
    assert subprocess.run([*argv, "first"], env=environ, check=False).returncode == 0
    assert sorted((tmp_path / "hosts").read_text().split()) == ["w0.job", "w1.job"]
    assert (tmp_path / "swept").read_text() == "mark's first\n" * 3
    (tmp_path / "lost").touch()
    assert subprocess.run([*argv, "next"], env=environ, check=False).returncode == 1
