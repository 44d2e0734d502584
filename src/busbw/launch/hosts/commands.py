"""The command lines that start ranks on hosts: Open MPI's, MPICH's, and those of ranks without MPI. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from busbw.errors import UsageError
from busbw.launch.base import Command, rank_variables
from busbw.launch.command import NUMBER
from busbw.launch.local import OPEN_MPI_ENVIRON
from busbw.rank.world.watched import JOB_VARIABLE

# Where ranks without MPI meet, as host or host:port.
ROOT_VARIABLE: Final = "BUSBW_ROOT"

# Of the variables in -genvlist hydra (5.0.2) loses on the way to another host the one that is last in its own
# environment: this one, that nobody misses.
_LOST_VARIABLE: Final = "BUSBW_LAST"


@dataclass(frozen=True)
class Start:
    """Ranks to start. ``hosts`` has the host of each; ``environ`` is the measured processes'; ``argv`` what
    each executes; ``ssh`` the words that reach a host; ``is_crowded`` where a host has more ranks than cores;
    ``root`` the address of the first host where its name is ssh's alone, else empty.
    """

    job: str
    hosts: tuple[str, ...]
    argv: tuple[str, ...]
    ssh: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    is_crowded: bool = False
    mpirun_args: tuple[str, ...] = ()
    root: str = ""

    @property
    def runs(self) -> list[tuple[str, int]]:
        """Hosts in rank order, each with its ranks in a row."""
        return [(host, len(list(same))) for host, same in groupby(self.hosts)]

    @property
    def per_host(self) -> int | None:
        """The number of ranks of every host, None where they differ or a host comes twice."""
        counts = {count for _, count in self.runs}
        return counts.pop() if len(self.runs) == len(set(self.hosts)) and len(counts) == 1 else None


def open_mpi(mpiexec: str, start: Start) -> Command:
    """Open MPI's mpirun (4.1 and 5). Ranks follow the order of the hosts: ``ppr`` fills one after the other;
    where that cannot say it, ``seq`` takes them one by one.
    """
    _refuse_users(start)
    hosts, mapping = ",".join(start.hosts), "seq"
    if start.per_host is not None:
        hosts, mapping = _with_counts(start), f"ppr:{start.per_host}:node"
    options = ["--tag-output", "-n", str(len(start.hosts)), "--host", hosts, "--map-by", mapping]
    if start.is_crowded:
        # Waiting ranks that spin would take the cores from the ranks they wait for.
        options[-1] += ":OVERSUBSCRIBE"
        options += ["--mca", "mpi_yield_when_idle", "1"]
    environ = {JOB_VARIABLE: start.job, "BUSBW_LAUNCHER": "openmpi", **start.environ}
    for name in environ:  # by name alone: values of any kind pass, and none shows in a list of processes
        options += ["-x", name]
    agent = _words_without_spaces(start.ssh)
    own = {**OPEN_MPI_ENVIRON, "OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent}
    return Command((mpiexec, *options, *start.mpirun_args, *start.argv), {**own, **environ})


def mpich(mpiexec: str, start: Start) -> Command:
    """MPICH's mpiexec (hydra). Ranks follow the order of the hosts."""
    _refuse_users(start)
    hosts, each = _with_counts(start), tuple[str, ...]()
    if start.per_host is not None:
        hosts, each = ",".join(host for host, _ in start.runs), ("-ppn", str(start.per_host))
    options: tuple[str, ...] = ("-prepend-rank", "-launcher", "ssh")
    if start.ssh[0] != "ssh":
        options = (*options, "-launcher-exec", start.ssh[0])
    environ = {JOB_VARIABLE: start.job, "BUSBW_LAUNCHER": "mpich", **start.environ}
    # By name alone, as above; and nothing else of this machine's environment goes to the hosts.
    names = ",".join((*environ, _LOST_VARIABLE))
    options = (*options, "-hosts", hosts, *each, "-n", str(len(start.hosts)), "-genvlist", names)
    own = {"HYDRA_RMK": "user", "HYDRA_LAUNCHER_EXTRA_ARGS": _words_without_spaces(start.ssh[1:])}
    all_of_them = {**own, **environ, _LOST_VARIABLE: "1"}
    return Command((mpiexec, *options, *start.mpirun_args, *start.argv), all_of_them)


def without_mpi(start: Start, token: str, *, is_busbw: bool) -> tuple[Command, ...]:
    """A command for each rank, in rank order. They find each other at the first host, by the name that ssh
    has for it, or its address where it does not know that name, unless BUSBW_ROOT is given; and prove the
    token.
    """
    root = start.environ.get(ROOT_VARIABLE) or start.root or start.hosts[0].rpartition("@")[2]
    on_host = Counter(start.hosts)
    nodes, seen = list(on_host), Counter[str]()
    commands = []
    for rank, host in enumerate(start.hosts):
        own = rank_variables((rank, len(start.hosts)), (seen[host], on_host[host]), root)
        if not is_busbw:
            # What PyTorch's ``env://`` and many others read.
            for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
                own[name] = own[f"BUSBW_{name}"]
            own |= {"LOCAL_WORLD_SIZE": own["BUSBW_LOCAL_SIZE"], NUMBER: str(nodes.index(host))}
        seen[host] += 1
        environ = {**start.environ, **own, "BUSBW_TOKEN": token, JOB_VARIABLE: start.job}
        commands.append(Command(start.argv, environ))
    return tuple(commands)


def over_ssh(commands: tuple[Command, ...], hosts: tuple[str, ...]) -> tuple[Command, ...]:
    """The same as a person would type it. busbw itself sends variables over standard input."""
    return tuple(
        Command(("ssh", host, f"env {command}" if command.environ else str(command)))
        for command, host in zip(commands, hosts, strict=True)
    )


def _with_counts(start: Start) -> str:
    return ",".join(f"{host}:{count}" for host, count in start.runs)


def _refuse_users(start: Start) -> None:
    if (host := next((host for host in start.hosts if "@" in host), None)) is not None:
        raise UsageError(
            f"MPI launchers take no user with a host: {host}",
            hint="set `User` for it in ~/.ssh/config, or give --mpi none",
        )


def _words_without_spaces(words: tuple[str, ...]) -> str:
    """One string that MPI launchers take apart at its spaces, whatever is quoted."""
    for word in words:
        if not word or any(character.isspace() for character in word):
            raise UsageError(
                f"--set ssh=...: MPI launchers cannot pass on {word!r}", hint="use a path without spaces"
            )
    return " ".join(words)
