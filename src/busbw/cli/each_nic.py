"""``busbw isolate --each-nic``: one hunt after the other, in each of which the library has one NIC."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from typing import Final

from busbw.cli.app import RunCommand
from busbw.cli.isolate import DOCUMENTS, Hunted, hunt_on, last_document
from busbw.errors import ExitCode, UsageError
from busbw.launch.hosts.list import read_places
from busbw.machine.nics import is_rdma_name
from busbw.model.event import EventKind
from busbw.model.hunt import BY_NIC
from busbw.plan.flags.launch import LaunchSettings
from busbw.rank.world.identity import identify
from busbw.report.console import print_lines
from busbw.report.fields import aligned

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
        lost = [f"{finding.host} (lost)" for finding in self.hunted.lost]
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


def hunt_each(command: RunCommand) -> ExitCode:
    """A launch of its own for each NIC: libraries read their variables once, when they start. Whoever is lost
    is left out of the hunts that follow. Raises UsageError.
    """
    settings, launch, own = command.settings, command.launch, command.settings.hunt
    assert own is not None
    nics = read_nics(own.each_nic)
    _refuse(own.each_nic, launch)
    done: list[_ByNic] = []
    for nic in nics:
        print(f"by {nic}, {len(done) + 1} of {len(nics)} NICs", file=sys.stderr, flush=True)
        variables = {**confining(nic, settings.backend), BY_NIC: nic}
        words = (f"{name}={value}" for name, value in variables.items())
        confined = replace(
            command,
            settings=replace(settings, hunt=replace(own, each_nic=nic)),
            launch=replace(command.launch, env=(*launch.env, *words)),
        )
        document = io.StringIO()
        is_document = settings.format in DOCUMENTS and not settings.dry_run
        with last_document(document) if is_document else nullcontext(lambda: sys.stdout) as out:
            hunted = hunt_on(confined, out, must_meet=True)
        command = hunted.last
        done.append(_ByNic(nic, hunted, document.getvalue()))
        if hunted.code is ExitCode.INTERRUPTED:
            break
    if not settings.dry_run:
        _tell(done, settings.format)
    # A hunt that failed, else a slow part, else one that could not decide.
    order = (ExitCode.OK, ExitCode.UNDECIDED, ExitCode.BAD_VERDICT)
    codes = [each.hunted.code for each in done]
    return max(codes, key=lambda code: order.index(code) if code in order else int(code))


def _refuse(text: str, launch: LaunchSettings) -> None:
    """Where no NIC could be told from another. Raises UsageError."""
    flag = f"--each-nic {text}"
    if launch.on is None:
        identity = identify(os.environ)
        if identity is not None:
            raise UsageError(
                f"{flag} starts ranks once per NIC, but {identity.launcher} already started these",
                hint="start the launcher once per NIC, with the variables of that NIC",
            )
        hint = "test several hosts: add --on hosts --hosts a,b,c,d"
        raise UsageError(f"{flag}: ranks on one host do not use a NIC", hint=hint)
    hosts = len({place.host for place in read_places(launch)}) if launch.hosts or launch.hostfile else 0
    if launch.nodes == "1" or hosts == 1:
        hint = "give four hosts or more; fewer cannot show which one is slow"
        raise UsageError(f"{flag}: ranks on one host do not use a NIC", hint=hint)
    if launch.detach:
        raise UsageError(
            f"{flag} cannot run detached: it starts one hunt after another", hint="leave --detach out"
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
    with nullcontext() if format_name == "table" else redirect_stdout(sys.stderr):
        print_lines(f"# {line}" for line in aligned(rows))


# ---- the variables that confine a library to one NIC of every host: a row for each library -------------


_OF_LIBFABRIC: Final = re.compile(r"(efa_\d+|rdmap\w+|cxi\d+)(:\d+)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@-]*(:\d+)?")


@dataclass(frozen=True)
class _Row:
    """What a library is told of an RDMA device and of an Ethernet interface; ``{nic}`` is its name,
    ``{port}`` that with its port.
    """

    backend: str
    verbs: Mapping[str, str]
    ethernet: Mapping[str, str]


_ROWS: Final[Mapping[str, _Row]] = {
    # Without "=" a name is a beginning of names: mlx5_1 would be mlx5_10 as well. Turning verbs off leaves a
    # plugin its devices; NCCL's own sockets by name do not.
    "NCCL": _Row(
        "nccl",
        {"NCCL_IB_HCA": "={nic}", "NCCL_IB_DISABLE": "0"},
        {"NCCL_SOCKET_IFNAME": "={nic}", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"},
    ),
    "UCX": _Row("mpi", {"UCX_NET_DEVICES": "{port}"}, {"UCX_NET_DEVICES": "{nic}"}),
    # Of its two ways, UCX's is for RDMA devices and its own for TCP.
    "Open MPI": _Row(
        "mpi", {"OMPI_MCA_pml": "ucx"}, {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "{nic}"}
    ),
}


def read_nics(text: str) -> tuple[str, ...]:
    """The names of --each-nic. Raises UsageError."""
    nics = tuple(word.strip() for word in text.split(",") if word.strip())
    if not nics or "all" in nics:
        raise UsageError(
            f"--each-nic {text}: name the NICs that collectives use",
            hint="give their names: --each-nic mlx5_0,mlx5_1 or eth0,eth1",
        )
    for nic in nics:
        if not _NAME.fullmatch(nic):
            raise UsageError(
                f"--each-nic: {nic!r} is not a NIC's name", hint="give names such as mlx5_0 or eth1"
            )
        if _OF_LIBFABRIC.fullmatch(nic):
            raise UsageError(
                f"--each-nic {nic}: libfabric cannot restrict NCCL or MPI to it",
                hint="leave it out; `busbw rails` compares the ranks on each NIC",
            )
        if nics.count(nic) > 1:
            raise UsageError(f"--each-nic names {nic} twice", hint="name each NIC once")
    return nics


def confining(nic: str, backend: str) -> dict[str, str]:
    """The variables that confine the libraries of a backend, or of all where that is not known yet."""
    is_verbs = is_rdma_name(nic)
    port = nic if ":" in nic else f"{nic}:1"
    rows = (row for row in _ROWS.values() if backend in (row.backend, "auto"))
    return {
        name: value.format(nic=nic, port=port)
        for row in rows
        for name, value in (row.verbs if is_verbs else row.ethernet).items()
    }
