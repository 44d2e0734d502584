"""Setups launched in turn: blocks in random order, each launch a run of its own in the series' folder.

``setups.json`` there has the setups as resolved (their secrets replaced), the seed and order, and what became
of every launch; it is rewritten after each, so that a series that was ended early is still one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path
from statistics import mean
from typing import Final, TextIO

from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.files import read_input
from busbw.judge.compare_setups import LaunchOutcome
from busbw.judge.matching import differences
from busbw.launch.job_loop import MOST_FAILURES
from busbw.launch.launcher_words import words_of_ranks
from busbw.launch.observed import LAST_LINES
from busbw.model.event import Event, EventKind, error_event, error_words
from busbw.model.record import RunRecord
from busbw.plan.flags.ranks import NameSettings
from busbw.plan.setups import Setup, blocks
from busbw.record import folder as folders
from busbw.record.checked import checked
from busbw.record.json_text import json_mapping
from busbw.record.read import read_record
from busbw.redact import redact_all
from busbw.report.events import finding_lines
from busbw.report.progress import progress
from busbw.units import format_duration

SERIES_FILE: Final = folders.SERIES_FILE
SERIES_SCHEMA: Final = 1
_NAMELESS: Final = NameSettings()
_CHANGED: Final = "name a series that is whole: this file was changed or cut"
INTERRUPTED: Final = "interrupted"  # by the user
# Its file is written after every launch: one that has fewer than planned and no word of an interrupt.
_NO_END: Final = "unfinished: its busbw process was killed, or still measures"


@dataclass(frozen=True)
class Series:
    """A series as its file has it."""

    folder: Path
    setups: tuple[Setup, ...]
    seed: int
    order: tuple[tuple[str, ...], ...]
    nodes: tuple[int, ...]
    environ: Mapping[str, str]
    outcomes: tuple[LaunchOutcome, ...]
    stopped: str = ""
    tags: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The default first."""
        return tuple(setup.name for setup in self.setups)

    @property
    def planned(self) -> int:
        """Launches that it has when it is whole."""
        return sum(map(len, self.order)) * len(self.nodes)


@dataclass(frozen=True)
class Planned:
    """A launch of a series before it is made. ``number`` counts from 1, ``nodes`` is 0 for this host."""

    number: int
    setup: str
    block: int
    nodes: int
    folder: Path


# The setups of a series that need no more launches.
Losers = Callable[[Series], frozenset[str]]
# Makes one launch and waits for its end: (setup, nodes or 0, run folder, hear). Raises BusbwError where it
# cannot be started.
Starter = Callable[[Setup, int, Path, Callable[[Event], None]], ExitCode]


def create_series(
    setups: Sequence[Setup],
    count: int,
    seed: int,
    nodes: Sequence[int],
    environ: Mapping[str, str],
    called: NameSettings = _NAMELESS,
) -> Series:
    """A new series of ``count`` blocks on each number of nodes (none: this host), every setup once in each.
    ``called`` is how the user calls it. Raises UsageError where no folder can be made.
    """
    order = blocks([setup.name for setup in setups], count, seed)
    folder = folders.create(folders.environ_home().absolute(), folders.new_run_id(called.name or "setups"))
    counts = tuple(nodes) or (0,)
    series = Series(folder, tuple(setups), seed, order, counts, dict(environ), (), tags=called.tag)
    _write(series)
    return series


def measure(series: Series, start: Starter, err: TextIO, losers: Losers | None = None) -> Series:
    """All launches of a new series. What fails is noted and does not end the series; an interrupt does.
    ``losers`` is asked at the end of every block.
    """
    launches = Launches(series, err)
    out = frozenset[str]()
    with launches.shown() as step:
        try:
            while (planned := launches.next()) is not None:
                step()
                made = launches.series.outcomes
                if losers is not None and made and made[-1].block != planned.block:
                    out = losers(launches.series)
                if planned.setup in out or _is_given_up(made, planned):
                    launches.skip(planned)
                elif not _launch(launches, planned, start):
                    launches.stop(INTERRUPTED)
                    break
        except KeyboardInterrupt:  # between two launches
            launches.stop(INTERRUPTED)
    return launches.series


def planned_launches(series: Series) -> Iterator[Planned]:
    """All launches in their order."""
    in_blocks = [(block, name) for block, names in enumerate(series.order) for name in names]
    for number, (nodes, (block, name)) in enumerate(product(series.nodes, in_blocks), start=1):
        yield Planned(number, name, block, nodes, series.folder / folders.LAUNCHES / f"{number:04}")


def _launch(launches: Launches, planned: Planned, start: Starter) -> bool:
    """Make one launch; False where the user interrupted it: the setup did nothing wrong."""
    setup = next(each for each in launches.series.setups if each.name == planned.setup)
    folder = folders.create(planned.folder.parent, planned.folder.name)
    hear = launches.begin(planned)
    started_s = time.monotonic()
    try:
        code = start(setup, planned.nodes, folder, hear)
    except UsageError:
        raise
    except BusbwError as failure:
        hear(error_event(failure))
        code = failure.exit_code
    if code is not ExitCode.INTERRUPTED:
        launches.add(planned, code, time.monotonic() - started_s)
    return code is not ExitCode.INTERRUPTED


class Launches:
    """The launches of a series as they come: each is reported, and kept in the series' file."""

    def __init__(self, series: Series, err: TextIO) -> None:
        self.series = replace(series, stopped="")
        self._err = err
        self._claims: set[str] = set()  # findings: each is shown once
        self._errors: list[Event] = []  # of the launch that goes on

    def rest(self) -> Iterator[Planned]:
        """The launches that are to come."""
        return islice(planned_launches(self.series), len(self.series.outcomes), None)

    def next(self) -> Planned | None:
        """The next of them; None after the last."""
        return next(self.rest(), None)

    def _place(self, planned: Planned) -> str:
        """Which launch that is, for people."""
        where = f"{planned.nodes} nodes, " if planned.nodes else ""
        return f"{where}block {planned.block + 1} of {len(self.series.order)}, {planned.setup}"

    @contextlib.contextmanager
    def shown(self) -> Iterator[Callable[[], None]]:
        """Show how far it is; what it gives is called where that has changed."""

        def show() -> None:
            series, planned = self.series, self.next()
            took = [outcome.seconds for outcome in series.outcomes if not outcome.skipped]
            # As long as those that were made: no wait for a job is in it.
            left_s = mean(took) * (series.planned - len(series.outcomes)) if took else None
            if planned is not None:
                step(len(series.outcomes), self._place(planned), left_s)

        with progress(self.series.planned, "", len(self.series.outcomes)) as step:
            yield show

    def begin(self, planned: Planned) -> Callable[[Event], None]:
        """What hears a launch: its errors are kept, its findings shown."""
        self._errors = []

        def hear(item: Event) -> None:
            if item["event"] == EventKind.ERROR:
                self._errors.append(item)
            elif item["event"] == EventKind.FINDING and item["finding"]["claim"] not in self._claims:
                self._claims.add(item["finding"]["claim"])
                lines = (f"{self._place(planned)}:", *finding_lines(item["finding"]))
                print(*lines, sep="\n", file=self._err, flush=True)

        return hear

    def skip(self, planned: Planned) -> None:
        """It is not made: its setup failed too often, or has lost."""
        outcome = LaunchOutcome(planned.setup, planned.block, planned.nodes, "", 0.0, skipped=True)
        self._add(planned, outcome, "not tried again")

    def add(self, planned: Planned, code: ExitCode, seconds: float) -> None:
        """A launch has ended."""
        error, words, how = "", tuple[str, ...](), format_duration(seconds)
        if code is ExitCode.BAD_VERDICT:
            how += ": WRONG DATA"
        elif code is not ExitCode.OK:
            first = {"rank": None, "host": "", **self._errors[0]} if self._errors else {}
            error = error_words(first) if first else f"exit code {int(code)}"
            said = first.get("last_words")
            words = _last_words(planned.folder) if said is None else tuple(said)
            how = f"FAILED after {how}: {error}"
        relative = str(planned.folder.relative_to(self.series.folder))
        seconds = round(seconds, 3)
        outcome = LaunchOutcome(planned.setup, planned.block, planned.nodes, relative, seconds, error, words)
        self._add(planned, outcome, how)

    def stop(self, why: str) -> None:
        """There are no more launches."""
        self.series = replace(self.series, stopped=why)
        _write(self.series)

    def _add(self, planned: Planned, outcome: LaunchOutcome, how: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(f"{self._place(planned)}: {how}", file=self._err, flush=True)
        self.series = replace(self.series, outcomes=(*self.series.outcomes, outcome))
        _write(self.series)


def _is_given_up(outcomes: Sequence[LaunchOutcome], planned: Planned) -> bool:
    own = [each for each in outcomes if (each.setup, each.nodes) == (planned.setup, planned.nodes)]
    last = own[-MOST_FAILURES:]
    return len(last) == MOST_FAILURES and all(outcome.error or outcome.skipped for outcome in last)


def _last_words(folder: Path) -> tuple[str, ...]:
    path = folder / folders.LOG_FILE
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    # A launcher's banner about the death, of eight lines, would push out why the rank died.
    words = words_of_ranks(lines) or [line for line in lines if line.strip()]
    return tuple(words[-LAST_LINES:])


def _write(series: Series) -> None:
    body = {"schema": SERIES_SCHEMA, **{k: v for k, v in asdict(series).items() if k != "folder"}}
    folders.replace_text(series.folder / SERIES_FILE, (json.dumps(redact_all(body), indent=1), "\n"))


def is_series(folder: Path) -> bool:
    """Whether a folder is that of a series of setups."""
    return (folder / SERIES_FILE).is_file()


def read_series(folder: Path) -> tuple[Series, dict[str, RunRecord]]:
    """A series, and the records of its launches by their folders' names. Raises UsageError."""
    series = read_plan(folder)
    records = {
        outcome.folder: read_record(folder / outcome.folder)
        for outcome in series.outcomes
        if outcome.folder and folders.is_started(folder / outcome.folder)
    }
    return series, records


def read_plan(folder: Path) -> Series:
    """A series as its file has it. Raises UsageError."""
    path = folder / SERIES_FILE
    body = json_mapping(read_input(path, _CHANGED), str(path), _CHANGED)
    if body.pop("schema", None) != SERIES_SCHEMA:
        raise UsageError(f"{path} was written by another version of busbw", hint="read it with that version")
    series = checked(Series, {**body, "folder": folder}, str(path), _CHANGED)
    if not series.stopped and len(series.outcomes) < series.planned:
        series = replace(series, stopped=_NO_END)
    return series


def read_each(folders: Sequence[Path]) -> list[tuple[Series, dict[str, RunRecord]]]:
    """Several series. Raises UsageError for one that is named twice."""
    found: list[tuple[Series, dict[str, RunRecord]]] = []
    for series, records in map(read_series, folders):
        name = series.folder.resolve().name  # no two series share it
        if name in (other.folder.resolve().name for other, _ in found):
            raise UsageError(
                f"{series.folder} is the series {name} once more: its blocks count once",
                hint="name every series once",
            )
        found.append((series, records))
    return found


def read_all(folders_of_series: Sequence[Path]) -> tuple[Series, dict[str, RunRecord]]:
    """A series, or several of the same measurement as one with the blocks of all. Raises UsageError for one
    that is named twice, and for series that differ in anything but their blocks.
    """
    first, *others = read_each(folders_of_series)
    series, records = first
    for more, more_records in others:
        _refuse_other(first, (more, more_records))
        before = len(series.order)
        outcomes = (
            replace(
                outcome,
                block=outcome.block + before,
                folder=f"{more.folder.name}/{outcome.folder}" if outcome.folder else "",
            )
            for outcome in more.outcomes
        )
        records = records | {f"{more.folder.name}/{name}": record for name, record in more_records.items()}
        series = replace(
            series,
            order=(*series.order, *more.order),
            outcomes=(*series.outcomes, *outcomes),
            stopped=series.stopped or more.stopped,
        )
    return series, records


def _refuse_other(
    one: tuple[Series, Mapping[str, RunRecord]], other: tuple[Series, Mapping[str, RunRecord]]
) -> None:
    """Raises UsageError where launches of one setup on as many nodes are not of one measurement."""
    series, more = one[0], other[0]
    hint = "measure more blocks with the same file of setups and the same flags, on the same machines"
    for name in ("setups", "environ", "nodes"):
        if getattr(more, name) != getattr(series, name):
            raise UsageError(f"{more.folder.name} has other {name} than {series.folder.name}", hint=hint)
    before, after = _one_of_each(*one), _one_of_each(*other)
    for place in before.keys() & after.keys():
        if found := _differences(before[place], after[place]):
            raise UsageError(
                f"{series.folder.name} and {more.folder.name} are not one measurement: {'; '.join(found)}",
                hint=hint,
            )


def _differences(before: RunRecord, after: RunRecord) -> list[str]:
    """The versions of busbw count too, which made the launches, and the operations."""
    one, other = (
        {
            "busbw": record.busbw_version,
            "operations": ", ".join(dict.fromkeys(case.collective for case in record.plan.cases)),
        }
        for record in (before, after)
    )
    own = [f"{name}: {one[name]} and {other[name]}" for name in one if one[name] != other[name]]
    return differences(before, after) + own


def _one_of_each(series: Series, records: Mapping[str, RunRecord]) -> dict[tuple[str, int], RunRecord]:
    """A launch of each setup and number of nodes that came to its end."""
    found: dict[tuple[str, int], RunRecord] = {}
    for outcome in series.outcomes:
        if not outcome.error and outcome.folder in records:
            found.setdefault((outcome.setup, outcome.nodes), records[outcome.folder])
    return found
