"""Whole PBS requests as text, and the engine against stand-ins for qsub, qstat and qdel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.golden import is_golden
from busbw_testing.stand_ins import stand_in

from busbw.errors import SiteError, UsageError
from busbw.launch import engine as contract
from busbw.launch.batch import END_MARK
from busbw.launch.engine import Handle, Job, JobState, Output, Phase, Work
from busbw.launch.pbs import engine as pbs
from busbw.plan.flags.launch import LaunchSettings

GOLDEN = Path(__file__).parent / "golden" / "pbs"
FACTS = {"python": "/env/bin/python", "setup": ""}
RUN_ID = "20261122-101500-all_reduce-3f9a"


def job(folder: str = f"/runs/{RUN_ID}", words: tuple[str, ...] = (), **settings: Any) -> Job:
    own = {name: settings.pop(name) for name in ("environ", "backend", "world", "ranks") if name in settings}
    work = Work(words, is_busbw=False) if words else Work(("run", "all_reduce", f"--deliver={folder}"))
    return Job(RUN_ID, folder, work, LaunchSettings(on="pbs", **{"nodes": "2", **settings}), **own)


CASES: Mapping[str, tuple[Job, Mapping[str, str]]] = {
    "mpiexec": (job(ranks_per_node=4, partition="prod", account="team", time_limit="0:30:00"), FACTS),
    # As a job of Argonne's Polaris was written: 4 GPUs and 4 ranks a node, 16 cores each.
    "aprun": (
        job(
            nodes="8",
            ranks_per_node=4,
            partition="datascience",
            account="datascience",
            time_limit="0:30:00",
            environ={"NCCL_NET": "AWS Libfabric"},
            set=("launcher=aprun", "form=nodes", "depth=16", "filesystems=home:eagle"),
        ),
        FACTS,
    ),
    "openmpi": (job(mpi="openmpi", environ={"A": "$(b)\nc"}, partition="a b", exclusive=False), FACTS),
    "no-mpi": (job(mpi="none", set=("gpu=8",)), FACTS),
    "exec": (job(words=("train", "a b"), mpi="openmpi"), FACTS),
    "setup": (job(set=("gpu=8",)), {**FACTS, "setup": "module load nccl\n"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_request_has_a_script_that_bash_understands(name: str) -> None:
    request = pbs.request(*CASES[name])
    is_golden(str(request) + "\n", GOLDEN / f"{name}.txt")
    text = request.files[pbs.SCRIPT]
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_variable_of_the_ranks_is_none_of_the_scripts(tmp_path: Path) -> None:
    """Whatever it is called; the script is executed with a stand-in for mpiexec."""
    stand_in(tmp_path, "mpiexec", 'env -0 >"${0%/*}/ranks"\nexec "$@"')
    for folder in ("request", "log"):
        (tmp_path / folder).mkdir()
    (tmp_path / "nodes").write_text("h1\n")
    (tmp_path / "request/ticket").write_text(tmp_path.name)
    names = ("run_folder", "job", "log", "code", "PBS_NODEFILE", "BUSBW_ROOT", "RANDOM")
    made = job(str(tmp_path), environ={**dict.fromkeys(names, "mine"), "PATH": "/nope"}, set=())
    (text,) = pbs.request(made, FACTS).files.values()
    given = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PBS_JOBID": "7.x",
        "PBS_NODEFILE": f"{tmp_path}/nodes",
    }
    subprocess.run(["bash", "-s"], input=text, env=given, text=True, check=False)
    assert END_MARK in (tmp_path / "log/pbs-7.out").read_text()
    seen = dict(item.split("=", 1) for item in (tmp_path / "ranks").read_text().split("\0") if item)
    assert {name: seen[name] for name in names} == dict.fromkeys(names, "mine")
    assert "/usr/bin/env PATH=/nope /env/bin/python" in text
    assert seen["PATH"] == given["PATH"]


@pytest.mark.parametrize(
    "settings",
    [
        {"nodes": ""},
        {"set": ("colour=red",)},
        {"set": ("depth=many",)},
        {"set": ("launcher=srun",)},
        {"mpirun_args": "'open"},
    ],
)
def test_what_does_not_fit_is_refused(settings: Any) -> None:
    with pytest.raises(UsageError):
        pbs.request(job(**settings), FACTS)


@pytest.mark.parametrize(
    ("nodes", "ranks", "each", "message", "hint"),
    [
        ("4", 9, None, "--ranks 9 on 4 nodes, 3 on each, leave 1 without", "--ranks 8 or 12, or -N 3"),
        ("2", 9, 2, "--ranks 9, but --ranks-per-node 2 makes 4", "leave one"),
    ],
)
def test_ranks_that_would_leave_a_node_idle_are_refused(
    nodes: str, ranks: int, each: int | None, message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        pbs.request(job(nodes=nodes, ranks=ranks, ranks_per_node=each), FACTS)
    assert hint in caught.value.hint
    (script,) = pbs.request(job(nodes="4", ranks=7), FACTS).files.values()
    assert "-n 7 -ppn 2 " in script  # the last node may have fewer


@pytest.mark.parametrize("needing", [{"world": "mpi"}, {"backend": "mpi"}])
def test_no_mpi_beside_what_needs_it_is_refused(needing: Any) -> None:
    with pytest.raises(UsageError, match="--mpi none, but this run needs MPI"):
        pbs.request(job(mpi="none", **needing), FACTS)


def test_ranks_are_told_of_no_mpi_once_and_a_command_is_not() -> None:
    for made in (job(mpi="none", world="nccl"), job(mpi="none", words=("train",))):
        (script,) = pbs.request(made, FACTS).files.values()
        assert "--world=nccl" not in script  # where it was said, it is among the words already


QSTAT = """\
Job Id: 12.server
    job_state = {state}
    comment = {comment}
    Exit_status = {code}
"""


@pytest.mark.parametrize(
    ("state", "comment", "code", "wanted"),
    [
        (
            "Q",
            "Not Running: not\n\tenough nodes",
            "",
            JobState(Phase.PENDING, why="Not Running: notenough nodes"),
        ),
        ("H", "", "", JobState(Phase.PENDING, hopeless=True, hint="release it (qrls), then attach")),
        (
            "Q",
            "Can Never Run: no such resource",
            "",
            JobState(
                Phase.PENDING,
                "Can Never Run: no such resource",
                hopeless=True,
                hint="ask for less, or another --partition",
            ),
        ),
        ("R", "Job run at 10:15", "", JobState(Phase.RUNNING)),
        ("F", "Job run and finished", "5", JobState(Phase.ENDED, code=5)),
        ("F", "", "271", JobState(Phase.ENDED, code=-15)),
    ],
)
def test_the_state_as_qstat_tells_it(state: str, comment: str, code: str, wanted: JobState) -> None:
    assert pbs.read_state(QSTAT.format(state=state, comment=comment, code=code)) == wanted


# Runs the script at once, as one node would; the server's state is in files.
QSUB = """
for script; do :; done
echo "$@" > "$PBS_STAND_IN/words"
printf 'n1\\nn2\\n' > "$PBS_STAND_IN/nodes"
PBS_JOBID=12.server PBS_O_WORKDIR=/ PBS_NODEFILE="$PBS_STAND_IN/nodes" \
    bash "$script" >"$PBS_STAND_IN/out" 2>"$PBS_STAND_IN/err"
echo $? > "$PBS_STAND_IN/code"
echo 12.server
"""
QSTAT_PROGRAM = """
printf 'Job Id: 12.server\\n    job_state = F\\n    Exit_status = %s\\n' "$(cat "$PBS_STAND_IN/code")"
"""
MPIEXEC = """
printf '%s ' "$@" > "$PBS_STAND_IN/mpiexec"
while [ "$1" != --ranks ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"qsub": QSUB, "qstat": QSTAT_PROGRAM, "mpiexec": MPIEXEC}.items():
        stand_in(tmp_path / "bin", name, text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PBS_STAND_IN", str(tmp_path))
    return tmp_path


def submitted(job_: Job, *, shared: bool) -> tuple[Handle, Path]:
    folder = Path(job_.folder)
    (folder / "request").mkdir(parents=True)
    (folder / "log").mkdir()
    if shared:
        (folder / "request/ticket").write_text(folder.name + "\n")
    request = pbs.request(job_, {**FACTS, "python": sys.executable})
    (folder / "request" / pbs.SCRIPT).write_text(request.files[pbs.SCRIPT])
    return pbs.submit(request, folder), folder


def test_a_job_on_a_shared_folder(site: Path) -> None:
    words = (sys.executable, "-c", "import os; print(os.environ['A'], os.environ['BUSBW_ROOT'])")
    value = "two words\n$(touch planted)"
    made = job(str(site / "run $(x)"), words, environ={"A": value}, mpirun_args="--ranks")
    handle, folder = submitted(made, shared=True)
    assert handle.id == "12.server"
    items = [item for item in pbs.follow(handle, folder) if item is not None]
    assert items[:2] == [Output("two words"), Output("$(touch planted) n1")]
    assert items[-1] == JobState(Phase.ENDED, code=0)
    assert (site / "mpiexec").read_text().startswith("-n 2 -ppn 1 --ranks")


def test_a_command_that_fails_without_a_shared_folder(site: Path) -> None:
    """PBS itself brings the output."""
    handle, folder = submitted(job(str(site / "run"), ("false",), mpirun_args="--ranks"), shared=False)
    for name in ("out", "err"):
        (folder / "log" / f"pbs.{name}").write_bytes((site / name).read_bytes())
    assert list(pbs.follow(handle, folder))[-1] == JobState(Phase.ENDED, why="exit code 1", code=1)


def test_without_pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SiteError, match="no PBS here: qsub was not found"):
        pbs.submit(pbs.request(job(), FACTS), tmp_path)


def test_a_cancel_that_pbs_does_not_take_is_an_error(site: Path) -> None:
    handle = Handle("pbs", "12.server", "run")
    stand_in(site / "bin", "qdel", "echo 'qdel: Unknown Job Id 12.server' >&2; exit 153")
    pbs.cancel(handle, now=False)
    stand_in(site / "bin", "qdel", "echo 'qdel: cannot connect to server pbs (errno=15010)' >&2; exit 255")
    with pytest.raises(SiteError, match="cannot connect to server pbs"):
        pbs.cancel(handle, now=False)


def test_a_server_that_is_away_for_a_while(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pbs, "_LOOK_SECONDS", 0.0)
    words = (sys.executable, "-c", "print('well')")
    handle, folder = submitted(job(str(site / "run"), words, mpirun_args="--ranks"), shared=False)
    (site / "log").mkdir()
    away = 'echo x >> "$PBS_STAND_IN/asked"; [ "$(wc -l < "$PBS_STAND_IN/asked")" -gt 4 ] || exit 255'
    stand_in(site / "bin", "qstat", f"{away}\n{QSTAT_PROGRAM}")
    for name in ("out", "err"):
        (folder / "log" / f"pbs.{name}").write_bytes((site / name).read_bytes())
    items = [item for item in pbs.follow(handle, folder) if item is not None]
    assert items == [Output("well"), JobState(Phase.ENDED, code=0)]
    monkeypatch.setattr(contract, "PATIENCE_SECONDS", 0.0)
    stand_in(site / "bin", "qstat", "exit 255")
    with pytest.raises(SiteError, match=r"job 12\.server goes on"):
        list(pbs.follow(handle, site))
