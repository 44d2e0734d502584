"""``busbw isolate --each-nic``: one hunt after the other, in each of which the library has one NIC."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from busbw.cli.isolate import DOCUMENTS, Hunted, Rest, hunt_on, last_document
from busbw.errors import ExitCode, UsageError
from busbw.launchers.hosts_list import read_places
from busbw.launchers.nic_variables import confining, read_nics
from busbw.model.event import EventKind
from busbw.model.hunt import BY_NIC
from busbw.world.identity import identify

if TYPE_CHECKING:
    from busbw.settings.hunt import HuntSettings
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

_WORDS: Final = {ExitCode.OK: "healthy", ExitCode.BAD_VERDICT: "slow", ExitCode.UNDECIDED: "undecided"}


@dataclass(frozen=True)
class _ByNic:
    """A hunt by a NIC; ``document`` is what it printed for a program."""

    nic: str
    hunted: Hunted
    document: str

    @property
    def who(self) -> str:
        """Who is slow, or was lost."""
        lost = [f"{finding.host} (lost)" for finding in self.hunted.rest.lost]
        return ", ".join([*self._slow, *lost]) or "-"

    @property
    def _slow(self) -> list[str]:
        """Hosts, and pairs of hosts of which the path is slow."""
        verdicts = (item["hunt"] for item in self.hunted.heard if item["event"] == EventKind.VERDICT)
        fields = [field for verdict in verdicts for field in verdict.get("fields", ())]
        return [" - ".join(suspect["names"]) for field in fields for suspect in field["suspects"]]

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.hunted.code is ExitCode.BAD_VERDICT and not self._slow:
            return "host lost"
        return _WORDS.get(self.hunted.code, f"failed ({int(self.hunted.code)})")


def hunt_each(
    own: HuntSettings, settings: RunSettings, launch: LaunchSettings, argv: tuple[str, ...]
) -> ExitCode:
    """A launch of its own for each NIC: libraries read their variables once, when they start. Whoever is lost
    is left out of the hunts that follow. Raises UsageError.
    """
    nics = read_nics(own.each_nic)
    _refuse(own.each_nic, launch)
    rest = Rest(settings, launch)
    done: list[_ByNic] = []
    for nic in nics:
        print(f"by {nic}, {len(done) + 1} of {len(nics)} NICs", file=sys.stderr, flush=True)
        variables = {**confining(nic, settings.backend), BY_NIC: nic}
        words = (f"{name}={value}" for name, value in variables.items())
        confined = Rest(
            replace(settings, hunt=replace(own, each_nic=nic).to_word("isolate")),
            replace(rest.launch, env=(*launch.env, *words)),
            rest.lost,
            must_meet=True,
        )
        document = io.StringIO()
        is_document = settings.format in DOCUMENTS and not settings.dry_run
        with last_document(document) if is_document else nullcontext(lambda: sys.stdout) as out:
            hunted = hunt_on("isolate", confined, argv, out)
        rest = hunted.rest
        done.append(_ByNic(nic, hunted, document.getvalue()))
        if hunted.code is ExitCode.INTERRUPTED:
            break
    if not settings.dry_run:
        _tell(done, settings.format)
    return _worst([each.hunted.code for each in done])


def _refuse(text: str, launch: LaunchSettings) -> None:
    """Where no NIC could be told from another. Raises UsageError."""
    flag = f"--each-nic {text}"
    if launch.on is None:
        identity = identify(os.environ)
        if identity is not None:
            raise UsageError(
                f"{flag} starts ranks once for each NIC, and {identity.launcher} has started these",
                hint="set one NIC's variables there, and start it once for each",
            )
        raise UsageError(
            f"{flag}: ranks of one host reach each other through its memory or NVLink, by no NIC",
            hint="hunt among hosts: add --on hosts --hosts a,b,c,d",
        )
    hosts = len({place.host for place in read_places(launch)}) if launch.hosts or launch.hostfile else 0
    if launch.nodes == "1" or hosts == 1:
        raise UsageError(
            f"{flag}: ranks of one host reach each other through its memory or NVLink, by no NIC",
            hint="give several hosts; it takes four to tell which one is slow",
        )
    if launch.detach:
        raise UsageError(
            f"{flag} --detach: a hunt begins when the one before it has ended", hint="leave --detach out"
        )


def _tell(done: list[_ByNic], format_name: str) -> None:
    """The table, below what the hunts said; for a program one document of all."""
    if format_name == "json":
        hunts = [
            {
                "nic": each.nic,
                "verdict": each.verdict,
                "exit_code": int(each.hunted.code),
                "record": json.loads(each.document) if each.document else None,
            }
            for each in done
        ]
        print(json.dumps({"each_nic": hunts}, indent=1))
    rows = [("NIC", "verdict", "who"), *((each.nic, each.verdict, each.who) for each in done)]
    width, wide = (max(len(row[at]) for row in rows) for at in (0, 1))
    with nullcontext() if format_name == "table" else redirect_stdout(sys.stderr):
        for nic, verdict, who in rows:
            print(f"# {nic:<{width}}  {verdict:<{wide}}  {who}")


def _worst(codes: list[ExitCode]) -> ExitCode:
    """A hunt that failed, else a slow part, else one that could not decide."""
    order = (ExitCode.OK, ExitCode.UNDECIDED, ExitCode.BAD_VERDICT)
    return max(codes, key=lambda code: order.index(code) if code in order else int(code))
