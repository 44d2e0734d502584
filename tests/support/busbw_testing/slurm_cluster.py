"""A real Slurm on one machine: munged, slurmctld and one slurmd in each of several namespace hosts.

Nothing of it is seen outside: daemons listen inside the hosts' network namespaces, and all files are in one
folder, the *shared file system* of this cluster; /tmp of each host is its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

import pytest

from busbw_testing.environ import clean_environ
from busbw_testing.namespaces import Hosts, seen_of_tmp, why_not
from busbw_testing.started import completed

PROGRAMS: Final = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
_PATIENCE_S: Final = 30.0
_OF_JOB: Final = re.compile(r"busbw-\d{8}-")
_CPUS: Final = 4
# Open MPI over TCP, without the wait in its start in which it crashes where a message reaches it: 8 of 203
# starts of version 5.0.11 on four nodes of a busy machine (https://github.com/open-mpi/ompi/issues/12495).
OPEN_MPI: Final = (
    *("--env", "OMPI_MCA_pml=ob1", "--env", "OMPI_MCA_btl=self,tcp"),
    *("--env", "OMPI_MCA_pmix_base_async_modex=1", "--env", "OMPI_MCA_pmix_base_collect_data=0"),
)
# What a daemon of the test must not inherit from a Slurm job that runs the tests.
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_CONF: Final = """\
ClusterName=lab
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldHost={controller}({controller_address})
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdSpoolDir={folder}/spool/%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
KillWait=10
SlurmctldTimeout=30
# A node whose slurmd is gone is given up after this many seconds.
SlurmdTimeout=10
MessageTimeout=10
CommunicationParameters=NoAddrCache
TopologyPlugin=topology/tree
MailProg=/bin/true
TmpFS=/tmp
{resources}{nodes}
PartitionName=debug Nodes={all} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=closed Nodes={all} MaxTime=INFINITE State=DOWN
"""
# Nodes with GPUs are a partition of their own. Slurm counts and hands out any device as one.
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")
_GPU_PARTITION: Final = "PartitionName=gpus Nodes={nodes} MaxTime=INFINITE State=UP\n"


def missing_programs() -> list[str]:
    """Programs of Slurm and munge that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


@contextlib.contextmanager
def slurm_of(top: Path, nodes: int, gpus: Mapping[str, int] | None = None) -> Iterator[SlurmCluster]:
    """A cluster whose hosts share the empty folder ``top``, with a home for runs in it."""
    missing = missing_programs()
    if reason := (f"no {', '.join(missing)} here" if missing else why_not(sshd=False)):
        pytest.skip(f"{reason}; `make test-slurm` installs what is needed, as root")
    for name in ("net", "slurm", "home"):
        (top / name).mkdir()
    shared = [top, *seen_of_tmp()]
    with (
        Hosts(top / "net", nodes + 1, private=["/tmp"], shared=shared, sshd=False) as hosts,
        SlurmCluster(hosts, top / "slurm", gpus) as started,
    ):
        yield started


class SlurmCluster:
    """All hosts but the last are nodes; the last is the login host, with the controller.

    ``folder`` is an empty folder that all hosts see, with a name short enough for a Unix socket in it. The
    nodes of ``gpus`` have so many each (3 at most), and are not in the default partition.
    """

    def __init__(self, hosts: Hosts, folder: Path, gpus: Mapping[str, int] | None = None) -> None:
        self.hosts, self.folder, self.gpus = hosts, folder, gpus or {}
        self.nodes, self.login = hosts.names[:-1], hosts.names[-1]
        self.conf = folder / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._write_files()
            self._start_munged()
            self.start_controller()
            for node in self.nodes:
                self.start_node(node)
            self.wait_until_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for name in self.hosts.names:
            self._kill_processes(name)
        for daemon in self._daemons:  # nsenter, which waits for them
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGTERM)
            daemon.wait()

    # ---- running things ------------------------------------------------------------------------------------

    def environ(self, **variables: str) -> dict[str, str]:
        """What a user on the login host has."""
        return clean_environ(SLURM_CONF=str(self.conf), **variables)

    def command(self, *words: str | Path, host: str = "") -> list[str]:
        """The command inside a host, the login host unless another is named."""
        return self.hosts.command(host or self.login, words)

    def run(self, *words: str | Path, host: str = "", timeout_s: float = 30.0) -> str:
        """A command's output; it must succeed."""
        done = completed(self.command(*words, host=host), self.environ(), timeout_s)
        assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def jobs(self) -> list[str]:
        """Ids of the jobs that have not ended."""
        return self.run("squeue", "--noheader", "--format=%i").split()

    def left_in_tmp(self, host: str) -> list[str]:
        """Files of jobs there. (A checkout of busbw may be below /tmp as well.)"""
        return [name for name in self.run("ls", "-A", "/tmp", host=host).split() if _OF_JOB.match(name)]

    def hold(self, *words: str) -> str:
        """A job that only holds its nodes; its number, once it runs."""
        keep = ("--output=/dev/null", "--wrap", "sleep 1000")
        job = self.run("sbatch", "--parsable", *words, *keep).strip()
        self.wait_until(lambda: "RUNNING" in self.run("squeue", "-h", f"--jobs={job}", "--format=%T"))
        return job

    def wait_until(self, what: Callable[[], object], patience_s: float = _PATIENCE_S) -> None:
        """Until ``what`` holds; fails with the controller's log."""
        deadline = time.monotonic() + patience_s
        while not what():
            if time.monotonic() >= deadline:
                logs = sorted((self.folder / "log").glob("*.log"))
                raise AssertionError([path.read_text()[-3000:] for path in logs])
            time.sleep(0.05)

    def wait_until_idle(self) -> None:
        """Until every node can take a job."""
        self.wait_until(self._is_idle)

    def _is_idle(self) -> bool:
        done = completed(
            self.command("sinfo", "--noheader", "--partition=debug", "--format=%T %D"), self.environ()
        )
        return done.stdout.split() == ["idle", str(len(self.nodes) - len(self.gpus))]

    # ---- nodes ---------------------------------------------------------------------------------------------

    def start_controller(self) -> None:
        """Start slurmctld."""
        self._start(self.login, "slurmctld", "-D", "-f", str(self.conf))

    def stop_controller(self) -> None:
        """End slurmctld, which saves its state first: commands reach nobody, and jobs go on."""
        for pid in self._controllers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self.wait_until(lambda: not self._controllers())

    def _controllers(self) -> list[int]:
        lines = self.hosts.processes(self.login).items()
        return [pid for pid, line in lines if line.startswith("slurmctld")]

    def start_node(self, node: str) -> None:
        """Start the node's slurmd."""
        self._start(node, "slurmd", "-D", "-f", str(self.conf), "-N", node)

    def lose_node(self, node: str) -> None:
        """What a power failure does: its network is gone, then all its processes."""
        self.hosts.run(node, "ip", "link", "set", "eth0", "down")
        self._kill_processes(node)

    def repair_node(self, node: str) -> None:
        """Start a lost node again, and wait until it is idle."""
        self.hosts.run(node, "ip", "link", "set", "eth0", "up")
        self.start_node(node)
        self.wait_until_idle()

    def _kill_processes(self, host: str) -> None:
        for pid in self.hosts.processes(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def seen_from(self, host: str, path: Path) -> Path:
        """A host's own file, as this process can read it."""
        return Path(f"/proc/{self.hosts[host].pid}/root") / path.relative_to("/")

    # ---- daemons -------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        for name in ("state", "log", "spool"):
            (self.folder / name).mkdir(parents=True)
        for node in self.nodes:
            (self.folder / "spool" / node).mkdir()
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o400)
        lines = [
            f"NodeName={node} NodeHostname={node} NodeAddr={self.hosts.address(node)} CPUs={_CPUS}"
            f" RealMemory=1000{f' Gres=gpu:{self.gpus[node]}' if node in self.gpus else ''}"
            for node in self.nodes
        ]
        text = _CONF.format(
            folder=self.folder,
            controller=self.login,
            controller_address=self.hosts.address(self.login),
            resources="GresTypes=gpu\n" if self.gpus else "",
            nodes="\n".join(lines),
            all=",".join(node for node in self.nodes if node not in self.gpus),
        )
        if self.gpus:
            text += _GPU_PARTITION.format(nodes=",".join(self.gpus))
            devices = (
                f"NodeName={node} Name=gpu File={device}\n"
                for node, count in self.gpus.items()
                for device in _DEVICES[:count]
            )
            (self.folder / "gres.conf").write_text("".join(devices))
        self.conf.write_text(text)
        # Nothing here uses cgroups; slurmd would look for the machine's all the same.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "topology.conf").write_text(f"SwitchName=leaf Nodes={','.join(self.nodes)}\n")

    def _start_munged(self) -> None:
        names = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        names |= {"log-file": "log/munged.log", "seed-file": "munged.seed"}
        options = [f"--{name}={self.folder / at}" for name, at in names.items()]
        self._start(
            self.login, "munged", "--foreground", "--force", *options
        )  # its socket is a file: all see it

    def _start(self, host: str, *words: str) -> None:
        self._popen(self.command(*words, host=host))

    def _popen(self, words: list[str]) -> None:
        self._daemons.append(
            subprocess.Popen(
                words,
                env={"PATH": _PATH, "SLURM_CONF": str(self.conf)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
