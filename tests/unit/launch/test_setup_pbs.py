"""Setups on PBS in one job, against stand-ins for PBS's commands; scripts, mpiexec and ranks are real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import write
from busbw_testing.environ import clean_environ
from busbw_testing.here_engine import MPIEXEC
from busbw_testing.marked import marked
from busbw_testing.stand_ins import stand_in
from busbw_testing.started import Started

# Starts the job's script on "its first node", in a session of its own; the state is in files.
QSUB = """
for script; do :; done
number=$(($(ls -d "$STAND_IN"/job-* 2>/dev/null | wc -l) + 12))
place=$STAND_IN/job-$number
mkdir "$place"
if [ -e "$STAND_IN/refuses" ]; then echo 'qsub: Unknown queue' >&2; exit 170; fi
grep '^#PBS' "$script" >"$place/asked"
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo "$2" >"$place/output"; fi; shift; done
PBS_JOBID=$number.server PBS_O_WORKDIR=/ PBS_NODEFILE="$STAND_IN/nodes" \\
  setsid sh -c 'trap : TERM; bash "$1" >"$2/out" 2>"$2/err"; echo $? >"$2/code"' sh "$script" "$place" \\
  </dev/null >/dev/null 2>&1 &
echo $! >"$place/pid"
echo "$number.server"
"""
QSTAT = """
for job; do :; done
place=$STAND_IN/job-${job%%.*}
if [ ! -d "$place" ]; then echo "qstat: Unknown Job Id $job" >&2; exit 153; fi
if [ -e "$place/code" ]; then state=F; elif [ -e "$place/ends" ]; then state=E; else state=R; fi
printf 'Job Id: %s\\n    job_state = %s\\n    Output_Path = h:%s\\n' "$job" "$state" "$(cat "$place/output")"
if [ $state = F ]; then printf '    Exit_status = %s\\n' "$(cat "$place/code")"; fi
"""
# As PBS does: TERM, and a while later KILL, to all processes of the job's session.
QDEL = """
for job; do :; done
place=$STAND_IN/job-${job%%.*}
echo "$job" >>"$STAND_IN/deleted"
touch "$place/ends"
session=$(cat "$place/pid")
kill -TERM $(ps -o pid= -s "$session") 2>/dev/null
(sleep 5; kill -KILL $(ps -o pid= -s "$session")) >/dev/null 2>&1 </dev/null &
"""
LAUNCH = f"""
n=$2
shift 4
exec {MPIEXEC} -rmk user -launcher fork -hosts localhost -n "$n" "$@"
"""
SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}'
SERIES = (
    *("--ops", "all_reduce", "-b", "1K", "-e", "1K", "-n", "8", "-w", "1", "--order-seed", "1"),
    *("--on", "pbs", "--backend", "mpi"),
)


class Site:
    """A PBS, and busbw beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"qsub": QSUB, "qstat": QSTAT, "qdel": QDEL, "mpiexec": LAUNCH}.items():
            stand_in(folder / "bin", name, text)
        (folder / "nodes").write_text("n1\nn2\nn3\n")
        self.started: list[Started] = []

    def compare(self, *words: str) -> Started:
        spec = write(self.folder / "setups.yaml", SETUPS)
        environ = clean_environ(
            PATH=f"{self.folder}/bin:{os.environ['PATH']}",
            BUSBW_HOME=str(self.folder / "home"),
            STAND_IN=str(self.folder),
        )
        argv = [sys.executable, "-m", "busbw", "compare", str(spec), *SERIES, *words]
        self.started.append(Started(argv, environ, self.folder))
        return self.started[-1]

    def delete(self, job: str) -> None:
        environ = {**os.environ, "STAND_IN": str(self.folder)}
        subprocess.run([self.folder / "bin/qdel", job], env=environ, check=True)

    @property
    def series(self) -> Path:
        (found,) = (path.parent for path in self.folder.glob("home/*/setups.json"))
        return found

    @property
    def is_over(self) -> bool:
        """Its only job is."""
        (job,) = self.folder.glob("job-*")
        return (job / "code").exists()


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """Whatever a test did, no process of its jobs is there afterwards."""
    made = Site(tmp_path)
    yield made
    for each in made.started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
    deadline = time.monotonic() + 20.0
    while (left := marked(f"STAND_IN={tmp_path}")) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def finish(running: Started) -> int:
    return int(running.process.wait(120))


def test_all_launches_are_in_one_job(site: Site) -> None:
    running = site.compare("-N", "1,2", "--blocks", "1", "--time-limit", "1:00:00")
    assert finish(running) == 0, running.err
    assert site.is_over
    asked = (site.folder / "job-12/asked").read_text()
    assert "select=2:mpiprocs=1" in asked
    assert "walltime=1:00:00" in asked
    found = [json.loads(path.read_text()) for path in sorted(site.series.glob("launches/*/run.json"))]
    assert [(each["world"]["size"], each["status"]) for each in found] == [
        (size, "complete") for size in (1, 1, 2, 2)
    ]
    assert "submitted pbs job 12.server: 2 nodes, for all launches" in running.err
    assert not (site.folder / "deleted").exists()


@pytest.mark.parametrize(("is_deleted", "code"), [(True, 4), (False, 130)])
def test_a_series_that_is_ended_is_cut_short_and_gives_its_nodes_back(
    site: Site, is_deleted: bool, code: int
) -> None:
    """By somebody's qdel, or by Ctrl-C; no setup failed by it."""
    running = site.compare("-N", "2", "--blocks", "50")
    running.until(lambda: list(site.folder.glob("home/*/launches/0002/run.json")))
    if is_deleted:
        site.delete("12.server")
    else:
        running.process.send_signal(signal.SIGINT)
    assert finish(running) == code, running.err
    assert ("job 12.server, which runs all launches, has ended" in running.err) is is_deleted
    assert site.is_over
    outcomes = json.loads((site.series / "setups.json").read_text())["outcomes"]
    assert not any(one["error"] for one in outcomes)
