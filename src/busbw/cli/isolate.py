"""``busbw isolate``, ``pairs`` and ``rails``: runs that hunt instead of measuring cases."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import Final, TextIO

from busbw.cli.app import RunCommand
from busbw.cli.run import run, starts_ranks
from busbw.errors import ExitCode, SiteError
from busbw.launch.hosts.list import read_places
from busbw.launch.settle import split_words
from busbw.launch.slurm.commands import value_of
from busbw.launch.variables import read_here
from busbw.machine.visible import VISIBLE, gpu_named, words_of_gpus
from busbw.model.event import Event, EventKind
from busbw.model.finding import Finding, Severity
from busbw.plan.flags.launch import LaunchSettings
from busbw.record.findings import LOST, hint_of_lost

DOCUMENTS: Final = ("json", "csv")  # formats of which a reader takes one
_LEAST_RANKS: Final = 2  # that a hunt begins again with
_HINT_OF_RANK: Final = "look for what ended or stopped it: kernel log, OOM killer, debugger"
_HINT_OF_GPU: Final = (
    "check that GPU (nvidia-smi, Xid errors in the kernel log); until then start with {setting}"
)


def hunt(command: RunCommand) -> ExitCode:
    """Hunt until it is over. A host that dies or hangs is a finding, and the hunt begins again without it,
    where this process can say so; so is a rank of this host, where this process starts them. A document is
    that of the last launch: its record has who was lost.
    """
    if not starts_ranks(command.launch) or command.settings.format not in DOCUMENTS:
        return hunt_on(command, lambda: sys.stdout).code
    with last_document(sys.stdout) as out:
        return hunt_on(command, out).code


@contextmanager
def last_document(target: TextIO) -> Iterator[Callable[[], TextIO]]:
    """An ``out`` for every launch; the last one that was written to goes to ``target``."""
    documents: list[io.StringIO] = []

    def next_document() -> TextIO:
        documents.append(io.StringIO())
        return documents[-1]

    try:
        yield next_document
    finally:
        target.write(next(filter(None, (each.getvalue() for each in reversed(documents))), ""))


@dataclass(frozen=True)
class Hunted:
    """A hunt that is over: its exit code, its last launch with who was lost before, and what that said."""

    code: ExitCode
    last: RunCommand
    heard: tuple[Event, ...]

    @property
    def lost(self) -> tuple[Finding, ...]:
        """Who was left out of the last launch."""
        return self.last.before


def hunt_on(command: RunCommand, out: Callable[[], TextIO], *, must_meet: bool = False) -> Hunted:
    """Launch after launch; each writes to an ``out`` of its own. ``must_meet``: a host counts as lost only
    after the ranks have met, which they may be unable to by the NIC that they were given.
    """
    while True:
        heard: list[Event] = []
        refused: SiteError | None = None
        try:
            with redirect_stdout(out()):
                code = run(replace(command, hear=heard.append))
            host, why = lost_host(heard)
        except SiteError as error:
            # Another host that went with the first, and whose neighbour was heard before it.
            if not command.before or not error.host:
                raise
            refused, code, host, why = error, ExitCode.RANK_FAILED, error.host, error.message
        has_met = any(item["event"] == EventKind.HEADER for item in heard)
        rest = None
        if code is ExitCode.RANK_FAILED and host and (has_met or not must_meet):
            rest = _without(command, heard, host, why)
        if rest is None:
            if refused is not None:
                raise refused
            # A lost host or rank is a bad verdict, whatever the others are.
            is_bad = command.before and code in (ExitCode.OK, ExitCode.UNDECIDED)
            return Hunted(ExitCode.BAD_VERDICT if is_bad else code, command, tuple(heard))
        print(f"{rest.before[-1].claim}; starting again without it", file=sys.stderr, flush=True)
        command = rest


def _without(command: RunCommand, heard: list[Event], host: str, why: str) -> RunCommand | None:
    """Go on without the host or rank that was lost, which is a finding; None where that cannot be."""
    if command.launch.on is None:
        return _without_rank(command, heard, host, why) if starts_ranks(command.launch) else None
    node = node_of(heard, host)
    rest = without_host(command.launch, host, node)
    if rest is None:
        return None
    claim = f"{host}: lost during the hunt: {why}"
    finding = Finding(Severity.ERROR, claim, hint=hint_of_lost(node), host=host, check=LOST, node=node)
    return replace(command, launch=rest, before=(*command.before, finding))


def _without_rank(command: RunCommand, heard: list[Event], host: str, why: str) -> RunCommand | None:
    """One rank of this host fewer, and its GPU. Where ranks had not met, what ended one may end any."""
    header = next((item for item in heard if item["event"] == EventKind.HEADER), None)
    rank = next((item["rank"] for item in reversed(heard) if item["event"] == EventKind.ERROR), None)
    ranks = int(header["world"]["size"]) if header is not None else 0
    if header is None or rank is None or ranks <= _LEAST_RANKS:
        return None
    launch, who, hint = command.launch, f"rank {rank} of {ranks}", _HINT_OF_RANK
    numbers = f"the other {ranks - 1} ranks are renumbered"
    if header["plan"]["backend"] == "nccl":
        left = without_gpu(launch, os.environ, ranks, int(rank))
        if left is None:
            return None
        launch, word = left
        who, hint = f"rank {rank} of {ranks} ({gpu_named(word)})", _HINT_OF_GPU.format(setting=launch.env[-1])
    claim = f"{who} on {host}: lost during the hunt: {why}"
    found = Finding(Severity.ERROR, claim, numbers, hint, host=host, check=LOST)
    settings = replace(command.settings, ranks=ranks - 1)
    return replace(command, launch=launch, settings=settings, before=(*command.before, found))


def lost_host(heard: list[Event]) -> tuple[str, str]:
    """Where a rank died or hung, as the run itself judged, and its words; empty where none is named."""
    errors = [item for item in heard if item["event"] == EventKind.ERROR and item["host"]]
    return (str(errors[-1]["host"]), str(errors[-1]["message"])) if errors else ("", "")


def node_of(heard: list[Event], host: str) -> str:
    """The engine's own name of a host, where ranks met there and told it; else its name."""
    headers = (item for item in heard if item["event"] == EventKind.HEADER)
    places = (place for item in headers for place in item["world"]["places"] if place["host"] == host)
    return next((str(each["slurm_node"] or each["kubernetes_node"] or host) for each in places), host)


# ---- the same launch without one of its hosts or ranks -------------------------------------------------


def without_host(launch: LaunchSettings, host: str, node: str) -> LaunchSettings | None:
    """The launch on one host fewer; ``node`` is its engine's name of it. None where fewer than two would be
    left, and where hosts cannot be chosen from here: other engines, an allocation that is there already.
    """
    if launch.on == "hosts":
        places = read_places(launch) if launch.hosts or launch.hostfile else ()
        left = [place for place in places if place.name != host]
        if len(left) == len(places) or len(left) < 2:
            return None
        hosts = (place.host if place.slots is None else f"{place.host}:{place.slots}" for place in left)
        return replace(launch, hosts=",".join(hosts), hostfile=None, nodes="")
    if not launch.nodes.isdecimal() or int(launch.nodes) <= 2 or launch.job_id:
        return None
    fewer = replace(launch, nodes=str(int(launch.nodes) - 1))
    if launch.on == "slurm":
        # sbatch takes the last --exclude alone, so that has all.
        words = split_words("--sbatch-args", launch.sbatch_args)
        every = ",".join(filter(None, (value_of(words, "--exclude", "-x"), node)))
        return replace(fewer, sbatch_args=shlex.join([*words, f"--exclude={every}"]))
    if launch.on == "kubernetes":
        return replace(fewer, set=(*launch.set, f"exclude={node}"))
    return None


def without_gpu(
    launch: LaunchSettings, inherited: Mapping[str, str], ranks: int, rank: int
) -> tuple[LaunchSettings, str] | None:
    """The launch of ``ranks`` ranks on this host on the GPUs of the others, by the user's own words for them,
    and the word of the one that is left out. None where it is not known which GPU each rank has.
    """
    words = words_of_gpus({**inherited, **read_here(launch, inherited)}, ranks)
    if len(words) < ranks:
        return None
    left = ",".join(word for at, word in enumerate(words) if at != rank)
    return replace(launch, env=(*launch.env, f"{VISIBLE}={left}")), words[rank]
