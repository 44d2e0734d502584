"""``busbw hang``: who a job waits for that does not go on; any job over NCCL or PyTorch, not only ours."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from busbw.cli.app import TextOrJson
from busbw.cli.output import as_json, show
from busbw.errors import ExitCode, SiteError, UndecidedError
from busbw.foreign.flight_recorder.read import read_folder
from busbw.judge.hang import judge_counts, judge_process, judge_records, suspects
from busbw.launch.hosts.ssh import is_this_machine, ssh_words
from busbw.launch.scheduler import call
from busbw.machine.look import RAS_ADDRESS, ask_ras, look
from busbw.machine.nccl_ras import read_answer
from busbw.model.hang import Communicator, HangAnswer, JobSeen, ProcessSeen
from busbw.plan.flags.hang import HangSettings
from busbw.report.events import hang_lines


@dataclass(frozen=True)
class Places:
    """Where to ask: host -> the words that bring a shell there; empty where it is this one."""

    shells: Mapping[str, tuple[str, ...]]
    address: str

    def shell_of(self, host: str) -> tuple[str, ...] | None:
        """Of a host by its name, or by an address, as RAS tells it; None where it is none of these."""
        if host in self.shells:
            return self.shells[host]
        for name, shell in self.shells.items():
            if (not shell and is_this_machine(host)) or host in _addresses(name):
                return shell
        return None


def hang_command(
    *,
    options: HangSettings = HangSettings(),
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Ask, judge, print. Exit code 5 where the job hangs, 3 where that is not known."""
    if options.flight_recorder is not None:
        answer = judge_records(read_folder(options.flight_recorder))
    else:
        address = options.ras or _own_address(options.pid or 0) or RAS_ADDRESS
        answer = _look(Places(_shells(options), address), options.pid or 0, options.wait)
    show(format, (answer.answer, *hang_lines(answer)), json=lambda: as_json(asdict(answer)))
    return {True: ExitCode.RANK_FAILED, False: ExitCode.OK, None: ExitCode.UNDECIDED}[answer.is_hung]


def _shells(settings: HangSettings) -> Mapping[str, tuple[str, ...]]:
    if settings.pods:
        namespace = ("-n", settings.namespace) if settings.namespace else ()
        return {pod: ("kubectl", "exec", "-i", *namespace, pod, "--") for pod in settings.pods.split(",")}
    if settings.job_id:
        nodes = call("squeue", "--noheader", "--format=%N", f"--jobs={settings.job_id}").strip()
        names = call("scontrol", "show", "hostnames", nodes).split() if nodes else []
        if not names:
            raise SiteError(f"job {settings.job_id} runs on no node", hint="`squeue --me` lists your jobs")
        srun = ("srun", f"--jobid={settings.job_id}", "--overlap", "--nodes=1", "--ntasks=1")
        return {name: (*srun, f"--nodelist={name}") for name in names}
    if settings.host:
        names = settings.host.split(",")
        return {name: () if is_this_machine(name) else (*ssh_words({}), name) for name in names}
    return {socket.gethostname(): ()}


def _own_address(pid: int) -> str:
    """NCCL_RAS_ADDR of a process here; empty where it has none, or is not ours to read."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((v.split(b"=", 1)[1].decode() for v in variables if v.startswith(b"NCCL_RAS_ADDR=")), "")


def _look(places: Places, pid: int, wait_s: float) -> HangAnswer:
    # The first host whose RAS answers: it tells of the whole job.
    asked = ((shell, _merged(ask_ras(shell, places.address), pid)) for shell in places.shells.values())
    shell, first = next((each for each in asked if each[1] is not None), ((), None))
    if first is None:
        return _without_ras(places, pid)
    time.sleep(wait_s)
    second = _merged(ask_ras(shell, places.address), pid)
    if second is None:
        raise UndecidedError("NCCL's RAS answered once, and then no more", hint="ask again")
    wanted: dict[str, list[int]] = {}
    for rank in suspects(first, second):
        wanted.setdefault(rank.host, []).append(rank.pid)
    shells = {name: own for name in wanted if (own := places.shell_of(name)) is not None}
    hosts = {name: look(own, wanted[name]) for name, own in shells.items()}
    return judge_counts(first, second, hosts, wait_s)


def _merged(answers: Sequence[str], pid: int) -> JobSeen | None:
    """The communicators of all answers; where a process is named, of those that know it."""
    jobs = []
    for text in answers:
        with contextlib.suppress(UndecidedError):
            jobs.append(read_answer(text))
    if pid:
        jobs = [
            job for job in jobs if any(rank.pid == pid for each in job.communicators for rank in each.ranks)
        ]
    if not jobs:
        return None
    found: dict[str, Communicator] = {each.name: each for job in jobs for each in job.communicators}
    return JobSeen(jobs[-1].nccl, tuple(found.values()), all(job.has_counts for job in jobs))


def _without_ras(places: Places, pid: int) -> HangAnswer:
    """Only what the kernel says of the one process. Raises SiteError where none was named."""
    where = ", ".join(places.shells)
    silent = f"no RAS of NCCL answers at {places.address} on {where}"
    if not pid:
        raise SiteError(
            silent,
            hint="it is in NCCL 2.24 and later; give --ras HOST:PORT where the job has NCCL_RAS_ADDR,"
            " --flight-recorder DIR with PyTorch's dumps, or --pid PID for one process of any other job",
        )
    process = look(next(iter(places.shells.values())), [pid]).processes.get(pid, ProcessSeen(""))
    return judge_process(pid, where, process, silent)


def _addresses(name: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(name, None)}
    except OSError:
        return set()
