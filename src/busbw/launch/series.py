"""Setups launched in turn: blocks in random order, each launch a run of its own in the series' folder.

``setups.json`` there has the setups as resolved (their secrets replaced), the seed and order, and what became
of every launch; it is rewritten after each, so that a series that was ended early is still one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path
from statistics import mean
from typing import Any, Final, TextIO

from busbw.errors import AllocationOver, BusbwError, ExitCode, UsageError
from busbw.judge.compare_setups import LaunchOutcome
from busbw.judge.matching import differences
from busbw.launch.job_loop import MOST_FAILURES
from busbw.launch.launcher_words import words_of_ranks
from busbw.launch.listener import LAST_LINES
from busbw.model.event import Event, EventKind, error_words
from busbw.model.record import RunRecord
from busbw.plan.flags.names import NameSettings
from busbw.plan.setups import Setup, blocks
from busbw.record import folder as folders
from busbw.record.checked import checked
from busbw.record.json_text import json_mapping, read_file
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
_NO_END: Final = "no end: its front process was killed, or still measures"


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


@dataclass(frozen=True)
class Launched:
    """How a launch ended. ``seconds`` are its own, where it did not begin when it was asked for; ``skipped``:
    its job did not try it again.
    """

    code: ExitCode
    seconds: float | None = None
    skipped: bool = False


# Makes one launch and waits for its end: (setup, nodes or 0, run folder, hear). Raises BusbwError for a
# launch that cannot be started, AllocationOver where there can be no others either.
Starter = Callable[[Setup, int, Path, Callable[[Event], None]], Launched]


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


def measure(
    setups: Sequence[Setup],
    count: int,
    seed: int,
    nodes: Sequence[int],
    environ: Mapping[str, str],
    start: Starter,
    err: TextIO,
    called: NameSettings = _NAMELESS,
) -> Series:
    """A new series (``create_series``) and all its launches (``go_on``)."""
    return go_on(create_series(setups, count, seed, nodes, environ, called), start, err)


def planned_launches(series: Series) -> Iterator[Planned]:
    """All launches in their order."""
    in_blocks = [(block, name) for block, names in enumerate(series.order) for name in names]
    for number, (nodes, (block, name)) in enumerate(product(series.nodes, in_blocks), start=1):
        yield Planned(number, name, block, nodes, series.folder / folders.LAUNCHES / f"{number:04}")


def go_on(series: Series, start: Starter, err: TextIO) -> Series:
    """Make the launches that a series still lacks. What fails is noted and does not end the series; an
    interrupt does, or the end of its allocation.
    """
    series = replace(series, stopped="")
    by_name = {setup.name: setup for setup in series.setups}
    shown: set[str] = set()
    stopped = INTERRUPTED
    try:
        with progress(series.planned, "", len(series.outcomes)) as step:
            for planned in islice(planned_launches(series), len(series.outcomes), None):
                step(len(series.outcomes), _place(series, planned), _left_s(series))
                outcome, code = _launch(series, by_name[planned.setup], planned, start, err, shown)
                if code is ExitCode.INTERRUPTED:  # by the user: the setup did nothing wrong
                    break
                series = replace(series, outcomes=(*series.outcomes, outcome))
                _write(series)
            else:
                return series
    except KeyboardInterrupt:  # between two launches
        pass
    except AllocationOver as over:
        stopped = over.message
        print(f"error: {over.message}\nhint: {over.hint}", file=err, flush=True)
    series = replace(series, stopped=stopped)
    _write(series)
    return series


def _place(series: Series, planned: Planned) -> str:
    where = f"{planned.nodes} nodes, " if planned.nodes else ""
    return f"{where}block {planned.block + 1} of {len(series.order)}, {planned.setup}"


def _left_s(series: Series) -> float | None:
    """Seconds for the launches to come, as long as the mean of those that were made: no wait for a job is in
    it.
    """
    took = [outcome.seconds for outcome in series.outcomes if not outcome.skipped]
    return mean(took) * (series.planned - len(series.outcomes)) if took else None


class _Ear:
    """Hears a launch: errors are kept, findings shown. ``shown`` are those of earlier launches: each is shown
    once.
    """

    def __init__(self, place: str, err: TextIO, shown: set[str]) -> None:
        self.errors: list[Event] = []
        self._place, self._err, self._shown = place, err, shown

    def __call__(self, item: Event) -> None:
        if item["event"] == EventKind.ERROR:
            self.errors.append(item)
        elif item["event"] == EventKind.FINDING:
            self._show(item["finding"])

    @property
    def error(self) -> str:
        """What the first of its errors says, with the rank and host that it names."""
        return error_words({"rank": None, "host": "", **self.errors[0]})

    def _show(self, finding: Mapping[str, Any]) -> None:
        claim = str(finding["claim"])
        if claim not in self._shown:
            self._shown.add(claim)
            print(f"{self._place}:", *finding_lines(finding), sep="\n", file=self._err, flush=True)


def _launch(
    series: Series, setup: Setup, planned: Planned, start: Starter, err: TextIO, shown: set[str]
) -> tuple[LaunchOutcome, ExitCode]:
    block, nodes, place = planned.block, planned.nodes, _place(series, planned)
    skipped = LaunchOutcome(setup.name, block, nodes, "", 0.0, skipped=True)
    if _is_given_up(series.outcomes, setup.name, nodes):
        print(f"{place}: not tried again", file=err, flush=True)
        return skipped, ExitCode.OK
    folder = folders.create(planned.folder.parent, planned.folder.name)
    ear = _Ear(place, err, shown)
    started_s = time.monotonic()
    error = ""
    try:
        launched = start(setup, nodes, folder, ear)
    except (UsageError, AllocationOver):
        raise
    except BusbwError as failure:
        launched, error = Launched(failure.exit_code), failure.message
    if launched.skipped:
        print(f"{place}: not tried again", file=err, flush=True)
        return skipped, ExitCode.OK
    seconds = time.monotonic() - started_s if launched.seconds is None else launched.seconds
    if launched.code not in (ExitCode.OK, ExitCode.BAD_VERDICT):
        error = error or (ear.error if ear.errors else f"exit code {int(launched.code)}")
    else:
        error = ""
    print(f"{place}: {_how(launched.code, error, seconds)}", file=err, flush=True)
    said = ear.errors[0].get("last_words") if ear.errors else None
    words = () if not error else _last_words(folder) if said is None else tuple(said)
    relative = str(folder.relative_to(series.folder))
    outcome = LaunchOutcome(setup.name, block, nodes, relative, round(seconds, 3), error, words)
    return outcome, launched.code


def _how(code: ExitCode, error: str, seconds: float) -> str:
    took = format_duration(seconds)
    if code is ExitCode.INTERRUPTED:
        return f"interrupted after {took}"
    if code is ExitCode.BAD_VERDICT:
        return f"{took}: WRONG DATA"
    return f"FAILED after {took}: {error}" if error else took


def _is_given_up(outcomes: Sequence[LaunchOutcome], name: str, nodes: int) -> bool:
    own = [outcome for outcome in outcomes if outcome.setup == name and outcome.nodes == nodes]
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
    body = json_mapping(read_file(path, _CHANGED), str(path), _CHANGED)
    if body.pop("schema", None) != SERIES_SCHEMA:
        raise UsageError(f"{path} is of another busbw", hint="read it with the busbw that wrote it")
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
    found = differences(before, after)
    for name, one, other in (
        ("busbw", before.busbw_version, after.busbw_version),
        ("operations", _operations(before), _operations(after)),
    ):
        if one != other:
            found.append(f"{name}: {one} and {other}")
    return found


def _operations(record: RunRecord) -> str:
    return ", ".join(dict.fromkeys(case.collective for case in record.plan.cases))


def _one_of_each(series: Series, records: Mapping[str, RunRecord]) -> dict[tuple[str, int], RunRecord]:
    """A launch of each setup and number of nodes that came to its end."""
    found: dict[tuple[str, int], RunRecord] = {}
    for outcome in series.outcomes:
        if not outcome.error and outcome.folder in records:
            found.setdefault((outcome.setup, outcome.nodes), records[outcome.folder])
    return found
