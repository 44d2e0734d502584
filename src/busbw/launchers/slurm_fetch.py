"""Where a job's output lies once the job has ended and nobody read it: on the node that ran its script.

Slurm knows that node for a few minutes (MinJobAge) and then only its accounting does, which not every site
has. So whoever sees it first keeps it in the run folder; else the nodes are asked one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from busbw.errors import NotHome
from busbw.launchers import slurm_commands as commands
from busbw.launchers.engine import Handle

# How long a small job waits for the node to be free, and for output; and where the node is only a guess.
FETCH_SECONDS: Final = 30.0
_WAIT_SECONDS: Final = 20
_GUESS_SECONDS: Final = 3
# In log/ of the run folder: the job's nodes as Slurm lists them; the script runs on the first.
_KEPT: Final = "job-nodes"


def fetch_words(handle: Handle, *, is_sure: bool) -> tuple[str, ...]:
    """Srun's words for a small job of its own, which ends at once where the node stays busy."""
    chosen = tuple(
        f"--{name}={handle.details[name]}" for name in ("partition", "account") if handle.details.get(name)
    )
    wait_s = _WAIT_SECONDS if is_sure else _GUESS_SECONDS
    return ("--time=5", f"--immediate={wait_s}", f"--job-name={handle.name}-read", *chosen)


class Keepers:
    """The nodes that may have the output of a job."""

    def __init__(self, handle: Handle, folder: Path) -> None:
        self._handle, self._file = handle, folder / "log" / _KEPT
        self._name = folder.name
        self._never_ran = False  # Slurm knows the job, and it got no node

    def nodes(self) -> tuple[str, ...]:
        """The job's nodes, as far as they are known anywhere. Raises SiteError where Slurm is silent."""
        if self._file.is_file():
            return tuple(self._file.read_text().split())
        if held := self._handle.details.get("step_of"):
            reading = commands.look(held)
        else:
            reading = commands.look_for(self._handle.id, self._handle.name)
        found = commands.host_names(reading.nodes)
        self._never_ran = bool(reading.state) and not found
        if not reading.state:
            found = commands.accounted_nodes(self._handle.id, self._handle.name)
        if found:
            self._file.write_text("\n".join((*found, "")))
        return found

    def candidates(self) -> tuple[str, ...]:
        """The node that has the output, where it is known, else all that may. Raises SiteError."""
        found = self.nodes()
        if found or self._never_ran:
            return found[:1]
        return commands.all_nodes(self._handle.details.get("partition", ""))

    def searching(self, places: Sequence[str]) -> str:
        """What to tell while all of them are asked."""
        return f"Slurm has forgotten its nodes: looking for its output on {len(places)} nodes"

    def nothing_at(self, nodes: Sequence[str]) -> str:
        """What to say of output that none of these nodes has."""
        where = nodes[0] if len(nodes) == 1 else f"any of {', '.join(nodes)}"
        base = f"/tmp/{self._handle.name}-{self._handle.id}"
        return f"nothing of its output was found at {where}:{base}.out"

    def not_home(self, nodes: Sequence[str]) -> NotHome:
        """The error of output that is on one of these nodes, which could not be asked."""
        base = f"/tmp/{self._handle.name}-{self._handle.id}"
        where = nodes[0] if len(nodes) == 1 else f"one of {', '.join(nodes)}"
        return NotHome(
            f"job {self._handle.id} has ended, and its output is still on {where} ({base}.out and .err),"
            " which took no job to read it",
            hint=f"try again once the node is free: busbw attach {self._name}",
        )
