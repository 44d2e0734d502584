"""Launch settings as the engines take them, from what users write and the job that busbw was started in."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from busbw.errors import UnknownWord, UsageError
from busbw.files import read_input
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.launch import OF_NEW_JOB, LaunchSettings
from busbw.units import parse_duration

# sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours and on; and two words.
SLURM_LIMIT: Final = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1|unlimited|infinite", re.IGNORECASE)
SLURM_LIMIT_HINT: Final = "write minutes, hours:minutes:seconds or days-hours, as 0:30:00"
# qsub(1B), walltime: seconds, or [days:][hours:]minutes:seconds.
PBS_LIMIT: Final = re.compile(r"\d+(:\d+){0,3}(\.\d+)?")
PBS_LIMIT_HINT: Final = "write hours:minutes:seconds, as 0:30:00"
# PBS names the nodes of a job in a file: a line for each slot.
PBS_NODES: Final = "PBS_NODEFILE"
# A word of a command, and a variable, are at most 128 KiB long on Linux, and the script is one.
_MOST_SETUP_BYTES: Final = 100_000


def set_words(
    given: Iterable[str], known: Iterable[str], who: str, hint: str = ""
) -> Iterator[tuple[str, str]]:
    """The words of --set as (key, value); ``who`` takes the ``known`` keys. Raises UsageError."""
    known = tuple(known)
    for word in given:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise UsageError(f"--set {word!r} is not KEY=VALUE", hint="write --set gpu=8")
        if key not in known:
            raise UnknownWord(f"{who} does not use --set {key}", key, known, hint=hint)
        yield key, value


def set_count(key: str, text: str) -> int:
    """A value of --set that counts something. Raises UsageError."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise UsageError(f"--set {key}={text} must be a number", hint="give 1 or more")
    return int(text)


def with_pbs_hosts(
    launch: LaunchSettings, environ: Mapping[str, str]
) -> tuple[LaunchSettings, tuple[str, ...]]:
    """The settings with the hosts of the PBS job around, and a note of it, where hosts are wanted and none
    named. Raises UsageError.
    """
    path = environ.get(PBS_NODES, "")
    if launch.on != "hosts" or launch.hosts or launch.hostfile is not None or not path:
        return launch, ()
    slots = Counter(read_input(Path(path), "give --hosts", PBS_NODES).split())
    hosts = ",".join(f"{host}:{count}" for host, count in slots.items())
    note = f"{len(slots)} hosts with {slots.total()} slots, from {PBS_NODES}"
    return replace(launch, hosts=hosts), (note,)


def job_around(launch: LaunchSettings, environ: Mapping[str, str]) -> str:
    """The job that this process is in, where launches are to be its steps; empty where there is none, or a
    new job is asked for.
    """
    asks = any(name in OF_NEW_JOB for name in launch.given())
    return "" if asks or launch.on != "slurm" or launch.job_id else environ.get("SLURM_JOB_ID", "")


def as_steps(launch: LaunchSettings, job_id: str) -> LaunchSettings:
    """The launch as a step of an allocation, without what that was asked for."""
    plain = LaunchSettings()
    of_job: dict[str, Any] = {name: getattr(plain, name) for name in OF_NEW_JOB}
    return replace(launch, **of_job, job_id=job_id, wait=None)


def split_words(flag: str, text: str) -> list[str]:
    """A flag's text as a shell would split it. Raises UsageError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", hint="close the quote") from error


def flag_named(name: str) -> str:
    """The flag that sets a launch setting: --shared is what says that a job is not exclusive."""
    return "--shared" if name == "exclusive" else flag_of(name)


def refuse_unused(launch: LaunchSettings, engine: str, unused: Mapping[str, str]) -> None:
    """Raises UsageError for a setting that an engine does not use; ``unused`` has what to do instead, empty
    where there is nothing.
    """
    for name in launch.given():
        if name in unused:
            flag = flag_named(name)
            raise UsageError(f"{engine} does not use {flag}", hint=unused[name] or f"leave {flag} out")


def refuse_unlike(text: str, form: re.Pattern[str], hint: str) -> None:
    """Of --time-limit: raises UsageError for a limit that the engine would not read; empty is none."""
    if text and form.fullmatch(text) is None:
        raise UsageError(f"--time-limit {text!r} is not a time", hint=hint)


def read_setup(path: Path | None) -> str:
    """The text of --setup-script, never empty; empty where there is none. Raises UsageError."""
    if path is None:
        return ""
    text = read_input(path, "give a shell script that can be read", "--setup-script")
    if len(text.encode()) > _MOST_SETUP_BYTES or "\0" in text:
        raise UsageError(
            f"--setup-script {path} is not a script of at most {_MOST_SETUP_BYTES:,} bytes",
            hint="put the rest in a file that the nodes can read, and source that",
        )
    return text or ":"


def seconds_of(text: str) -> int | None:
    """A --time-limit in seconds, of ``90``, ``30m``, ``1h``; None for empty. Raises UsageError."""
    if not text:
        return None
    try:
        return int(text) if text.isdecimal() else round(parse_duration(text))
    except UsageError as error:
        raise UsageError(f"--time-limit {text!r} is not a time", hint=error.hint) from error


# ---- settings of ranks that do not fit each other, refused in the same words on every engine -----------


def refuse_other_count(ranks: int | None, each: int | None, nodes: int) -> None:
    """Raises UsageError where two flags give a different number of ranks in all."""
    if ranks is not None and each and ranks != each * nodes:
        raise UsageError(
            f"--ranks {ranks}, but --ranks-per-node {each} makes {each * nodes} on {nodes}"
            f" {'node' if nodes == 1 else 'nodes'}",
            hint="leave one of them out",
        )


def refuse_too_few(ranks: int | None, nodes: int) -> None:
    """Raises UsageError where nodes that were asked for would be held, and not measured."""
    if ranks is not None and ranks < nodes:
        raise UsageError(
            f"--ranks {ranks} on {nodes} nodes", hint="give at least one rank a node, or fewer nodes (-N)"
        )


def refuse_uneven(ranks: int, nodes: int) -> None:
    """For launchers that fill one node after the other with as many ranks, so that the last one may have
    fewer: raises UsageError where it would have none.
    """
    refuse_too_few(ranks, nodes)
    each = -(-ranks // nodes)
    if (nodes - 1) * each < ranks:
        return
    used = -(-ranks // each)
    raise UsageError(
        f"--ranks {ranks} on {nodes} nodes, {each} on each, leave {nodes - used} without a rank",
        hint=f"give --ranks {(each - 1) * nodes} or {each * nodes}, or -N {used}",
    )


def refuse_mpi(world: str, backend: str) -> None:
    """For --mpi none: raises UsageError where ranks without MPI could not be this world, or not measure with
    this backend.
    """
    if "mpi" in (world, backend):
        raise UsageError(
            "--mpi none, but this run needs MPI", hint="leave --mpi or --world and --backend out"
        )
