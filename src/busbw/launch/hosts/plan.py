"""From what the user asked and what the hosts said to what is started where. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from busbw.errors import SiteError, UsageError
from busbw.launch import command
from busbw.launch.base import Command
from busbw.launch.engine import Facts, Job, JobRequest
from busbw.launch.hosts import commands
from busbw.launch.hosts.commands import Start
from busbw.launch.hosts.job import AgentSpec, JobSpec, Task
from busbw.launch.hosts.list import Place, distribute, first_nodes, read_places, refuse_idle
from busbw.launch.hosts.ssh import HostFacts, after_setup, agent_command, read_form, ssh_words
from busbw.launch.settle import split_words
from busbw.launch.topology.order import RankOrder, Topology, order
from busbw.machine.environment import is_recorded
from busbw.rank.world.watched import watch_address
from busbw.redact import REDACTED, redact

# Of the recorded variables, those that say who, where or in which job a process is, or what is installed
# where: they are this shell's own, not the measured environment.
_OWN: Final = re.compile(
    r"BUSBW_.*|SLURM_.*|PALS_.*|ALPS_.*|PBS_.*|LSB_.*|FLUX_.*|PMI_.*|PMIX_.*|MASTER_.*|JOB_COMPLETION.*|TORCH.*"
    r"|.*RANK|.*WORLD_SIZE|OMPI_(?!MCA_).*|PRTE_.*|OPAL_.*|HYDRA_.*|LD_.*|LOADEDMODULES|_LMFILES_|CONDA_PREFIX"
    r"|VIRTUAL_ENV|MPI4PY_.*|NVIDIA_.*|CUDA_.*|MPI_LOCAL.*"
)
_FAMILIES: Final = ("openmpi", "mpich")


@dataclass(frozen=True)
class Site:
    """What is known of the hosts: what each said, those that are this machine, and what this machine says of
    itself. ``inherited`` are the variables of this shell that the ranks get; ``unasked`` says why no host was
    asked.
    """

    hosts: Mapping[str, HostFacts]
    local: tuple[str, ...]
    here: HostFacts
    setup: str = ""
    inherited: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    topology: Topology | None = None
    unasked: str = ""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a shell that belong to what is measured (NCCL's, the fabric's, MPI's): every rank gets
    them, as it would on a launcher that exports all. Secrets stay.
    """
    return {
        name: value
        for name, value in sorted(environ.items())
        if is_recorded(name) and not _OWN.fullmatch(name) and redact(name, value) != REDACTED
    }


def request(job: Job, facts: Facts) -> JobRequest:
    """See Engine. The commands are what a person would type; busbw has them started by its agents. Raises
    UsageError and SiteError for what does not fit.
    """
    launch = job.launch
    known: Site = facts["site"]
    every, rank_order = _in_order(read_places(launch), known)
    places = first_nodes(every, launch.nodes)
    hosts = tuple(dict.fromkeys(place.host for place in places))
    site = replace(known, hosts={host: known.hosts[host] for host in hosts})
    _refuse_unequal(job, site)
    gpus = min(answer.gpus for answer in site.hosts.values())
    mpi = _launcher(job, site, gpus)
    each = gpus if job.backend != "mpi" and gpus else 1
    by_rank = distribute(places, job.ranks, launch.ranks_per_node, each)
    refuse_idle(by_rank, job.ranks, launch.nodes)
    form = read_form(launch.set)
    bundle = _bundle_folder(job, form)
    start = _start(job, site, places, by_rank, ssh_words(form), bundle)
    if mpi == "none":
        agents, shown = _without_mpi(job, site, start)
    else:
        agents, shown = _with_mpi(job, site, start, mpi, bundle)
    used = tuple(host for host in hosts if host in by_rank)
    spec = JobSpec(
        job=job.name,
        agents=agents,
        hosts_by_rank=by_rank if mpi != "none" else (),
        locks=tuple(Path(job.folder).parent / ".hosts" / host for host in used),
        bundle_folder=bundle,
        announces=job.work.is_busbw,
        watch=watch_address(job.name) if mpi != "none" and job.work.is_busbw else "",
    )
    notes, own = [], site.hosts[hosts[0]]
    if len(used) < len(hosts):
        measured = f"{len(used)} of {len(hosts)} hosts are measured"
        notes.append(f"--ranks {job.ranks}: {measured}, the others get no rank")
    if site.unasked:
        like = f"{own.cores} cores, {own.gpus} GPUs, {own.mpi or 'no MPI'}"
        instead = "for 8 GPUs a host give --backend nccl --ranks-per-node 8"
        notes.append(f"{site.unasked}: this is for hosts like this one ({like}); {instead}")
    return JobRequest(
        engine="hosts",
        name=job.name,
        ranks=len(by_rank),
        nodes=len(used),
        commands=shown,
        payload=spec,
        rank_order=rank_order.within(used) if rank_order is not None else None,
        notes=tuple(notes),
    )


def _start(
    job: Job,
    site: Site,
    places: tuple[Place, ...],
    by_rank: tuple[str, ...],
    ssh: tuple[str, ...],
    bundle: str,
) -> Start:
    (path, environ), counts = command.path_apart(job.environ), Counter(by_rank)
    python = f"{bundle}/bin/python" if bundle else job.launch.python or site.here.executable
    argv = (*path, *job.argv(python))
    root = site.hosts[by_rank[0]].address
    return Start(
        job=job.name,
        hosts=by_rank,
        argv=after_setup(site.setup, argv if job.work.is_busbw else command.entered(argv)),
        ssh=ssh,
        environ={**site.inherited, **_for_command(job, site, places, counts), **environ},
        is_crowded=any(count > site.hosts[host].cores for host, count in counts.items()),
        mpirun_args=tuple(split_words("--mpirun-args", job.launch.mpirun_args)),
        root=f"[{root}]" if ":" in root else root,  # with a port behind, IPv6 needs brackets
    )


def _in_order(places: tuple[Place, ...], site: Site) -> tuple[tuple[Place, ...], RankOrder | None]:
    """The places as --topology has them; as they were without it. -N then takes neighbours."""
    if site.topology is None:
        return places, None
    answers = {place.host: site.hosts[place.host] for place in places}
    names = ((host, answer.hostname, answer.instance) for host, answer in answers.items())
    found = order(site.topology, [tuple(filter(None, each)) for each in names])
    positions = {host: number for number, host in enumerate(found.hosts)}
    return tuple(sorted(places, key=lambda place: positions[place.host])), found


def _for_command(
    job: Job, site: Site, places: tuple[Place, ...], counts: Mapping[str, int]
) -> Mapping[str, str]:
    """The variables in which a command of the user's finds its hosts. Slots are those that were given, else
    GPUs.
    """
    if job.work.is_busbw:
        return {}
    named = {}
    for host, count in counts.items():
        said = sum(place.slots or 0 for place in places if place.host == host)
        named[host.rpartition("@")[2]] = said or site.hosts[host].gpus or count
    return {
        command.HOSTS: command.host_list(named),
        command.NAMES: ",".join(site.hosts[host].hostname for host in counts),
        "MASTER_ADDR": site.hosts[next(iter(counts))].address or next(iter(named)).strip("[]"),
        "MASTER_PORT": str(command.PORT),
    }


def _launcher(job: Job, site: Site, gpus: int) -> str:
    """What starts the ranks: the user's choice, else nothing where they need no MPI, else the hosts' MPI."""
    wanted = job.launch.mpi
    on_gpus = job.backend == "nccl" or (job.backend == "auto" and gpus > 0)
    if wanted == "none" or (wanted == "auto" and job.world == "nccl"):
        return "none"
    if wanted == "auto" and job.world == "auto" and job.work.is_busbw and on_gpus:
        return "none"
    brought = site.here.mpi if job.launch.bring else ""
    families = {host: brought or answer.mpi for host, answer in site.hosts.items()}
    first, family = next(iter(families.items()))
    for host, other in families.items():
        if other != family:
            raise SiteError(
                f"{first} has {family or 'no MPI'}, {host} has {other or 'no MPI'}",
                hint="give --python of the same environment on every host, or --bring",
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


def _refuse_unequal(job: Job, site: Site) -> None:
    """The same busbw everywhere, or what a bundle needs."""
    here = site.here
    for host, answer in site.hosts.items():
        said, hint = "", "install the same version, or give --bring to copy this one there"
        if job.launch.bring:
            wanted, found = (*here.python, here.machine), (*answer.python, answer.machine)
            if found != wanted:
                needed = "--bring needs Python {}.{} on {}".format(*wanted)
                said = f"{needed}, {host} has {found[0]}.{found[1]} on {found[2]}"
                hint = "name one there with --python, or install busbw there"
        elif job.work.is_busbw and not answer.busbw:
            said = f"busbw cannot be imported by {answer.executable} on {host}: {answer.error}"
            hint = "give --python PATH, or --bring to copy busbw there"
        elif job.work.is_busbw and answer.busbw != here.busbw:
            said = f"busbw {answer.busbw} on {host}, {here.busbw} here"
        if said:
            raise SiteError(said, hint=hint, host=host)


def _bundle_folder(job: Job, form: Mapping[str, str]) -> str:
    if not job.launch.bring:
        return ""
    folder = form.get("tmp", "/tmp")
    if not folder.startswith("/"):
        raise UsageError(f"--set tmp={folder} is not an absolute path", hint="give one that every host has")
    return f"{folder.rstrip('/')}/{job.name}"


def _with_mpi(
    job: Job, site: Site, start: Start, mpi: str, bundle: str
) -> tuple[tuple[AgentSpec, ...], tuple[Command, ...]]:
    """One command, the launcher; and an agent on every host to watch."""
    head, mpiexec = _head(site, start, bundle)
    if job.world == "nccl":
        root = {commands.ROOT_VARIABLE: start.hosts[0]}  # a given one is better known
        own = {**root, **start.environ, "BUSBW_TOKEN": _token(site, job)}
        start = replace(start, environ=own)
    maker = commands.open_mpi if mpi == "openmpi" else commands.mpich
    launcher = maker(mpiexec, start)
    task = Task(launcher.argv, launcher.environ)
    hosts = dict.fromkeys(start.hosts)
    agents = [AgentSpec(host, _connect(site, start, host), (task,) if host == head else ()) for host in hosts]
    if head not in hosts:
        here = agent_command(head, local=True, ssh=(), python=site.here.executable, setup=site.setup)
        agents.insert(0, AgentSpec(head, here, (task,)))
    return tuple(agents), (launcher,)


def _head(site: Site, start: Start, bundle: str) -> tuple[str, str]:
    """Where the launcher runs, and which one it is: here where this machine is one of the hosts, or has the
    very MPI that they have; else on the first host, which then must reach the others.
    """
    first = start.hosts[0]
    local = next((host for host in start.hosts if host in site.local), None)
    if bundle:
        return local or first, f"{bundle}/bin/mpiexec"
    mpiexec = site.hosts[first].mpiexec
    if local is not None:
        return local, site.hosts[local].mpiexec
    if site.here.mpiexec == mpiexec:
        return site.here.hostname, mpiexec
    return first, mpiexec


def _without_mpi(job: Job, site: Site, start: Start) -> tuple[tuple[AgentSpec, ...], tuple[Command, ...]]:
    """A command for each rank, on its host's agent."""
    each_rank = commands.without_mpi(start, _token(site, job), is_busbw=job.work.is_busbw)
    tasks: dict[str, list[Task]] = {}
    for rank, (each, host) in enumerate(zip(each_rank, start.hosts, strict=True)):
        tasks.setdefault(host, []).append(Task(each.argv, each.environ, rank))
    agents = tuple(AgentSpec(host, _connect(site, start, host), tuple(tasks[host])) for host in tasks)
    return agents, commands.over_ssh(each_rank, start.hosts)


def _connect(site: Site, start: Start, host: str) -> tuple[str, ...]:
    found = site.hosts[host].executable
    return agent_command(host, local=host in site.local, ssh=start.ssh, python=found, setup=site.setup)


def _token(site: Site, job: Job) -> str:
    """Jobs that were asked for together have one each."""
    return hashlib.sha256(f"{site.token} {job.name}".encode()).hexdigest()[:32]
