"""A series of launches in one MPIJob: the loop is in its launcher's pod, and so is each launch's mpirun. See
``SeriesEngine``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw.errors import UsageError
from busbw.launch.engine import Handle, Job, JobRequest, LaunchReader, PlainReader, Start
from busbw.launch.kubernetes import engine
from busbw.launch.kubernetes.form import read_form
from busbw.launch.kubernetes.launch_script import (
    launch_script,
    launcher_environ,
    launcher_words,
    on_first_workers,
)
from busbw.launch.kubernetes.manifest import JOB_FILE, escaped, pod_templates
from busbw.launch.kubernetes.yaml import from_yaml, to_yaml

_PYTHON: Final = "python3"
# On every worker at once, then here: $0 is the text for a worker's shell, the words are for this one. A
# worker that is gone, or is another one of its name, makes it fail.
_EVERYWHERE: Final = """\
code=0 pids=
while read -r worker rest; do
  ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \\
    -o ConnectTimeout=10 "${worker%%:*}" "$0 $last" </dev/null &
  pids="$pids $!"
done </etc/mpi/hostfile
for pid in $pids; do wait "$pid" || code=1; done
"$@" || code=1
exit "$code"
"""


def start(job: Job, series: Job, facts: Mapping[str, str]) -> Start:
    """See SeriesEngine. What the launcher of a job of its own would execute, on as many workers."""
    form = read_form(job)
    script = launch_script(job, form, engine.rank_order(facts))
    if form.workers < int(series.launch.nodes or 1):
        script = on_first_workers(script, form.workers)
    return Start(("/bin/sh", "-c", script, "busbw", *launcher_words(job)), launcher_environ(job, form))


def sweep(series: Job, words: tuple[str, ...], facts: Mapping[str, str]) -> tuple[str, ...]:
    """See SeriesEngine."""
    del series, facts
    text = "for last; do :; done\n" + _EVERYWHERE
    return ("sh", "-c", text, shlex.join(words), *words)


def request(series: Job, loop: tuple[str, ...], facts: Mapping[str, str]) -> JobRequest:
    """See SeriesEngine. Raises UsageError for a job without a launcher."""
    alone = engine.request(series, facts)
    if (kind := alone.details["kind"]) != "mpijob":
        raise UsageError(
            f"a series of setups needs a launcher's pod, which a {kind} has not",
            hint="give --set kind=mpijob without --mpi none, or measure each setup with `busbw run`",
        )
    documents = from_yaml(alone.files[JOB_FILE])
    launcher, _ = pod_templates(documents[-1])
    container = launcher["spec"]["containers"][0]
    container.pop("args", None)
    words = (series.launch.python or _PYTHON, *loop)
    container["command"] = [escaped(word) for word in words]
    return replace(alone, files={**alone.files, JOB_FILE: to_yaml(documents)})


def reader(handle: Handle, folder: Path, nodes: int, ranks: int | None) -> LaunchReader:
    """See SeriesEngine."""
    del handle, folder, nodes, ranks
    return PlainReader()
