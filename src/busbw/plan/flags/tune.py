"""Settings of ``busbw tune``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Ranged

_TUNING: Final = Group("Tuning", sort_key=0)
Form = Literal["nccl-csv", "rccl-csv", "nccl-conf", "env"]


@Parameter(name="*")
@dataclass(frozen=True)
class TuneSettings(Ranged):
    """How winners are confirmed, and what is written."""

    blocks: Annotated[
        int,
        Between(0, 100),
        Parameter(
            group=_TUNING,
            help="Fresh launches a side, in turn, that confirm a winner; 0: none.",
        ),
    ] = 3
    knobs: Annotated[
        Path | None,
        Parameter(
            group=_TUNING,
            show_default=False,
            help="Try the variables of this YAML file, by launches: a line each, as NAME: [value, value].",
        ),
    ] = None
    emit: Annotated[
        Form | None,
        Parameter(
            group=_TUNING,
            show_default=False,
            help="Write what an earlier tuning confirmed, in this form.",
        ),
    ] = None
    output: Annotated[
        Path | None,
        Parameter(group=_TUNING, show_default=False, help="The file to write. [default: print it]"),
    ] = None
    plugin: Annotated[
        bool, Parameter(group=_TUNING, help="Print the path of the tuner plugin, for NCCL_TUNER_PLUGIN.")
    ] = False
