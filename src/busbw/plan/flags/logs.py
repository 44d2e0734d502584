"""The settings of ``busbw import``: one model, from which flags and help are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from busbw.plan.flags.names import NameSettings
from busbw.plan.flags.values import Between

_READ = Group("Reading", sort_key=1)
_LABELS = Group("Labels", sort_key=2)
_OUTPUT = Group("Output", sort_key=3)

LogFormat = Literal["auto", "nccl-tests", "rccl-tests", "nccom-test", "osu", "imb"]


@Parameter(name="*")
@dataclass(frozen=True)
class ImportSettings(NameSettings):
    """What the user says about logs; empty and None are nothing."""

    format: Annotated[
        LogFormat,
        Parameter(group=_READ, help="Read the logs as those of this tool; auto recognises each table."),
    ] = "auto"
    op: Annotated[
        str,
        Parameter(group=_READ, show_default=False, help="Operation, even if a log names another."),
    ] = ""
    ranks: Annotated[
        int | None,
        Between(1),
        Parameter(group=_READ, help="Number of ranks, even if a log or its rows show another."),
    ] = None
    table: Annotated[
        str,
        Parameter(
            group=_READ, show_default=False, help="Only these tables of each log, counted from 1: 2 or 1,3."
        ),
    ] = ""
    labels: Annotated[
        str,
        Parameter(
            group=_LABELS,
            show_default=False,
            help="Pattern of paths with a {name} for each label: 'n{nodes}/{test}_{setup}.log'.",
        ),
    ] = ""
    setup: Annotated[str, Parameter(group=_LABELS, show_default=False, help="Setup of these logs.")] = ""
    nodes: Annotated[int | None, Between(1), Parameter(group=_LABELS, help="Nodes that took part.")] = None
    system: Annotated[str, Parameter(group=_LABELS, show_default=False, help="Name of the system.")] = ""
    library_version: Annotated[
        str, Parameter(group=_LABELS, show_default=False, help="Version of the library that was measured.")
    ] = ""
    dry_run: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, group=_OUTPUT, help="Print what would be imported, then stop."
        ),
    ] = False
