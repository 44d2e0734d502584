"""Slurm's own commands, called as from a shell; no library of it is needed. PBS's are called alike."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

from busbw.errors import SiteError
from busbw.launchers.slurm_state import Reading, hint_of, read_job

# A busy controller answers late; one that has not answered by then is down.
_PATIENCE_SECONDS: Final = 60.0
_ASK: Final = "try `scontrol ping` here: busbw needs a host that reaches Slurm (SLURM_CONF, slurmctld, munge)"
_SHOWN: Final = "--dry-run shows all that is submitted"
# Command -> what to try where its own words are not known to us.
_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sinfo", "squeue", "scontrol", "scancel"), _ASK),
    **dict.fromkeys(("sbatch", "qsub"), _SHOWN),
    "aws": "try `aws batch describe-job-queues` here: it needs a region, credentials and the rights",
}
_FORGOTTEN: Final = "invalid job id"
# Of a job or step that has ended (scancel, squeue).
_OVER: Final = (_FORGOTTEN, "already completing", "already completed")
# Of a step that its nodes do not have yet, or no longer (scancel); how long that may last.
_STARTING: Final = "not running"
_STARTS_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 0.5
# Of a command whose question was sent, and whose answer did not come: what it asked for may be done
# (slurm_errno.c; qsub, aws). "Unable to contact ... (connect failure)" is none: nothing was sent.
_UNANSWERED: Final = re.compile(
    r"socket timed out|(send|receive|shutdown) failure|zero bytes were|unexpected message|read timeout"
    r"|communication failure|premature end|end of file|closed before we received",
    re.IGNORECASE,
)
# What says where Slurm is, not which job a shell belongs to.
_KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CLUSTERS"})


class NoAnswer(SiteError):
    """The server may have done what it was asked for, and has not said so."""


def environ_outside_jobs() -> Mapping[str, str]:
    """This process's variables, without those of a job that it may be part of: they would give the new one
    its sizes.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return os.environ
    foreign = ("SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "OMPI_")
    return {
        name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(foreign)
    }


def call(*words: str, engine: str = "Slurm", without: Sequence[str] = ()) -> str:
    """A command's standard output; it is ``without`` these variables of ours. Raises SiteError with the
    command's own words, NoAnswer where they do not say what became of the question.
    """
    done = ask(words, engine, without)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        words_said = _own_words(said) or f"exit code {done.returncode}"
        is_open = done.returncode < 0 or _UNANSWERED.search(words_said)  # killed, by whoever
        kind = NoAnswer if is_open else SiteError
        raise kind(f"{words[0]}: {words_said}", hint=_hint(words[0], words_said))
    return done.stdout


def ask(
    words: Sequence[str], engine: str = "Slurm", without: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """A command's end, whatever it is. Raises SiteError where it cannot be started, NoAnswer where it does
    not end.
    """
    try:
        return subprocess.run(
            words,
            env={name: value for name, value in environ_outside_jobs().items() if name not in without},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
            start_new_session=True,  # Ctrl-C at the terminal must not leave a submission half done
        )
    except FileNotFoundError as error:
        raise SiteError(
            f"no {engine} here: {words[0]} was not found",
            hint=f"start busbw where {engine}'s commands are, with their folder on PATH",
        ) from error
    except OSError as error:
        raise SiteError(f"cannot start {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(
            f"{words[0]} has not answered within {_PATIENCE_SECONDS:g} s",
            hint=f"ask whether {engine}'s server is up",
        ) from error


def _hint(command: str, words: str) -> str:
    return hint_of(words) or _HINTS.get(command, "")


def _own_words(lines: Sequence[str]) -> str:
    """The line that says most: Slurm's first, without the program's name."""
    for line in lines:
        for mark in ("error: ", "fatal: "):
            if mark in line:
                return line.split(mark, maxsplit=1)[1]
    return lines[-1] if lines else ""


def look(job_id: str) -> Reading:
    """The job as the controller knows it now. Raises SiteError where the controller does not answer."""
    done = ask(("scontrol", "show", "job", job_id))
    if done.returncode == 0:
        return read_job(done.stdout)
    if _FORGOTTEN in (done.stderr + done.stdout).lower():
        return Reading("")
    words = _own_words(done.stderr.strip().splitlines())
    raise SiteError(f"scontrol: {words}", hint=_hint("scontrol", words))


def look_for(job_id: str, name: str) -> Reading:
    """As look, of the job that we gave this name. Numbers begin again where a site sets its Slurm up anew:
    another job of this number is one that Slurm has forgotten.
    """
    reading = look(job_id)
    return reading if reading.is_called(name) else Reading("")


def find(name: str, called: str) -> str:
    """The number of our job of a name, which Slurm shows as ``called``; empty where it has none. Raises
    SiteError where Slurm does not answer.
    """
    words = ("--noheader", "--states=all", "--format=%i", f"--user={os.getuid()}", f"--name={called}")
    numbers = reversed(call("squeue", *words).split())  # the newest first
    return next((number for number in numbers if look_for(number, name).state), "")


def end(*words: str) -> None:
    """Scancel. No error where there is nothing left to end; raises SiteError where Slurm did not take it."""
    _unless_over(ask(("scancel", *words)))


def end_step(signal: str, step: str) -> None:
    """As end, of a step that may still be starting on its nodes: Slurm then knows of it, and they do not."""
    give_up_s = time.monotonic() + _STARTS_SECONDS
    while True:
        try:
            return end(signal, step)
        except SiteError as error:
            if _STARTING not in error.message or time.monotonic() > give_up_s:
                raise
        time.sleep(_AGAIN_SECONDS)


def _unless_over(done: subprocess.CompletedProcess[str]) -> None:
    """Raises SiteError for a command that failed, but not because its job has ended."""
    said = done.stderr.strip().splitlines()
    left = [line for line in said if not any(known in line.lower() for known in _OVER)]
    if done.returncode and (left or not said):
        words = _own_words(left) or f"exit code {done.returncode}"
        raise SiteError(f"{done.args[0]}: {words}", hint=_hint(done.args[0], words))


def steps(job_id: str, name: str) -> list[str]:
    """Ids of the job's steps of that name, such as 17.0. Raises SiteError where Slurm does not answer."""
    done = ask(("squeue", "--noheader", "--steps", f"--jobs={job_id}", "--format=%i|%j"))
    _unless_over(done)
    rows = (line.strip().partition("|") for line in done.stdout.splitlines())
    return [step for step, _, called in rows if called == name]


def host_names(nodes: str) -> tuple[str, ...]:
    """The hosts of a list as Slurm writes it (h[1-4])."""
    return tuple(call("scontrol", "show", "hostnames", nodes).split()) if nodes else ()


def accounted_nodes(job_id: str, name: str) -> tuple[str, ...]:
    """The hosts of a job that the controller has forgotten, from Slurm's accounting, where there is one."""
    words = ("--noheader", "--parsable2", "--allocations", "--duplicates", f"--jobs={job_id}")
    try:
        rows = call("sacct", *words, "--format=JobName,NodeList").splitlines()
        nodes = [row.partition("|")[2] for row in rows if row.partition("|")[0] == name]
        return host_names(nodes[0]) if nodes and "assigned" not in nodes[0] else ()
    except SiteError:
        return ()


def all_nodes(partition: str) -> tuple[str, ...]:
    """The nodes of a partition, of any where that is empty. Raises SiteError."""
    chosen = (f"--partition={partition}",) if partition else ()
    return tuple(dict.fromkeys(call("sinfo", "--noheader", "--Node", "--format=%N", *chosen).split()))


def is_down(node: str) -> bool:
    """Whether Slurm has given a node up."""
    done = ask(("sinfo", "--noheader", "--Node", f"--nodes={node}", "--format=%T"))
    return done.returncode == 0 and "down" in done.stdout
