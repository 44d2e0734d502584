"""A job on Slurm as it goes: its states, its output from wherever it is, and its end.

The output is in files of the run folder, or is read on the job's first node by a step beside it. srun
labels every line with its task, and cuts long ones: a task's output travels in messages of 1,024 bytes, each
of which gets a label and, if it has none, a line break (seen with 22.05). So a labelled part of exactly that
length is not the end of its line, and an event is whole when it is whole JSON.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw.errors import NotHome, SiteError
from busbw.launch import batch, engine
from busbw.launch.batch import SharedFiles
from busbw.launch.engine import Handle, Item, JobState, Look, Output, Phase
from busbw.launch.launcher_words import describe
from busbw.launch.scheduler import environ_outside_jobs
from busbw.launch.slurm import commands
from busbw.launch.slurm.commands import CANCELLED, FORGOTTEN, NODE_FAILED, cannot_start, failed_node
from busbw.launch.slurm.script import NODE_FILES
from busbw.launch.verdict import first_of_srun
from busbw.rank.world.slurm_text import expand_hosts

# What a node's daemon says comes with the task's label.
_STEP_DAEMON: Final = "slurmstepd"
# What the loop of a series prints, each line behind its launch's number.
_OF_LAUNCH: Final = "@"
_TICK_SECONDS: Final = 0.1
# How often the controller is asked.
_FIRST_LOOK_SECONDS: Final = 0.5
_LAST_LOOK_SECONDS: Final = 10.0
# How long to wait for the output in the run folder before the job's first node is asked for it, again and
# again: there may be nothing yet, or over NFS the folder may look empty for a while.
_READER_SECONDS: Final = 1.0
_READER_TRIES: Final = 10
# How long output may trail the job's end, and a job's end its script's.
_TRAIL_SECONDS: Final = 5.0
_END_SECONDS: Final = 5.0
# How long a small job waits for output, and for its node to be free.
_FETCH_SECONDS: Final = 30.0
_WAIT_SECONDS: Final = 20
# In log/ of the run folder: the job's nodes as Slurm lists them; the script runs on the first. Slurm knows
# them for a few minutes after the job's end (MinJobAge); then only its accounting does, where a site has it.
_NODES: Final = "nodes"


_MESSAGE_BYTES: Final = 1024
_LABEL: Final = re.compile(rb" *(\d+): (.*)", re.DOTALL)
_EVENT_START: Final = b'{"busbw":'
_CHUNK_BYTES: Final = 1 << 20

# Runs on the job's first node with the names of its two output files. It ends when nobody listens any more;
# when everything was read, it removes them, which is what the job script waits for.
_NOTHING_THERE: Final = 3
_READER: Final = f"""
[ -e "$1" ] || exit {_NOTHING_THERE}
tail -c +1 -f -- "$1" 2>/dev/null | sed -u 's/^/O/' &
tail -c +1 -f -- "$2" 2>/dev/null | sed -u 's/^/E/' &
read -r said && [ "$said" = "all read" ] && rm -f -- "$1" "$2"
trap '' TERM
kill 0
exit 0
"""


def kept_nodes(folder: Path) -> tuple[str, ...]:
    """The nodes of a run's job in Slurm's order; empty where no follower has seen them yet."""
    file = folder / "log" / _NODES
    return tuple(file.read_text().split()) if file.is_file() else ()


def _find_nodes(handle: Handle, folder: Path) -> tuple[str, ...]:
    """As ``kept_nodes``; asks Slurm, and keeps its answer. Raises SiteError where Slurm is silent."""
    if kept := kept_nodes(folder):
        return kept
    reading = commands.look(handle.id)
    found = expand_hosts(reading.nodes) if reading.state else commands.accounted_nodes(handle.id)
    if found:
        (folder / "log" / _NODES).write_text("\n".join((*found, "")))
    return found


class NodeReader(batch.Source):
    """A step on the job's first node that reads the files there; ``srun`` are the words that start it."""

    def __init__(self, srun: Sequence[str], out: str, err: str) -> None:
        self._process = subprocess.Popen(
            [*srun, "sh", "-c", _READER, "busbw-reader", out, err],
            env=environ_outside_jobs(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which decides what to end
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""

    def read(self) -> list[tuple[bool, bytes]]:
        """See batch.Source."""
        assert self._process.stdout is not None
        # Asked first: where it has ended, the rest is all there is.
        self.is_over = self._process.poll() is not None
        self.found_nothing = self._process.returncode == _NOTHING_THERE
        data = self._rest
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._process.stdout.fileno(), _CHUNK_BYTES):
                data += piece
        *lines, self._rest = data.split(b"\n")
        return [(line[:1] == b"E", line[1:]) for line in lines]

    def close(self, *, everything_read: bool) -> None:
        """See batch.Source."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            if everything_read:
                self._process.stdin.write(b"all read\n")
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Follower(batch.Follower):
    """Follows one job; ``ask`` gives its state."""

    _reader: LaunchReader

    def __init__(self, handle: Handle, folder: Path, ask: Callable[[], JobState]) -> None:
        look = Look(ask, handle.id, first_s=_FIRST_LOOK_SECONDS, last_s=_LAST_LOOK_SECONDS)
        super().__init__(look, LaunchReader(), None, _TRAIL_SECONDS)
        self._handle, self._folder = handle, folder
        self._files = tuple(folder / "log" / f"slurm-{handle.id}.{suffix}" for suffix in ("out", "err"))
        self._kept = tuple(name.format(name=handle.name, job=handle.id) for name in NODE_FILES)
        self._nodes: tuple[str, ...] = ()  # as Slurm has them: the job script runs on the first
        self._tries, self._next_try_s = 0, time.monotonic() + _READER_SECONDS
        self._lost = ""  # where nothing of the output was found

    # ---- where the output is -------------------------------------------------------------------------------

    def _open(self) -> None:
        """Find the output once the job runs; the files in the run folder are there first, where they are."""
        phase = self._last.phase
        if isinstance(self._source, SharedFiles) or phase is Phase.PENDING:
            return
        if not self._nodes:
            with contextlib.suppress(SiteError):
                self._nodes = _find_nodes(self._handle, self._folder)
        if self._files[0].exists():
            self._close(everything_read=False)
            self._source = SharedFiles(*self._files)
        elif self._source is None and phase is Phase.RUNNING and time.monotonic() > self._next_try_s:
            self._next_try_s = time.monotonic() + _READER_SECONDS
            if self._tries < _READER_TRIES and self._nodes:
                self._tries += 1
                self._start_reader(f"--jobid={self._handle.id}", "--overlap")

    def _start_reader(self, *words: str) -> None:
        """A step of the job, or a job of its own, on the node where the job's script runs or ran."""
        self._close(everything_read=False)
        alone = ("--nodes=1", "--ntasks=1", "--mpi=none", f"--nodelist={self._nodes[0]}")
        self._source = NodeReader(("srun", "--quiet", *words, *alone), *self._kept)
        self._reader = LaunchReader(said=self._reader.said)
        self._codes.clear()
        self._found_nothing = False

    # ---- the end -------------------------------------------------------------------------------------------

    def _rest(self) -> Iterator[Item]:
        """What trails the job's end. Raises NotHome where it is on a node that cannot be asked now."""
        if self._files[0].exists() or self._is_whole:
            self._source = self._source or SharedFiles(*self._files)
            yield from super()._rest()
            return
        yield from self._read()
        if not self._is_whole:
            yield from self._fetch()

    def _fetch(self) -> Iterator[Item]:
        """The output from the node that kept it, by a small job there, which ends at once where the node
        stays busy. Raises NotHome.
        """
        handle, out = self._handle, self._kept[0]
        self._nodes = self._nodes or _find_nodes(handle, self._folder)
        if not self._nodes:
            if self._last.why == FORGOTTEN:
                self._lost = f"Slurm has forgotten the job and its nodes: its output is in {out} of the first"
            return
        node, chosen = self._nodes[0], [name for name in ("partition", "account") if handle.details[name]]
        place = (f"--{name}={handle.details[name]}" for name in chosen)
        name = f"--job-name={handle.name}-read"
        self._start_reader("--time=5", f"--immediate={_WAIT_SECONDS}", name, *place)
        yield from self._read_on(_FETCH_SECONDS)
        if self._is_whole:
            return
        # What a node that is down kept may never be read, where it is the reason of the job's end.
        is_node_failure = bool(failed_node(self._reader.said)) or self._last.why == NODE_FAILED
        if not self._found_nothing and not (is_node_failure and commands.is_down(node)):
            raise NotHome(
                f"job {handle.id} has ended, and its output is still on {node} ({out} and .err), but"
                " Slurm would not start a job there to read it",
                hint=f"try again once the node is free: busbw attach {self._folder.name}",
            )
        if self._found_nothing:
            self._lost = f"no output was found at {node}:{out}"

    def _end(self, state: JobState) -> JobState:
        """By the script's own word, by Slurm's, and by what srun said of a rank or node."""
        code, deadline_s = self._codes.get(False), time.monotonic() + _END_SECONDS
        while code != 0 and self._last.phase is not Phase.ENDED and time.monotonic() < deadline_s:
            time.sleep(_TICK_SECONDS)
            self._look.now(due=True)
            state = self._end_seen()
        if code == 0:
            return replace(state, why="", hint="", code=0)
        if code is None and (self._lost or state.code == 0):
            return self._without_end(state)
        if code is not None:  # the script itself has told
            state = replace(state, code=code, why="" if state.why == FORGOTTEN else state.why)
        is_busbw = not self._handle.details.get("command")
        return with_cause(state, self._reader.said, self._nodes, is_busbw=is_busbw)

    def _without_end(self, state: JobState) -> JobState:
        """The script's own word is missing, and with it what it printed: Slurm's exit code tells nothing."""
        why = self._lost or f"its output in {self._files[0]} is incomplete"
        if state.why and state.why != FORGOTTEN:
            why = f"{state.why}, and {why}"
        hint = state.hint or "run it again; the job's files in /tmp must stay until busbw has read them"
        return replace(state, why=why, hint=hint, code=None, host="".join(self._nodes[:1]))


# ---- what it prints and means --------------------------------------------------------------------------


def with_cause(state: JobState, words: Sequence[str], nodes: Sequence[str], *, is_busbw: bool) -> JobState:
    """The end of a job or launch with why and where it failed, as far as Slurm's ``words`` say. Pure."""
    death = first_of_srun(words, is_busbw=is_busbw)
    host = death.host if death is not None else "".join(nodes[:1])
    why, hint = cannot_start(words)
    if why:
        return replace(state, why=why, hint=hint, host=host)
    if node := failed_node(words):
        hint = "look at that node (scontrol show node); what was finished is in the record"
        return replace(state, why=f"node {node} failed", hint=hint, host=node)
    if state.why == CANCELLED:  # by the user, elsewhere, as far as anybody knows
        return state
    if state.out_of_time and not is_busbw:  # the code is that of its tasks, which Slurm ended
        return replace(state, code=None, host=host)
    if state.why or death is None or death.code is None:
        return replace(state, host=host if state.why else "")
    found = replace(state, why=describe(death.code), rank=death.rank, host=death.host)
    if is_busbw:
        return found
    # srun ends with the highest code of all, those of the tasks that it ended too.
    return replace(found, code=death.code if death.code > 0 else 128 - death.code)


class Joiner:
    """Puts cut lines together again, for one stream."""

    def __init__(self) -> None:
        self._open: dict[int, bytes] = {}

    def take(self, line: bytes) -> tuple[int | None, bytes] | None:
        """The task (None: the job script or srun) and its line, or None where its end is still to come."""
        match = _LABEL.fullmatch(line)
        if match is None:
            return None, line
        task, part = int(match[1]), match[2]
        begun = self._open.pop(task, b"")
        whole = part if part.startswith(_EVENT_START) else begun + part  # it died within a line
        if len(part) == _MESSAGE_BYTES or _is_cut_event(whole):
            self._open[task] = whole
            return None
        return task, whole

    def rest(self) -> list[tuple[int, bytes]]:
        """What has no end where the stream has one: a task's last line may lack its line break. The beginning
        of an event is left out.
        """
        found = [(task, line) for task, line in self._open.items() if not line.startswith(_EVENT_START)]
        self._open.clear()
        return found


def _is_cut_event(line: bytes) -> bool:
    """Where a version of Slurm cuts elsewhere, an event still tells: it ends with its closing brace."""
    return line.startswith(_EVENT_START) and not line.endswith(b"}")


class LaunchReader(engine.LaunchReader):
    """See ``engine.LaunchReader``: srun's labels are read, and cut lines put together. ``nodes`` are those of
    the job; ``said`` is what srun and the job script printed.
    """

    def __init__(self, nodes: Sequence[str] = (), said: Sequence[str] = ()) -> None:
        self._nodes = nodes
        self._joiners = {False: Joiner(), True: Joiner()}
        self.said = list(said)

    def take(self, line: bytes, *, is_error: bool) -> Iterator[Output]:
        """See engine.LaunchReader."""
        taken = self._joiners[is_error].take(line)
        if taken is None:
            return
        task, text = taken[0], taken[1].decode(errors="replace")
        is_own = task is None and not text.startswith(_OF_LAUNCH)
        if is_own or text.startswith(_STEP_DAEMON):
            self.said.append(text)
        yield Output(text, "" if task is None else f"task {task}", is_error)

    def rest(self) -> Iterator[Output]:
        """See engine.LaunchReader."""
        for is_error, joiner in self._joiners.items():
            for task, line in joiner.rest():
                yield Output(line.decode(errors="replace"), f"task {task}", is_error)

    def end(self, code: int | None) -> JobState:
        """See engine.LaunchReader."""
        state = JobState(Phase.ENDED, code=code)
        return state if code == 0 else with_cause(state, self.said, self._nodes, is_busbw=True)
