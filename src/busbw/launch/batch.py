"""What jobs of schedulers (Slurm, PBS) have in common: parts of their scripts, and the files they write."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.launch.command import HOSTS
from busbw.launch.engine import Job

# The last line of a job's output, behind no task's label, so that no rank can write it.
END_MARK: Final = "busbw: job script ended, exit code "
# Only the ranks of this job know it: it makes the control channel's key.
TOKEN: Final = 'BUSBW_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d " \\n") && export BUSBW_TOKEN\n'

# Whether this node sees the run folder.
_IS_SHARED: Final = '[ "$(cat -- "$run_folder/request/ticket" 2>/dev/null)" = {run_id} ]'
_FINISH: Final = """\
finish() {{
  code=$?
{first}  echo "{mark}$code"
  echo "{mark}$code" >&2
{last}  exit "$code"
}}
trap : TERM  # the ranks end first, and this script says how
trap finish EXIT
"""

# The loop of a series is a child of the script, which passes the job's end on to it.
_LOOP: Final = """\
for python in {pythons} python3 /usr/bin/python3; do
  if command -v "$python" >/dev/null 2>&1; then break; fi
done
"$python" {words} &
loop=$!
trap 'kill -TERM "$loop" 2>/dev/null' TERM
while :; do
  wait "$loop"
  code=$?
  if ! kill -0 "$loop" 2>/dev/null; then break; fi
done
exit "$code"
"""
# For a command of the user's (``command.py``): where its ranks can meet, at a port that this job alone is
# likely to use.
MEET: Final = f"""\
MASTER_ADDR=${{{HOSTS}%%:*}} MASTER_PORT=$((20000 + RANDOM % 10000))
export {HOSTS} MASTER_ADDR MASTER_PORT
"""


class Text(str):
    """Shell text that stands among words as it is."""

    __slots__ = ()


def shell(words: Iterable[str]) -> str:
    """Words as shell text: all but Text is quoted."""
    return " ".join(word if isinstance(word, Text) else shlex.quote(word) for word in words)


@dataclass(frozen=True)
class Shape:
    """How many nodes and ranks a job has."""

    nodes: int
    ranks: int

    @property
    def per_node(self) -> int:
        """The most ranks of a node."""
        return -(-self.ranks // self.nodes)

    @property
    def is_even(self) -> bool:
        """Whether every node has as many."""
        return not self.ranks % self.nodes


def is_shared(job: Job) -> str:
    """Shell text that succeeds where this node sees the run folder, which is ``$run_folder``."""
    return _IS_SHARED.format(run_id=shlex.quote(job.folder.rpartition("/")[2]))


def finish(first: str = "", last: str = "") -> str:
    """The part of a script that marks the end of its output; ``first`` and ``last`` are lines of its own in
    its last act.
    """
    return _FINISH.format(first=first, last=last, mark=END_MARK)


def loop(pythons: Sequence[str], words: Sequence[str]) -> str:
    """The part of a script that executes the first of ``pythons`` (shell text) that is there."""
    return _LOOP.format(pythons=" ".join(pythons), words=shlex.join(words))


class SharedFiles:
    """A job's files in the run folder: its output, its errors, and again where they may be at two places."""

    has_ended = False  # whether no more lines will come than ``read`` finds now
    found_nothing = False  # whether it has ended because there is no output where it looked

    def __init__(self, *files: Path) -> None:
        self._files = tuple((number % 2 == 1, path) for number, path in enumerate(files))
        self._offsets = dict.fromkeys(files, 0)

    def read(self) -> list[tuple[bool, bytes]]:
        """New lines, as (is_error, line without its line break); empty where there are none yet. Each file is
        opened anew: over NFS that is when new data are asked for.
        """
        found = []
        for is_error, path in self._files:
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self._offsets[path])
                whole, line_break, _ = file.read().rpartition(b"\n")
                if line_break:
                    self._offsets[path] += len(whole) + 1
                    found += [(is_error, line) for line in whole.split(b"\n")]
        return found

    def close(self, *, everything_read: bool) -> None:
        """Nobody reads any more."""
