"""The engines: a row each, and all that the rest of busbw must know of one beside its module's functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal


@dataclass(frozen=True)
class EngineRow:
    """``module`` has the functions of ``launch.engine.Engine``. With ``runs_series`` it has those of
    ``SeriesEngine``; else each launch of a series is a run of its own.
    """

    module: str
    runs_series: bool = False
    check: str = ""  # the module with ``check``, where ``module`` needs an extra
    forgets: bool = False  # it deletes what a job printed together with the job: that is read before
    asks: bool = False  # its cancel asks the ranks to end: those that do not are killed by who follows
    shares: bool = False  # its nodes usually share a file system with the host that submits


# Name on the command line -> row.
ENGINES: Final[dict[str, EngineRow]] = {
    "hosts": EngineRow("busbw.launch.hosts.engine"),
    "slurm": EngineRow("busbw.launch.slurm.engine", runs_series=True, asks=True, shares=True),
    "kubernetes": EngineRow(
        "busbw.launch.kubernetes.engine",
        runs_series=True,
        check="busbw.launch.kubernetes.form",
        forgets=True,
    ),
    "pbs": EngineRow("busbw.launch.pbs.engine", runs_series=True, shares=True),
}
# Key of --set -> the field of LaunchSettings that says the same.
FORM_FLAGS: Final = {"slots": "ranks_per_node", "replicas": "nodes", "image": "image"}
if TYPE_CHECKING:
    EngineName = str
else:  # what the command line takes
    EngineName = Literal[tuple(ENGINES)]
