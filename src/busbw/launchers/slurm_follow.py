"""A job on Slurm as it goes: its states, its output from wherever it is, and its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from busbw.errors import SiteError
from busbw.launchers import slurm_bring, topology_slurm
from busbw.launchers import slurm_commands as commands
from busbw.launchers.engine import Handle, Item, JobState, Output, Phase
from busbw.launchers.slurm_fetch import FETCH_SECONDS, Keepers, fetch_words
from busbw.launchers.slurm_output import Joiner, NodeReader, SharedFiles, Source, node_of
from busbw.launchers.slurm_script import END_MARK
from busbw.launchers.slurm_state import (
    CANCELLED,
    FORGOTTEN,
    NODE_FAILED,
    cannot_execute,
    describe,
    failed_node,
    first_death,
    missing_plugin,
)
from busbw.launchers.topology import arranged

# What a node's daemon says comes with the task's label.
_STEP_DAEMON: Final = "slurmstepd"
_TICK_SECONDS: Final = 0.1
# The controller is asked often at first, and less the longer nothing changes: many users share it.
_FIRST_LOOK_SECONDS: Final = 0.5
_LAST_LOOK_SECONDS: Final = 10.0
# How long to wait for the output in the run folder before the job's first node is asked for it, again and
# again: there may be nothing yet, or over NFS the folder may look empty for a while.
_READER_SECONDS: Final = 1.0
_READER_TRIES: Final = 10
# How long output may trail the job's end, and a job's end its script's.
_TRAIL_SECONDS: Final = 5.0
_END_SECONDS: Final = 5.0
_CONTROLLER_SECONDS: Final = 120.0


class Look:
    """Asks for the state, not too often, and bears with a controller that is away for a while."""

    def __init__(self, ask: Callable[[], JobState]) -> None:
        self._ask = ask
        self._pause_s = _FIRST_LOOK_SECONDS
        self._next_s = 0.0
        self._answered_s = time.monotonic()
        self.last: JobState | None = None

    def now(self, *, due: bool = False) -> JobState | None:
        """The state, where it is time to ask (or ``due``) and it has changed."""
        if not due and time.monotonic() < self._next_s:
            return None
        found = self.last
        try:
            found = self._ask()
            self._answered_s = time.monotonic()
        except SiteError:
            if time.monotonic() - self._answered_s > _CONTROLLER_SECONDS:
                raise
        changed = found != self.last
        self._pause_s = _FIRST_LOOK_SECONDS if changed else min(self._pause_s * 1.3, _LAST_LOOK_SECONDS)
        self._next_s = time.monotonic() + self._pause_s
        self.last = found
        return found if changed else None


class Follower:
    """Follows one job from its first line to its end."""

    def __init__(self, handle: Handle, folder: Path, ask: Callable[[], JobState]) -> None:
        self._handle, self._log = handle, folder / "log"
        self._names = tuple(self._log / f"slurm-{handle.id}.{suffix}" for suffix in ("out", "err"))
        self._look = Look(ask)
        self._joiners = {False: Joiner(), True: Joiner()}
        self._nodes: tuple[str, ...] = ()  # as Slurm has them: the job script runs on the first
        self._ranked: tuple[str, ...] = ()  # as the ranks follow them
        self._said: list[str] = []  # by srun and the script itself
        self._source: Source | None = None
        self._copies: tuple[BinaryIO, BinaryIO] | None = None
        self._tries = 0
        self._next_try_s = time.monotonic() + _READER_SECONDS
        self._keepers = Keepers(handle, folder)
        self._found_nothing = False  # the last reader, where it looked
        self._lost = ""  # where nothing of the output was found
        self._codes: dict[bool, int] = {}  # is_error -> the script's exit code, at that stream's end

    def items(self) -> Iterator[Item]:
        """See Engine.follow."""
        try:
            while True:
                state = self._look.now()
                if state is not None and state.phase is not Phase.ENDED:
                    yield state
                self._open(self._look.last)
                moved = False
                for item in self._read():
                    moved = True
                    yield item
                if len(self._codes) == 2 or self._has_ended():
                    break
                yield None
                if not moved:
                    time.sleep(_TICK_SECONDS)
            yield from self._rest()
            yield from self._unended()
            yield self._end()
        finally:
            self._close(everything_read=len(self._codes) == 2)

    # ---- where the output is -------------------------------------------------------------------------------

    def _open(self, state: JobState | None) -> None:
        """Find the output once the job runs; the files in the run folder are there first, where they are."""
        if self._copies is not None or isinstance(self._source, SharedFiles):
            return
        if state is None or state.phase is Phase.PENDING:
            return
        if not self._nodes:
            self._find_nodes()
        if self._is_shared():
            self._close(everything_read=False)
            self._source = SharedFiles(*self._names)
        elif self._source is None and state.phase is Phase.RUNNING and time.monotonic() > self._next_try_s:
            self._next_try_s = time.monotonic() + _READER_SECONDS
            self._read_on_node()

    def _is_shared(self) -> bool:
        """The job writes to the run folder; what a follower copied there says so."""
        return self._names[0].exists() and not (self._log / "copied").exists()

    def _find_nodes(self) -> None:
        with contextlib.suppress(SiteError):
            self._nodes = self._keepers.nodes()
        count = int(self._handle.details["nodes"])
        known = self._handle.details.get(topology_slurm.DETAIL, "").split()
        self._ranked = arranged(self._nodes, known)
        if self._handle.details.get("step_of"):
            self._nodes, self._ranked = self._nodes[:count], self._ranked[:count]
        if self._nodes:
            (self._log / "nodes").write_text("\n".join((*self._ranked, "")))

    def _read_on_node(self) -> None:
        """Start the reader: a step of the job, on its first node."""
        if self._tries < _READER_TRIES and self._nodes:
            self._tries += 1
            self._start_reader((f"--jobid={self._handle.id}", "--overlap"), self._nodes[0])

    def _start_reader(self, words: tuple[str, ...], node: str) -> None:
        self._close(everything_read=False)
        alone = ("--nodes=1", "--ntasks=1", "--mpi=none", f"--nodelist={node}")
        base = f"/tmp/{self._handle.name}-{self._handle.id}"
        self._source = NodeReader(("srun", "--quiet", *words, *alone), f"{base}.out", f"{base}.err")
        self._joiners = {False: Joiner(), True: Joiner()}
        self._codes.clear()
        self._found_nothing = False

    # ---- output --------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Output]:
        source = self._source
        if source is None:
            return
        over = (
            isinstance(source, NodeReader) and source.has_ended
        )  # asked first: then the rest is all there is
        for is_error, line in source.read():
            self._copy(is_error, line)
            taken = self._joiners[is_error].take(line)
            if taken is None:
                continue
            task, text = taken[0], taken[1].decode(errors="replace")
            if task is None and text.startswith(END_MARK):
                self._codes[is_error] = int(text.removeprefix(END_MARK))
                continue
            if task is None or text.startswith(_STEP_DAEMON):
                self._said.append(text)
            if task is None and text == slurm_bring.ASKS and not self._has_ended():
                slurm_bring.send(self._handle, self._log.parent, self._nodes[0])
            yield Output(text, self._source_name(task), is_error)
        if over:
            self._found_nothing = isinstance(source, NodeReader) and source.found_nothing
            self._close(everything_read=False)

    def _unended(self) -> Iterator[Output]:
        """The last lines of tasks that did not end them."""
        for is_error, joiner in self._joiners.items():
            for task, line in joiner.rest():
                yield Output(line.decode(errors="replace"), self._source_name(task), is_error)

    def _copy(self, is_error: bool, line: bytes) -> None:
        """Keep in the run folder what came from a node."""
        if isinstance(self._source, SharedFiles):
            return
        if self._copies is None:
            (self._log / "copied").touch()
            out, err = self._names
            self._copies = out.open("wb"), err.open("wb")
        self._copies[is_error].write(line + b"\n")

    def _source_name(self, task: int | None) -> str:
        per_node = int(self._handle.details["per_node"])
        nodes = self._nodes if task is None else self._ranked
        return node_of(task, nodes, per_node) if per_node or task is None else f"task {task}"

    # ---- the end -------------------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        last = self._look.last
        return last is not None and last.phase is Phase.ENDED

    def _rest(self) -> Iterator[Item]:
        """What trails the job's end. Raises NotHome where it is on a node that cannot be asked now."""
        if self._is_shared() or len(self._codes) == 2:
            if self._source is None:
                self._source = SharedFiles(*self._names)
            yield from self._read_on(_TRAIL_SECONDS)
            return
        yield from self._read()
        if len(self._codes) < 2:
            yield from self._fetch()

    def _fetch(self) -> Iterator[Item]:
        """The output from the node that kept it, by a small job there."""
        places, closed = self._keepers.candidates(), []
        if len(places) > 1:
            yield JobState(Phase.RUNNING, self._keepers.searching(places))
        for node in places:
            self._start_reader(fetch_words(self._handle, is_sure=len(places) == 1), node)
            yield from self._read_on(FETCH_SECONDS)
            if len(self._codes) == 2:
                return
            if not self._found_nothing:
                closed.append(node)
        lost = closed and self._is_node_failure() and all(commands.is_down(node) for node in closed)
        if closed and not lost:
            raise self._keepers.not_home(closed)
        if self._copies is None and (self._log / "copied").exists():  # an earlier follower brought it all
            self._source = SharedFiles(*self._names)
            yield from self._read_on(_TRAIL_SECONDS)
        elif places and not closed:
            self._lost = self._keepers.nothing_at(places)

    def _is_node_failure(self) -> bool:
        """The job ended because of a node: what a node that is down kept may never be read."""
        last = self._look.last
        return bool(failed_node(self._said)) or (last is not None and last.why == NODE_FAILED)

    def _read_on(self, patience_s: float) -> Iterator[Item]:
        """Read to the end; not longer than that without a line."""
        deadline_s = time.monotonic() + patience_s
        while len(self._codes) < 2 and self._source is not None and time.monotonic() < deadline_s:
            for item in self._read():
                deadline_s = time.monotonic() + patience_s
                yield item
            yield None
            time.sleep(_TICK_SECONDS)
        yield from self._read()

    def _end(self) -> JobState:
        """How it ended: by the script's own word, by Slurm's, and by what srun said of a rank or node."""
        code = self._codes.get(False)
        state = self._look.last
        if code != 0:
            deadline_s = time.monotonic() + _END_SECONDS
            while not self._has_ended() and time.monotonic() < deadline_s:
                time.sleep(_TICK_SECONDS)
                self._look.now(due=True)
            state = self._look.last
        if state is None or state.phase is not Phase.ENDED:
            state = JobState(Phase.ENDED)
        if code == 0:
            return replace(state, why="", hint="", code=0)
        if code is not None and state.why == FORGOTTEN:  # the script itself has told
            state = replace(state, why="")
        if code is None and (self._lost or state.code == 0):
            return self._without_end(state)
        return self._with_cause(replace(state, code=state.code if code is None else code))

    def _without_end(self, state: JobState) -> JobState:
        """The script's own word is missing, and with it what it printed: Slurm's exit code tells nothing."""
        why = self._lost or f"its output has no end in {self._names[0]}"
        if state.why and state.why != FORGOTTEN:
            why = f"{state.why}, and {why}"
        hint = state.hint or "nothing may remove a job's files in /tmp before they were read; run it again"
        return replace(state, why=why, hint=hint, code=None, host="".join(self._nodes[:1]))

    def _with_cause(self, state: JobState) -> JobState:
        """Why and where it failed, as far as Slurm told."""
        is_busbw = not self._handle.details.get("command")
        death = first_death(self._said, is_busbw=is_busbw)
        host = death.host if death is not None else "".join(self._nodes[:1])
        words = self._said
        program, reason = cannot_execute(words)
        if program:
            why = f"its nodes cannot start {program} ({reason})"
            hint = "share that folder with the nodes, or give --python PATH or --image"
            return replace(state, why=why, hint=hint, host=host)
        if plugin := missing_plugin(words):
            why = f"srun has no working MPI plugin {plugin}"
            hint = "ask for libpmix on the nodes, or give another --mpi; --mpi none needs no plugin"
            return replace(state, why=why, hint=hint, host=host)
        if slurm_bring.UNSENT in words:
            why = "--bring: its nodes do not see the run folder, and no process was there to send them busbw"
            hint = "run it again, and let the process that --detach leaves here live until the job runs"
            return replace(state, why=why, hint=hint, host=host)
        if node := failed_node(words):
            hint = "look at that node (scontrol show node); what was finished is in the record"
            return replace(state, why=f"node {node} failed", hint=hint, host=node)
        if state.why == CANCELLED:  # by the user, elsewhere, as far as anybody knows
            return state
        if state.out_of_time and not is_busbw:  # the code is that of its tasks, which Slurm ended
            return replace(state, code=None, host=host)
        if state.why or death is None:
            return replace(state, host=host if state.why else "")
        found = replace(state, why=describe(death.code), rank=death.task, host=death.host)
        if is_busbw:
            return found
        # srun ends with the highest code of all, those of the tasks that it ended too.
        return replace(found, code=death.code if death.code > 0 else 128 - death.code)

    def _close(self, *, everything_read: bool) -> None:
        if self._source is not None:
            self._source.close(everything_read=everything_read)
            self._source = None
        for file in self._copies or ():
            file.close()
        self._copies = None
