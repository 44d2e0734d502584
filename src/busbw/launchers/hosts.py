"""Hosts over SSH as an engine: MPI's own launcher, or a process for each rank; owned by a keeper.

On every host an agent (``hosts_agent``) is connected for as long as the job lives: it starts what is to be
started there, notices the end of the connection, and leaves no process of the job behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import hosts_plan, keeper
from busbw.launchers.engine import Handle, Item, Job, JobRequest, JobState, Output, Phase
from busbw.launchers.hosts_list import Place, first_nodes, read_places
from busbw.launchers.hosts_probe import probe
from busbw.launchers.hosts_request import setup_words
from busbw.launchers.hosts_ssh import CONNECT_SECONDS, agent_command, is_this_machine, read_form, ssh_words
from busbw.launchers.keeper_spec import CANCEL_FILE, OUTPUT_FILE, TROUBLE_FILE, KeeperSpec
from busbw.launchers.topology_files import read_texts
from busbw.settings.flag import flag_of
from busbw.world.watched import watch_address

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings

# A job waits only for another one of busbw on its hosts.
WAIT_SECONDS: float | None = None

_KNOWN: Final = frozenset(
    {
        *("nodes", "ranks_per_node", "hosts", "hostfile", "mpi", "python", "bring", "setup_script"),
        *("env", "env_file", "library_path", "mpirun_args", "set", "wait", "detach", "topology"),
    }
)
# An argument of a command is at most 128 KiB long on Linux, and the script is one.
_MOST_SETUP_BYTES: Final = 100_000
_LOOK_SECONDS: Final = 0.03
_KEPT_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 12.0


def inquire(launch: LaunchSettings, command: tuple[str, ...] = ()) -> Mapping[str, str]:  # noqa: ARG001
    """See Engine. Facts: hosts (what each said), local (those that are this machine), here (this machine's
    own), setup, inherited (variables of this shell that the ranks get), token, topology (its texts).
    """
    check(launch)
    topology = read_texts(launch)
    places, form = _that_may_be_used(launch), read_form(launch.set)
    setup = _read_setup(launch.setup_script)
    hosts = tuple(dict.fromkeys(place.host for place in places))
    local = [place.host for place in places if "@" not in place.host and is_this_machine(place.name)]
    ssh, pythons = ssh_words(form), hosts_plan.pythons(launch, sys.executable)
    commands = {
        host: agent_command(host, local=host in local, ssh=ssh, pythons=pythons, setup=setup)
        for host in hosts
    }
    answers = probe(commands, float(form.get("connect-timeout", CONNECT_SECONDS)))
    return {
        "hosts": json.dumps({host: asdict(answer) for host, answer in answers.items()}),
        "local": json.dumps(sorted(set(local))),
        "here": json.dumps(_here()),
        "setup": setup,
        "inherited": json.dumps(hosts_plan.inherited(os.environ)),
        "token": secrets.token_hex(16),
        **topology,
    }


def request(job: Job, facts: Mapping[str, str]) -> JobRequest:
    """See Engine. The commands are what a person would type; busbw has them started by its agents."""
    plan = hosts_plan.decide(job, facts)
    locks = [str(Path(job.folder).parent / ".hosts" / host) for host in plan.hosts]
    spec = KeeperSpec(
        job=job.name,
        agents=plan.agents,
        hosts_by_rank=plan.start.hosts_by_rank if plan.mpi != "none" else (),
        locks=tuple(locks),
        bundle_folder=plan.bundle_folder,
        announces=job.work.is_busbw,
        watch=watch_address(job.name) if plan.mpi != "none" and job.work.is_busbw else "",
    )
    return JobRequest(
        engine="hosts",
        name=job.name,
        ranks=plan.start.size,
        nodes=len(plan.hosts),
        commands=plan.shown,
        details={"spec": spec.to_json()},
        rank_order=plan.rank_order,
        notes=plan.notes,
    )


def submit(request: JobRequest, folder: Path) -> Handle:
    """See Engine. Returns once the keeper holds the job."""
    spec = KeeperSpec.from_json(request.details["spec"])
    if spec.bundle_folder:
        from busbw.launchers.hosts_bring import make_bundle

        spec = replace(spec, bundle=str(make_bundle()))
    with (folder / TROUBLE_FILE).open("ab") as trouble:
        done = subprocess.run(
            [sys.executable, "-m", "busbw.launchers.keeper", str(folder)],
            input=spec.to_json().encode(),
            stdout=trouble,
            stderr=trouble,
            check=False,
            start_new_session=True,
        )
    if done.returncode:
        words = (folder / TROUBLE_FILE).read_text(errors="replace").strip().splitlines()
        raise SiteError(
            f"the job's keeper did not start: {words[-1] if words else f'exit code {done.returncode}'}",
            hint=f"look at {TROUBLE_FILE} in the run folder",
        )
    return Handle("hosts", request.name, request.name, {"folder": str(folder), "host": socket.gethostname()})


def find(handle: Handle) -> Handle | None:
    """See Engine. Every submission is answered: the keeper is started here."""
    return handle


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """See Engine. Reads what the keeper writes."""
    looked_s = time.monotonic()
    with (folder / OUTPUT_FILE).open("rb") as file:
        rest = b""
        while True:
            # Before reading: a keeper that is gone has written its last line.
            looks = time.monotonic() - looked_s > _KEPT_LOOK_SECONDS
            is_kept = not looks or keeper.is_kept(folder)
            looked_s = time.monotonic() if looks else looked_s
            *lines, rest = (rest + file.read()).split(b"\n")
            for line in lines:
                item = _read_item(line)
                yield item
                if isinstance(item, JobState) and item.phase is Phase.ENDED:
                    return
            if not is_kept:
                yield _unkept(handle)
                return
            if not lines:
                time.sleep(_LOOK_SECONDS)
            yield None


def cancel(handle: Handle, *, now: bool) -> None:
    """See Engine."""
    folder = Path(handle.details["folder"])
    if not keeper.is_kept(folder):
        return
    path = folder / CANCEL_FILE
    partial = path.with_suffix(".new")
    partial.write_text("now\n" if now else "end\n")
    partial.replace(path)
    deadline = time.monotonic() + _END_SECONDS
    while now and keeper.is_kept(folder) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def state(handle: Handle) -> JobState:
    """See Engine."""
    folder = Path(handle.details["folder"])
    is_kept = keeper.is_kept(folder)
    last = JobState(Phase.PENDING)
    with contextlib.suppress(OSError):
        for line in (folder / OUTPUT_FILE).read_bytes().split(b"\n")[:-1]:
            item = _read_item(line)
            last = item if isinstance(item, JobState) else last
    return last if is_kept or last.phase is Phase.ENDED else _unkept(handle)


def collect(handle: Handle, folder: Path) -> None:
    """See Engine. All that the ranks printed came with the events."""


def clean(handle: Handle) -> None:
    """See Engine. The agents have removed what was on the hosts; the keeper's notes are in the record now."""
    folder = Path(handle.details["folder"])
    if keeper.is_kept(folder):
        return
    (folder / OUTPUT_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if not (folder / TROUBLE_FILE).stat().st_size:
            (folder / TROUBLE_FILE).unlink()


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    for name in launch.given():
        if name not in _KNOWN:
            flag = flag_of(name)
            raise UsageError(f"{flag} means nothing on hosts", hint=f"leave {flag} out")
    if launch.hosts or launch.hostfile is not None:
        read_places(launch)
    read_form(launch.set)
    setup_words(launch.mpirun_args)


def _that_may_be_used(launch: LaunchSettings) -> tuple[Place, ...]:
    """The first hosts, as many as the largest of the jobs has; all where their order is not known yet."""
    every = read_places(launch)
    if launch.topology or not launch.nodes:
        return every
    return first_nodes(every, max(launch.nodes.split(","), key=int))


def _read_setup(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read --setup-script {path}: {error}", hint="name a shell script") from error
    if len(text.encode()) > _MOST_SETUP_BYTES or "\0" in text:
        raise UsageError(
            f"--setup-script {path} is no script of at most {_MOST_SETUP_BYTES} bytes",
            hint="put the rest where the hosts see it, and source it",
        )
    return text


def _here() -> dict[str, Any]:
    """This machine's own MPI launcher, where it has one, and its Python."""
    from busbw._version import __version__
    from busbw.probes.mpi import find_mpi

    library = find_mpi(os.environ).library
    return {
        "name": socket.gethostname(),
        "python": sys.executable,
        "version": list(sys.version_info[:2]),
        "machine": os.uname().machine,
        "busbw": __version__,
        "mpi": library.family if library is not None else "",
        "mpiexec": library.mpiexec if library is not None else "",
        "bundled": library is not None and library.found == "environment",
    }


def _read_item(line: bytes) -> Output | JobState:
    values = json.loads(line)
    if "phase" not in values:
        return Output(values["text"], values["source"], values["error"])
    return JobState(Phase(values.pop("phase")), **values)


def _unkept(handle: Handle) -> JobState:
    where = handle.details.get("host", "")
    return JobState(
        Phase.ENDED,
        f"its keeper on {where} is gone",
        hint=f"look whether {where} was restarted, or the keeper killed",
    )
