"""Hosts over SSH as an engine: MPI's own launcher, or a process for each rank.

On every host an agent (``agent``) is connected for as long as the job lives: it starts what is to be
started there, notices the end of the connection, and leaves no process of the job behind. A job ends with the
process that submitted it.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw.errors import SiteError, UsageError
from busbw.launch import agent
from busbw.launch.engine import Facts, Handle, Item, JobRequest, JobState, Phase
from busbw.launch.hosts import job as hosts_job
from busbw.launch.hosts import plan as hosts_plan
from busbw.launch.hosts.job import JobSpec
from busbw.launch.hosts.list import first_nodes, read_places
from busbw.launch.hosts.ssh import (
    CONNECT_SECONDS,
    HostFacts,
    agent_command,
    is_this_machine,
    probe,
    read_form,
    ssh_words,
)
from busbw.launch.settle import read_setup, refuse_unused, split_words
from busbw.launch.topology.order import read_topology
from busbw.model.plain import from_plain
from busbw.plan.flags.launch import LaunchSettings
from busbw.record.folder import replace_text
from busbw.record.owner import Owner, is_owned

# A job waits only for another one of busbw on its hosts.
WAIT_SECONDS: float | None = None

_UNUSED: Final = dict.fromkeys(
    (
        *("image", "mounts", "job_id", "partition", "account", "time_limit", "exclusive", "segment"),
        *("srun_args", "sbatch_args", "namespace", "context", "patch"),
    ),
    "",
)
# In the run folder: locked for as long as the process lives that the job ends with.
_LOCK_FILE: Final = Path("request/hosts.lock")


# The jobs of this process by name, from submitting to following. A job's secrets are nowhere else: they must
# not be on a disk.
_OWN: dict[str, tuple[JobSpec, Owner]] = {}


def inquire(launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Facts:
    """See Engine: a ``Site``. A dry run connects to no host: each counts as one like this machine."""
    check(launch)
    topology = read_topology(launch)
    places, form = read_places(launch), read_form(launch.set)
    if launch.nodes and not launch.topology:  # else their order is not known yet; of several, the largest job
        places = first_nodes(places, max(launch.nodes.split(","), key=int))
    setup = read_setup(launch.setup_script)
    hosts = tuple(dict.fromkeys(place.host for place in places))
    local = {place.host for place in places if "@" not in place.host and is_this_machine(place.name)}
    ssh, python = ssh_words(form), launch.python or sys.executable
    if launch.bring and not launch.python:  # a bundle needs the version that it was made with
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    commands = {
        host: agent_command(host, local=host in local, ssh=ssh, python=python, setup=setup) for host in hosts
    }
    seconds = float(form.get("connect-timeout", CONNECT_SECONDS))
    here = from_plain(HostFacts, agent.probe(""))
    like_this_one = replace(here, executable=python, instance="", address="")
    site = hosts_plan.Site(
        hosts={host: replace(like_this_one, hostname=host) for host in hosts}
        if dry
        else probe(commands, seconds),
        local=tuple(sorted(local)),
        here=here,
        setup=setup,
        inherited=hosts_plan.inherited(os.environ),
        token=secrets.token_hex(16),
        topology=topology,
        unasked="a dry run asks no host" if dry else "",
    )
    return {"site": site}


request = hosts_plan.request  # see Engine


def submit(request: JobRequest, folder: Path) -> Handle:
    """See Engine. The job starts once it is followed here."""
    spec = request.payload
    assert isinstance(spec, JobSpec)
    if spec.bundle_folder:
        from busbw.launch.hosts.bring import make_bundle

        spec = replace(spec, bundle=str(make_bundle()))
    owner = Owner(folder, _LOCK_FILE)
    try:
        owner.take()
    except OSError as error:
        raise SiteError(f"cannot write {folder / _LOCK_FILE}: {error.strerror}") from error
    _OWN[request.name] = spec, owner
    return Handle("hosts", request.name, request.name, {"folder": str(folder), "host": socket.gethostname()})


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """See Engine. In the process that submitted the job this is the job: closing the iterator ends it."""
    own = _OWN.pop(handle.id, None)
    if own is None:
        yield _gone(handle)
        return
    spec, owner = own
    with owner:
        yield from hosts_job.run(spec, folder)


def cancel(handle: Handle, *, now: bool) -> None:
    """See Engine. Whoever runs the job looks for the file."""
    folder = Path(handle.details["folder"])
    if is_owned(folder, _LOCK_FILE):
        replace_text(folder / hosts_job.CANCEL_FILE, ("now\n" if now else "end\n",))


def state(handle: Handle) -> JobState:
    """See Engine."""
    is_running = is_owned(Path(handle.details["folder"]), _LOCK_FILE)
    return JobState(Phase.RUNNING) if is_running else _gone(handle)


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    if launch.detach:
        raise UsageError(
            "--detach does not work on hosts: a job ends with the busbw process that started it",
            hint="start busbw in tmux, or with nohup",
        )
    refuse_unused(launch, "--on hosts", _UNUSED)
    if launch.hosts or launch.hostfile is not None:
        read_places(launch)
    read_form(launch.set)
    split_words("--mpirun-args", launch.mpirun_args)


def _gone(handle: Handle) -> JobState:
    return JobState(
        Phase.ENDED,
        f"the busbw process on {handle.details.get('host', '')} that ran it is gone",
        hint="a job on hosts ends with the process that started it: start that in tmux, or with nohup",
    )
