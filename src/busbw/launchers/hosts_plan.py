"""From what the user asked and what the hosts said to what is started where. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import command, hosts_request
from busbw.launchers.base import Command
from busbw.launchers.hosts_list import Place, Ranks, distribute, first_nodes, read_places, refuse_idle
from busbw.launchers.hosts_probe import HostFacts
from busbw.launchers.hosts_request import Start
from busbw.launchers.hosts_ssh import after_setup, agent_command, read_form, ssh_words
from busbw.launchers.keeper_spec import AgentSpec, Task
from busbw.launchers.topology import RankOrder, order
from busbw.launchers.topology_files import topology_of
from busbw.probes.environment import is_recorded
from busbw.probes.redact import REDACTED, redact

if TYPE_CHECKING:
    from busbw.launchers.engine import Job
    from busbw.settings.launch import LaunchSettings

# Of the recorded variables, those that say who, where or in which job a process is, or what is installed
# where: they are this shell's own, not the measured environment.
_OWN: Final = re.compile(
    r"BUSBW_.*|SLURM_.*|PALS_.*|ALPS_.*|PBS_.*|LSB_.*|FLUX_.*|PMI_.*|PMIX_.*|MASTER_.*|JOB_COMPLETION.*|TORCH.*"
    r"|.*RANK|.*WORLD_SIZE|OMPI_(?!MCA_).*|PRTE_.*|OPAL_.*|HYDRA_.*|LD_.*|LOADEDMODULES|_LMFILES_|CONDA_PREFIX"
    r"|VIRTUAL_ENV|MPI4PY_.*|NVIDIA_.*|CUDA_.*|MPI_LOCAL.*"
)
_FAMILIES: Final = ("openmpi", "mpich")


@dataclass(frozen=True)
class HostsPlan:
    """``mpi`` is the launcher: openmpi, mpich or none. ``shown`` is what a person would type."""

    hosts: tuple[str, ...]
    start: Start
    mpi: str
    agents: tuple[AgentSpec, ...]
    shown: tuple[Command, ...]
    bundle_folder: str = ""
    rank_order: RankOrder | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Site:
    """The facts, read."""

    hosts: Mapping[str, HostFacts]
    local: tuple[str, ...]
    here: Mapping[str, Any]
    setup: str
    inherited: Mapping[str, str]
    token: str

    @staticmethod
    def read(facts: Mapping[str, str], wanted: tuple[str, ...]) -> _Site:
        answers = json.loads(facts["hosts"])
        return _Site(
            hosts={host: HostFacts.from_json(answers[host]) for host in wanted},
            local=tuple(host for host in json.loads(facts["local"]) if host in wanted),
            here=json.loads(facts["here"]),
            setup=facts["setup"],
            inherited=json.loads(facts["inherited"]),
            token=facts["token"],
        )


def pythons(launch: LaunchSettings, own: str) -> tuple[str, ...]:
    """Pythons to try on the hosts, best first. A bundle needs the version that it was made with."""
    if launch.python:
        return (launch.python,)
    if launch.bring:
        import sys

        return (f"python{sys.version_info.major}.{sys.version_info.minor}", "python3")
    return (own,)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a shell that belong to what is measured (NCCL's, the fabric's, MPI's): every rank gets
    them, as it would on a launcher that exports all. Secrets stay.
    """
    return {
        name: value
        for name, value in sorted(environ.items())
        if is_recorded(name) and not _OWN.fullmatch(name) and redact(name, value) != REDACTED
    }


def decide(job: Job, facts: Mapping[str, str]) -> HostsPlan:
    """Raises UsageError and SiteError for what does not fit."""
    launch = job.launch
    every, rank_order = _in_order(read_places(launch), facts)
    places = first_nodes(every, launch.nodes)
    hosts = tuple(dict.fromkeys(place.host for place in places))
    site = _Site.read(facts, hosts)
    _refuse_unequal(job, site)
    gpus = min(answer.gpus for answer in site.hosts.values())
    mpi = _launcher(job, site, gpus)
    _refuse_missing(job, site, mpi)
    ranks = distribute(places, job.ranks, launch.ranks_per_node, gpus if job.backend != "mpi" and gpus else 1)
    refuse_idle(ranks, job.ranks, launch.nodes)
    bundle = _bundle_folder(job)
    path, environ = command.path_apart(job.environ)
    argv = (*path, *job.argv(_python(job, site, bundle)))
    start = Start(
        job=job.name,
        ranks=ranks,
        argv=after_setup(site.setup, argv if job.work.is_busbw else command.entered(argv)),
        environ={**site.inherited, **_for_command(job, site, places, ranks), **environ},
        is_crowded=_is_crowded(ranks, site),
        mpirun_args=hosts_request.setup_words(launch.mpirun_args),
        root=_bracketed(site.hosts[ranks[0].host].address),
    )
    if mpi == "none":
        agents, shown = _without_mpi(job, site, start)
    else:
        agents, shown = _with_mpi(job, site, start, mpi, bundle)
    used = {each.host for each in ranks}
    ordered = tuple(host for host in hosts if host in used)
    rank_order = rank_order.within(ordered) if rank_order is not None else None
    notes = _of_idle(job, len(used), len(hosts))
    return HostsPlan(ordered, start, mpi, agents, shown, bundle, rank_order, notes)


def _of_idle(job: Job, used: int, hosts: int) -> tuple[str, ...]:
    if used == hosts:
        return ()
    return (f"--ranks {job.ranks}: {used} of {hosts} hosts are measured, the others get no rank",)


def _in_order(
    places: tuple[Place, ...], facts: Mapping[str, str]
) -> tuple[tuple[Place, ...], RankOrder | None]:
    """The places as --topology has them; as they were without it. -N then takes neighbours."""
    topology = topology_of(facts)
    if topology is None:
        return places, None
    answers = json.loads(facts["hosts"])
    names = {
        place.host: (place.host, answers[place.host]["hostname"], answers[place.host].get("instance", ""))
        for place in places
    }
    found = order(topology, [tuple(filter(None, each)) for each in names.values()])
    positions = {host: number for number, host in enumerate(found.hosts)}
    return tuple(sorted(places, key=lambda place: positions[place.host])), found


def _for_command(
    job: Job, site: _Site, places: tuple[Place, ...], ranks: tuple[Ranks, ...]
) -> Mapping[str, str]:
    """What a command of the user's is told of its hosts. Slots are those that the user said, else GPUs."""
    if job.work.is_busbw:
        return {}
    slots = dict.fromkeys((each.host for each in ranks), 0)
    for host in slots:
        said = sum(place.slots or 0 for place in places if place.host == host)
        slots[host] = said or site.hosts[host].gpus or sum(each.count for each in ranks if each.host == host)
    named = {host.rpartition("@")[2]: count for host, count in slots.items()}
    return {
        command.HOSTS: command.host_list(named),
        command.NAMES: ",".join(site.hosts[host].hostname for host in slots),
        "MASTER_ADDR": site.hosts[next(iter(slots))].address or next(iter(named)).strip("[]"),
        "MASTER_PORT": str(command.PORT),
    }


def _bracketed(address: str) -> str:
    """As the control channel wants it: with a port behind, IPv6 needs brackets."""
    return f"[{address}]" if ":" in address else address


def _launcher(job: Job, site: _Site, gpus: int) -> str:
    """What starts the ranks: the user's choice, else nothing where they need no MPI, else the hosts' MPI."""
    wanted = job.launch.mpi
    on_gpus = job.backend == "nccl" or (job.backend == "auto" and gpus > 0)
    if wanted == "none" or (wanted == "auto" and job.world == "nccl"):
        return "none"
    if wanted == "auto" and job.world == "auto" and job.work.is_busbw and on_gpus:
        return "none"
    families = {host: _family(answer, site, job) for host, answer in site.hosts.items()}
    first, family = next(iter(families.items()))
    for host, other in families.items():
        if other != family:
            raise SiteError(
                f"{first} has {family or 'no MPI'}, {host} has {other or 'no MPI'}",
                hint="give --python of environments that are alike, or --bring",
                host=host,
            )
    if family not in _FAMILIES:
        raise SiteError(
            f"no MPI that can start ranks on {first}",
            hint="install mpich there, or give --mpi none",
            host=first,
        )
    if wanted not in ("auto", family):
        raise SiteError(
            f"--mpi {wanted}, but the Python on {first} loads {family}",
            hint="give --python of an environment with that MPI",
            host=first,
        )
    return family


def _family(answer: HostFacts, site: _Site, job: Job) -> str:
    return str(site.here["mpi"]) if job.launch.bring else answer.mpi


def _refuse_unequal(job: Job, site: _Site) -> None:
    """The same busbw everywhere, or what a bundle needs."""
    for host, answer in site.hosts.items():
        if job.launch.bring:
            wanted = [*site.here["version"], site.here["machine"]]
            found = [*answer.python, answer.machine]
            if found != wanted:
                raise SiteError(
                    f"--bring needs Python {wanted[0]}.{wanted[1]} on {wanted[2]}, {host} has"
                    f" {found[0]}.{found[1]} on {found[2]}",
                    hint="name one there with --python, or install busbw there",
                    host=host,
                )
        elif job.work.is_busbw and not answer.busbw:
            raise SiteError(
                f"busbw cannot be imported by {answer.executable} on {host}: {answer.error}",
                hint="give --python PATH, or --bring to copy busbw there",
                host=host,
            )
        elif job.work.is_busbw and answer.busbw != site.here["busbw"]:
            raise SiteError(
                f"busbw {answer.busbw} on {host}, {site.here['busbw']} here",
                hint="install the same version, or give --bring to copy this one there",
                host=host,
            )


def _refuse_missing(job: Job, site: _Site, mpi: str) -> None:
    needed = {"numpy", "zmq" if mpi == "none" else "mpi4py"}
    for host, answer in site.hosts.items():
        missing = sorted(needed.intersection(answer.missing))
        if missing and job.work.is_busbw and not job.launch.bring:
            raise SiteError(
                f"{answer.executable} on {host} has no {', '.join(missing)}",
                hint="install it there, or give --bring",
                host=host,
            )


def _is_crowded(ranks: tuple[Ranks, ...], site: _Site) -> bool:
    totals = dict.fromkeys(site.hosts, 0)
    for each in ranks:
        totals[each.host] += each.count
    return any(count > site.hosts[host].cores for host, count in totals.items())


def _bundle_folder(job: Job) -> str:
    if not job.launch.bring:
        return ""
    folder = read_form(job.launch.set).get("tmp", "/tmp")
    if not folder.startswith("/"):
        raise UsageError(
            f"--set tmp={folder} is no absolute path", hint="give one that is there on every host"
        )
    return f"{folder.rstrip('/')}/{job.name}"


def _python(job: Job, site: _Site, bundle: str) -> str:
    if bundle:
        return f"{bundle}/bin/python"
    return job.launch.python or str(site.here["python"])


def _with_mpi(
    job: Job, site: _Site, start: Start, mpi: str, bundle: str
) -> tuple[tuple[AgentSpec, ...], tuple[Command, ...]]:
    """One command, the launcher; and an agent on every host to watch."""
    ssh = ssh_words(read_form(job.launch.set))
    head, mpiexec = _head(site, start, bundle)
    if job.world == "nccl":
        root = {hosts_request.ROOT_VARIABLE: start.ranks[0].host}  # a given one is better known
        own = {**root, **start.environ, "BUSBW_TOKEN": _token(site, job)}
        start = replace(start, environ=own)
    maker = hosts_request.open_mpi if mpi == "openmpi" else hosts_request.mpich
    launcher = maker(mpiexec, start, ssh)
    task = Task(launcher.argv, launcher.environ)
    hosts = dict.fromkeys(start.hosts_by_rank)
    agents = [AgentSpec(host, _connect(job, site, host), (task,) if host == head else ()) for host in hosts]
    if head not in hosts:
        here = agent_command(head, local=True, ssh=ssh, pythons=(site.here["python"],), setup=site.setup)
        agents.insert(0, AgentSpec(head, here, (task,)))
    return tuple(agents), (launcher,)


def _head(site: _Site, start: Start, bundle: str) -> tuple[str, str]:
    """Where the launcher runs, and which one it is: here where this machine is one of the hosts, or has the
    very MPI that they have; else on the first host, which then must reach the others.
    """
    first = start.ranks[0].host
    local = next((host for host in start.hosts_by_rank if host in site.local), None)
    if bundle:
        return local or first, f"{bundle}/bin/mpiexec"
    mpiexec = site.hosts[first].mpiexec
    if local is not None:
        return local, site.hosts[local].mpiexec
    if site.here["mpiexec"] == mpiexec:
        return str(site.here["name"]), mpiexec
    return first, mpiexec


def _without_mpi(job: Job, site: _Site, start: Start) -> tuple[tuple[AgentSpec, ...], tuple[Command, ...]]:
    """A command for each rank, on its host's agent."""
    commands = hosts_request.without_mpi(start, _token(site, job), is_busbw=job.work.is_busbw)
    tasks: dict[str, list[Task]] = {}
    for rank, (each, host) in enumerate(zip(commands, start.hosts_by_rank, strict=True)):
        tasks.setdefault(host, []).append(Task(each.argv, each.environ, rank))
    agents = tuple(AgentSpec(host, _connect(job, site, host), tuple(tasks[host])) for host in tasks)
    return agents, hosts_request.over_ssh(commands, start.hosts_by_rank, ("ssh",))


def _connect(job: Job, site: _Site, host: str) -> tuple[str, ...]:
    ssh = ssh_words(read_form(job.launch.set))
    found = site.hosts[host].executable
    return agent_command(host, local=host in site.local, ssh=ssh, pythons=(found,), setup=site.setup)


def _token(site: _Site, job: Job) -> str:
    """Jobs that were asked for together have one each."""
    return hashlib.sha256(f"{site.token} {job.name}".encode()).hexdigest()[:32]
