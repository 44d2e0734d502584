"""What jobs of schedulers (Slurm, PBS) have in common: parts of their scripts, and how a job is followed to
the mark that ends its script's output.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.launch.command import HOSTS
from busbw.launch.engine import Item, Job, JobState, LaunchReader, Look, Output, Phase

# The last line of a job's output, behind no task's label, so that no rank can write it.
END_MARK: Final = "busbw: job script ended, exit code "
_TICK_SECONDS: Final = 0.1
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


class Source:
    """Where a job's output is read. ``is_over``: the last reading was all there is; ``found_nothing``: since
    there is no output where it looked.
    """

    is_over = found_nothing = False

    def read(self) -> list[tuple[bool, bytes]]:
        """New lines, as (is_error, line without its line break); empty where there are none yet."""
        raise NotImplementedError

    def close(self, *, everything_read: bool) -> None:
        """Nobody reads any more."""


class SharedFiles(Source):
    """A job's files in the run folder: its output, its errors, and again where they may be at two places.
    Each file is opened anew: over NFS that is when new data are asked for.
    """

    def __init__(self, *files: Path) -> None:
        self._files = tuple((number % 2 == 1, path) for number, path in enumerate(files))
        self._offsets = dict.fromkeys(files, 0)

    def read(self) -> list[tuple[bool, bytes]]:
        """See Source."""
        found = []
        for is_error, path in self._files:
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self._offsets[path])
                whole, line_break, _ = file.read().rpartition(b"\n")
                if line_break:
                    self._offsets[path] += len(whole) + 1
                    found += [(is_error, line) for line in whole.split(b"\n")]
        return found


class Follower:
    """Follows a job from its first line to its end. ``trail_s``: how long its output may trail the job."""

    def __init__(self, look: Look, reader: LaunchReader, source: Source | None, trail_s: float) -> None:
        self._look, self._reader, self._source, self._trail_s = look, reader, source, trail_s
        self._found_nothing = False  # the last source, where it looked
        self._codes: dict[bool, int] = {}  # is_error -> the script's exit code, at that stream's end

    @property
    def _last(self) -> JobState:
        """The last state that is known."""
        return self._look.last or JobState(Phase.PENDING)

    @property
    def _is_whole(self) -> bool:
        return len(self._codes) == 2

    def items(self) -> Iterator[Item]:
        """See Engine.follow."""
        try:
            while True:
                state = self._look.now()
                if state is not None and state.phase is not Phase.ENDED:
                    yield state
                self._open()
                moved = False
                for item in self._read():
                    moved = True
                    yield item
                if self._is_whole or self._last.phase is Phase.ENDED:
                    break
                yield None
                if not moved:
                    time.sleep(_TICK_SECONDS)
            yield from self._rest()
            yield from self._reader.rest()
            yield self._end(self._end_seen())
        finally:
            self._close(everything_read=self._is_whole)

    def _open(self) -> None:
        """Find the output, where its place is not known from the start."""

    def _read(self) -> Iterator[Output]:
        source = self._source
        if source is None:
            return
        for is_error, line in source.read():
            if line.startswith(END_MARK.encode()):
                self._codes[is_error] = int(line.removeprefix(END_MARK.encode()))
            else:
                yield from self._reader.take(line, is_error=is_error)
        if source.is_over:
            self._close(everything_read=False)

    def _rest(self) -> Iterator[Item]:
        """What trails the job's end."""
        return self._read_on(self._trail_s)

    def _read_on(self, patience_s: float) -> Iterator[Item]:
        """Read to the end; not longer than that without a line."""
        deadline_s = time.monotonic() + patience_s
        while not self._is_whole and self._source is not None and time.monotonic() < deadline_s:
            for item in self._read():
                deadline_s = time.monotonic() + patience_s
                yield item
            yield None
            time.sleep(_TICK_SECONDS)
        yield from self._read()

    def _end_seen(self) -> JobState:
        return self._last if self._last.phase is Phase.ENDED else JobState(Phase.ENDED)

    def _end(self, state: JobState) -> JobState:
        """How it ended; ``state`` is the scheduler's word, where it has said it."""
        raise NotImplementedError

    def _close(self, *, everything_read: bool) -> None:
        if self._source is not None:
            self._found_nothing = self._source.found_nothing
            self._source.close(everything_read=everything_read)
            self._source = None
