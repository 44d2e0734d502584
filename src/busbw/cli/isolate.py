"""``busbw isolate`` and ``busbw pairs``: runs that hunt instead of measuring cases."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TextIO

from busbw.cli.doubts import Lost, doubts_without
from busbw.cli.run import run
from busbw.errors import ExitCode, SiteError, UsageError
from busbw.launchers.leave_out import without, without_gpu
from busbw.model.event import Event, EventKind
from busbw.model.finding import Finding, Severity
from busbw.probes.visible import gpu_named
from busbw.record.exclude import LOST, hint_of_lost
from busbw.units import format_duration
from busbw.world.identity import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from busbw.settings.hunt import HuntSettings
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

_TELL_SECONDS: Final = 2.0
DOCUMENTS: Final = ("json", "csv")  # formats of which a reader takes one
_LEAST_RANKS: Final = 2  # that a hunt begins again with
_HINT_OF_RANK: Final = "look for what ended or stopped it: the kernel's log, a debugger, an OOM killer"
_HINT_OF_GPU: Final = "look at that GPU: nvidia-smi, Xid in the kernel's log; until then start with {setting}"


def hunt(
    kind: str, own: HuntSettings, settings: RunSettings, launch: LaunchSettings, argv: tuple[str, ...]
) -> ExitCode:
    """Hunt until it is over. A host that dies or hangs is a finding, and the hunt begins again without it,
    where this process can say so (launchers.leave_out); so is a rank of this host, where this process starts
    them. A document is that of the last launch: its record has who was lost.
    """
    rest = Rest(replace(settings, hunt=own.to_word(kind)), launch)
    if not _starts_ranks(launch) or settings.format not in DOCUMENTS:
        return hunt_on(kind, rest, argv, lambda: sys.stdout).code
    with last_document(sys.stdout) as out:
        return hunt_on(kind, rest, argv, out).code


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


def _starts_ranks(launch: LaunchSettings) -> bool:
    """Whether ranks are started from here: by an engine, or since nobody has started this process as one.
    Raises LauncherMismatch.
    """
    return launch.on is not None or identify(os.environ) is None


@dataclass(frozen=True)
class Rest:
    """How a hunt goes on: with what and where, and who was lost before it. ``must_meet``: a host counts as
    lost only after the ranks have met, which they may be unable to by the NIC that they were given.
    """

    settings: RunSettings
    launch: LaunchSettings
    lost: tuple[Finding, ...] = ()
    must_meet: bool = False

    def after(
        self,
        finding: Finding,
        launch: LaunchSettings,
        members: list[dict[str, Any]],
        lost: Lost,
        ranks: int | None = None,
    ) -> Rest:
        """Without one more, which was one of ``members`` (of a header; none where ranks had not met).
        ``ranks``: as many as there are left, where that is asked for.
        """
        settings = replace(self.settings, hunt=doubts_without(self.settings.hunt, members, lost))
        if ranks is not None:
            settings = replace(settings, ranks=ranks)
        return Rest(settings, launch, (*self.lost, finding), self.must_meet)


@dataclass(frozen=True)
class Hunted:
    """A hunt that is over: its exit code, what was left of it, and what its last launch said."""

    code: ExitCode
    rest: Rest
    heard: tuple[Event, ...]


def hunt_on(kind: str, now: Rest, argv: tuple[str, ...], out: Callable[[], TextIO]) -> Hunted:
    """Launch after launch; each writes to an ``out`` of its own."""
    while True:
        heard: list[Event] = []
        refused: SiteError | None = None
        try:
            with redirect_stdout(out()):
                code = run((kind,), now.settings, now.launch, argv, hear=heard.append, before=now.lost)
            host, why = lost_host(heard)
        except SiteError as error:
            # Another host that went with the first, and whose neighbour was heard before it.
            if not now.lost or not error.host:
                raise
            refused, code, host, why = error, ExitCode.RANK_FAILED, error.host, error.message
        rest = _without(now, heard, host, why) if code is ExitCode.RANK_FAILED and host else None
        if rest is None:
            if refused is not None:
                raise refused
            return Hunted(_of_what_is_left(code, now.lost), now, tuple(heard))
        print(f"{rest.lost[-1].claim}; beginning again without it", file=sys.stderr, flush=True)
        now = rest


def _without(now: Rest, heard: list[Event], host: str, why: str) -> Rest | None:
    """Go on without the host or rank that was lost, which is a finding; None where that cannot be."""
    if now.launch.on is None:
        return _without_rank(now, heard, host, why) if _starts_ranks(now.launch) else None
    node = node_of(heard, host)
    rest = without(now.launch, host, node)
    has_met = any(item["event"] == EventKind.HEADER for item in heard)
    if rest is None or (now.must_meet and not has_met):
        return None
    claim = f"{host}: lost during the hunt: {why}"
    finding = Finding(Severity.ERROR, claim, hint=hint_of_lost(node), host=host, check=LOST, node=node)
    return now.after(finding, rest, _members(heard), Lost(host))


def _without_rank(now: Rest, heard: list[Event], host: str, why: str) -> Rest | None:
    """One rank of this host fewer; on GPUs that of the rank is left out. Where ranks had not met, what ended
    one may end any.
    """
    header = next((item for item in heard if item["event"] == EventKind.HEADER), None)
    rank = next((item["rank"] for item in reversed(heard) if item["event"] == EventKind.ERROR), None)
    ranks = int(header["world"]["size"]) if header is not None else 0
    if header is None or rank is None or ranks <= _LEAST_RANKS:
        return None
    launch, who, hint = now.launch, f"rank {rank} of {ranks}", _HINT_OF_RANK
    numbers = f"the other {ranks - 1} ranks are numbered anew"
    if header["plan"]["backend"] == "nccl":
        left = without_gpu(launch, os.environ, ranks, int(rank))
        if left is None:
            return None
        launch, word = left
        who, hint = f"rank {rank} of {ranks} ({gpu_named(word)})", _HINT_OF_GPU.format(setting=launch.env[-1])
    claim = f"{who} on {host}: lost during the hunt: {why}"
    found = Finding(Severity.ERROR, claim, numbers, hint, host=host, check=LOST)
    return now.after(found, launch, _members(heard), Lost(host, int(rank)), ranks - 1)


def _members(heard: list[Event]) -> list[dict[str, Any]]:
    """The ranks as they met; none where they had not."""
    return [
        each for item in heard if item["event"] == EventKind.HEADER for each in item["world"].get("ranks", ())
    ]


def _of_what_is_left(code: ExitCode, lost: tuple[Finding, ...]) -> ExitCode:
    """A lost host or rank is a bad verdict, whatever the others are."""
    is_decided = code in (ExitCode.OK, ExitCode.UNDECIDED)
    return ExitCode.BAD_VERDICT if lost and is_decided else code


def lost_host(heard: list[Event]) -> tuple[str, str]:
    """The host on which a rank died or hung, as the run's own judgement names it, and its words; empty where
    none is named.
    """
    errors = [item for item in heard if item["event"] == EventKind.ERROR and item["host"]]
    return (str(errors[-1]["host"]), str(errors[-1]["message"])) if errors else ("", "")


def node_of(heard: list[Event], host: str) -> str:
    """The engine's own name of a host, where ranks met there and told it; else its name."""
    places = [
        place for item in heard if item["event"] == EventKind.HEADER for place in item["world"]["places"]
    ]
    for place in places:
        if place["host"] == host:
            return str(place["slurm_node"] or place["kubernetes_node"] or host)
    return host


def _progress(hunts: int) -> Callable[[int], None]:
    """Tells every few seconds on stderr how far simulated hunts are: large ones take a minute."""
    told_s = start_s = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        if done < hunts and now_s - told_s >= _TELL_SECONDS:
            left = format_duration((now_s - start_s) / done * (hunts - done))
            print(f"{done} of {hunts} hunts, {left} left", file=sys.stderr, flush=True)
            told_s = now_s

    return tell


def simulate(
    own: HuntSettings,
    parts: int,
    bad: int,
    noise: str,
    hunts: int,
    seed: int | None,
    format_name: str,
    per_switch: int = 0,
    farther: str = "",
    *,
    hidden: bool = False,
) -> ExitCode:
    """What hunts of this kind would come to, in a fabric that is like the one described: rounds, how many of
    the slow parts are named, how many others. Starts nothing.
    """
    from busbw.hunt.standing import LEAST_PARTS
    from busbw.hunt.trial import trial
    from busbw.planning.hunt import MOST_TIMES, make_rules
    from busbw.planning.values import MOST_SEED, at_least
    from busbw.units import parse_fraction

    if parts < LEAST_PARTS:
        raise UsageError(
            f"--simulate {parts}: it takes {LEAST_PARTS} parts to tell which one of a slow pair it is",
            hint="give 4 or more, as in --simulate 64",
        )
    at_least("--hunts", hunts, 1)
    if not 0 <= at_least("--bad", bad, 0) < parts:
        raise UsageError(f"--bad {bad}: {parts} parts are simulated", hint="give fewer than there are parts")
    _check_switches(parts, bad, per_switch)
    if (farther or hidden) and not per_switch:
        raise UsageError(
            "--farther and --hidden are of switches, and none are simulated", hint="add --per-switch 8"
        )
    if format_name not in ("table", "json"):
        raise UsageError(f"--format {format_name} has no form for simulated hunts", hint="use table or json")
    rules = make_rules(own, at_least("--seed", seed or 0, 0, MOST_SEED))
    shares = (parse_fraction(own.loss, "--loss"), parse_fraction(noise, "--noise"))
    found = trial(
        rules,
        parts,
        bad,
        *shares,
        hunts,
        per_leaf=per_switch,
        longer=parse_fraction(farther, "--farther", below=MOST_TIMES) if farther else 0.0,
        hidden=hidden,
        tell=_progress(hunts),
    )
    if format_name == "json":
        print(json.dumps(found.to_fields()))
        return ExitCode.OK
    print("\n".join(found.lines()))
    return ExitCode.OK


def _check_switches(parts: int, bad: int, per_switch: int) -> None:
    """Raises UsageError where no hunt could tell the slow switches: their number has to be less than that of
    the others, of three at least, which have two parts or more.
    """
    if not per_switch:
        return
    if not 2 <= per_switch < parts:
        raise UsageError(
            f"--per-switch {per_switch}: {parts} parts on one switch, or each on its own",
            hint="give 2 switches or more of 2 parts or more, --simulate 64 --per-switch 8",
        )
    switches = parts // per_switch + (parts % per_switch > 1)
    if bad and not (switches >= 3 and 2 * bad < switches):
        raise UsageError(
            f"--bad {bad} of {switches} switches of two parts or more: which of them is slow cannot be told",
            hint="give 3 switches or more of which most are not slow, or --bad 0",
        )
