"""Where nccom-test's flags say that ranks are to run, as settings of busbw's engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from busbw.errors import UsageError
from busbw.foreign.nccom.options import ALLOCATE, Options, flag_name
from busbw.foreign.nccom.settings import known
from busbw.plan.flags.launch import LaunchSettings, MpiName

ROOT_VARIABLE: Final = "NEURON_RT_ROOT_COMM_ID"
_SETUP_DEFAULT: Final = "default"
_OF_SLURM: Final = ("slurm_vcpus_per_node", "slurm_setup_script", "slurm_job_id")


def where(options: Options, environ: Mapping[str, str], home: Path) -> LaunchSettings | None:
    """Where the ranks of a command line run, None for this host. Raises UsageError for flags that contradict
    each other, and for several nodes without a way to reach them.
    """
    mpi = cast("MpiName", known("BUSBW_MPI", environ, MpiName))
    if options.slurm_mode:
        if options.hosts or options.hosts_file:
            raise UsageError("--hosts and --slurm-mode exclude each other", hint="give one of them")
        return replace(_slurm(options), mpi=mpi)
    plain = Options(options.operand, options.nworkers)
    stray = next((name for name in _OF_SLURM if getattr(options, name) != getattr(plain, name)), None)
    if stray is not None:
        raise UsageError(f"{flag_name(stray)} means nothing without --slurm-mode", hint="add -S")
    hosts_file = _hosts_file(options, home)
    if not options.hosts and hosts_file is None:
        return None
    return LaunchSettings(
        on="hosts",
        nodes=str(options.nnodes),
        ranks_per_node=options.nworkers // options.nnodes,
        hosts=",".join(options.hosts[: options.nnodes]),
        hostfile=hosts_file,
        mpi=mpi,
    )


def _hosts_file(options: Options, home: Path) -> Path | None:
    """The file that names the hosts: where none are given, ``~/hosts``, as nccom-test."""
    nodes, hosts = options.nnodes, options.hosts
    if hosts and options.hosts_file:
        raise UsageError("--hosts and --hosts-file exclude each other", hint="give one of them")
    if hosts and len(hosts) < nodes:
        raise UsageError(
            f"-N {nodes} nodes, and hosts for {len(hosts)}: {' '.join(hosts)}",
            hint="name a host for every node, or give -N fewer",
        )
    if hosts or (nodes == 1 and not options.hosts_file):
        return None
    path = Path(options.hosts_file).expanduser() if options.hosts_file else home / "hosts"
    if path.is_file():
        return path
    if options.hosts_file:
        raise UsageError(f"no hosts file {path}", hint="give a file with one host a line")
    raise UsageError(
        f"-N {nodes} nodes, and no hosts: neither --hosts, --hosts-file nor {path}",
        hint="name them with --hosts, or use Slurm with -S",
    )


def _slurm(options: Options) -> LaunchSettings:
    ranks_per_node = options.nworkers // options.nnodes
    script = options.slurm_setup_script
    if script and script != _SETUP_DEFAULT and not Path(script).expanduser().is_file():
        raise UsageError(f"no set-up script {script}", hint="give a file, or `default`")
    cpus = options.slurm_vcpus_per_node
    if cpus is not None and cpus < ranks_per_node:
        raise UsageError(
            f"-u {cpus} CPUs of a node for {ranks_per_node} ranks", hint=f"give -u {ranks_per_node} or more"
        )
    return LaunchSettings(
        on="slurm",
        nodes=str(options.nnodes),
        ranks_per_node=ranks_per_node,
        srun_args="" if cpus is None else f"--cpus-per-task={cpus // ranks_per_node}",
        # The vendor's `default` installs its software on every node; what is needed there now is busbw.
        bring=script == _SETUP_DEFAULT,
        setup_script=Path(script).expanduser() if script not in ("", _SETUP_DEFAULT) else None,
        job_id="" if options.slurm_job_id == ALLOCATE else options.slurm_job_id,
    )


def not_needed(options: Options, environ: Mapping[str, str]) -> list[str]:
    """What is said of hosts that are too many, and of addresses that nccom-test must be given, and busbw's
    ranks find by themselves.
    """
    notes = []
    if environ.get(ROOT_VARIABLE):
        notes.append(f"{ROOT_VARIABLE} is not needed: the launcher gives the ranks the address of rank 0")
    if options.data_collector_host or options.data_collector_port is not None:
        notes.append("--data-collector-host and -port are not needed: times come with rank 0's events")
    if len(options.hosts) > options.nnodes:
        notes.append(f"the first {options.nnodes} of {len(options.hosts)} hosts are used")
    return notes
