"""Setups launched in turn: blocks in random order, each launch a run of its own in the series' folder.

``setups.json`` there has the setups as resolved, the seed and order, and what became of every launch; it is
rewritten after each, so that a series that was ended early is still one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw import session
from busbw.analysis.alike import differences
from busbw.analysis.compare_setups import LaunchOutcome
from busbw.errors import AllocationOver, BusbwError, ExitCode, UsageError
from busbw.launchers.base import LaunchRequest
from busbw.launchers.deaths import read_death, words_of_ranks
from busbw.model.event import Event, EventKind
from busbw.model.record import RunRecord
from busbw.planning.make import make_plan
from busbw.planning.setups import Setup, blocks, variables
from busbw.probes.environment import given_here, with_given
from busbw.record import folder as folders
from busbw.record.checked import checked, json_mapping
from busbw.record.read import read_record
from busbw.reports.findings import finding_lines
from busbw.setup_jobs import Starter
from busbw.units import format_duration

if TYPE_CHECKING:
    from busbw.settings.run import RunSettings

SERIES_FILE: Final = "setups.json"
SERIES_SCHEMA: Final = 1
_CHANGED: Final = "name a series that is whole: this file was changed or cut"
# A setup that failed so often in a row on so many nodes is not tried again: its failure is the result.
MOST_FAILURES: Final = 2
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

    @property
    def names(self) -> tuple[str, ...]:
        """The default first."""
        return tuple(setup.name for setup in self.setups)

    @property
    def planned(self) -> int:
        """Launches that it has when it is whole."""
        return sum(map(len, self.order)) * len(self.nodes)


def local_starter(
    operations: tuple[str, ...],
    settings: RunSettings,
    backend: str,
    ranks: int,
    request_for: Callable[[str], LaunchRequest],
    environ: Mapping[str, str],
    limit_seconds: float | None,
    argv: tuple[str, ...],
    err: TextIO,
) -> Starter:
    """Launches on this host. ``environ`` goes over every setup's own (``--env``)."""

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        del nodes
        own = replace(settings, **setup.flags)
        plan = make_plan(operations, own, backend, ranks)
        # The inherited environment is read at each launch: what extends it must not see an earlier setup.
        asked = with_given({**variables(setup, os.environ), **environ}, also=given_here(os.environ))

        def request(request_file: str) -> LaunchRequest:
            return with_setup(request_for(request_file), asked, setup.unset)

        return session.measure(
            plan, own, argv, request, hear, err, folder=folder, limit_seconds=limit_seconds
        )

    return start


def with_setup(launch: LaunchRequest, environ: Mapping[str, str], unset: Sequence[str]) -> LaunchRequest:
    """A launch whose processes get a setup's variables, under those that busbw itself needs."""
    taken = tuple(word for name in unset for word in ("-u", name))
    commands = (
        replace(
            command,
            argv=("env", *taken, *command.argv) if taken else command.argv,
            environ={**environ, **command.environ},
        )
        for command in launch.commands
    )
    return replace(launch, commands=tuple(commands))


def measure(
    setups: Sequence[Setup],
    count: int,
    seed: int,
    nodes: Sequence[int],
    environ: Mapping[str, str],
    start: Starter,
    err: TextIO,
) -> Series:
    """``count`` blocks on each number of nodes (0: this host), every setup once in each. What fails is noted
    and does not end the series; an interrupt does, or the end of its allocation. Raises UsageError where no
    folder can be made.
    """
    order = blocks([setup.name for setup in setups], count, seed)
    folder = folders.create(folders.environ_home().absolute(), folders.new_run_id("setups"))
    series = Series(folder, tuple(setups), seed, order, tuple(nodes) or (0,), dict(environ), ())
    _write(series)
    by_name = {setup.name: setup for setup in setups}
    shown: set[str] = set()
    stopped = INTERRUPTED
    launches = product(series.nodes, ((block, name) for block, names in enumerate(order) for name in names))
    try:
        for many, (block, name) in launches:
            outcome, code = _launch(series, by_name[name], block, many, start, err, shown)
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


def _launch(
    series: Series, setup: Setup, block: int, nodes: int, start: Starter, err: TextIO, shown: set[str]
) -> tuple[LaunchOutcome, ExitCode]:
    """``shown`` are the findings of earlier launches: each is shown once."""
    where = f"{nodes} nodes, " * bool(nodes)
    place = f"{where}block {block + 1} of {len(series.order)}, {setup.name}"
    if _is_given_up(series.outcomes, setup.name, nodes):
        print(f"{place}: not tried again", file=err, flush=True)
        return LaunchOutcome(setup.name, block, nodes, "", 0.0, skipped=True), ExitCode.OK
    number = len(series.outcomes) + 1
    folder = folders.create(series.folder / folders.LAUNCHES, f"{number:04}")
    errors: list[Event] = []

    def hear(item: Event) -> None:
        if item["event"] == EventKind.ERROR:
            errors.append(item)
        elif item["event"] == EventKind.FINDING and (claim := str(item["finding"]["claim"])) not in shown:
            shown.add(claim)
            print(f"{place}:", *finding_lines(item["finding"]), sep="\n", file=err, flush=True)

    started_s = time.monotonic()
    try:
        code = start(setup, nodes, folder, hear)
        error = str(errors[0]["message"]) if errors else ""
    except (UsageError, AllocationOver):
        raise
    except BusbwError as failure:
        code, error = failure.exit_code, failure.message
    seconds = time.monotonic() - started_s
    failed = code not in (ExitCode.OK, ExitCode.BAD_VERDICT)
    if failed and not error:
        error = f"exit code {int(code)}"
    told = errors[0].get("last_words") if errors else None
    words = () if not failed else _last_words(folder, error) if told is None else tuple(told)
    how = f"FAILED after {format_duration(seconds)}: {error}" if failed else format_duration(seconds)
    if code is ExitCode.INTERRUPTED:
        how = f"interrupted after {format_duration(seconds)}"
    if code is ExitCode.BAD_VERDICT:
        how += ": WRONG DATA"
    print(f"{place}: {how}", file=err, flush=True)
    relative = str(folder.relative_to(series.folder))
    return LaunchOutcome(
        setup.name, block, nodes, relative, round(seconds, 3), error if failed else "", words
    ), code


def _is_given_up(outcomes: Sequence[LaunchOutcome], name: str, nodes: int) -> bool:
    own = [outcome for outcome in outcomes if outcome.setup == name and outcome.nodes == nodes]
    last = own[-MOST_FAILURES:]
    return len(last) == MOST_FAILURES and all(outcome.error or outcome.skipped for outcome in last)


def _last_words(folder: Path, error: str) -> tuple[str, ...]:
    path = folder / folders.LOG_FILE
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    # A launcher's banner about the death, of eight lines, would push out why the rank died.
    words = words_of_ranks(lines)
    # Ranks that said nothing: the banner alone says how they died, unless the error does.
    death = read_death(lines)
    if not words and not (death is not None and (death.code or 0) < 0 and "was killed by" in error):
        words = [line for line in lines if line.strip()]
    return tuple(words[-session.LAST_LINES :])


def _write(series: Series) -> None:
    body = {"schema": SERIES_SCHEMA, **{k: v for k, v in asdict(series).items() if k != "folder"}}
    partial = series.folder / f".{SERIES_FILE}.new"
    partial.write_text(json.dumps(body, indent=1) + "\n")
    partial.replace(series.folder / SERIES_FILE)


def is_series(folder: Path) -> bool:
    """Whether a folder is that of a series of setups."""
    return (folder / SERIES_FILE).is_file()


def read_series(folder: Path) -> tuple[Series, dict[str, RunRecord]]:
    """A series, and the records of its launches by their folders' names. Raises UsageError."""
    path = folder / SERIES_FILE
    try:
        body = json_mapping(path.read_text(encoding="utf-8"), str(path), _CHANGED)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint=_CHANGED) from error
    if body.pop("schema", None) != SERIES_SCHEMA:
        raise UsageError(f"{path} is of another busbw", hint="read it with the busbw that wrote it")
    series = checked(Series, {**body, "folder": folder}, str(path), _CHANGED)
    if why := next(_impossible(series), ""):
        raise UsageError(f"{path}: {why}", hint=_CHANGED)
    if not series.stopped and len(series.outcomes) < series.planned:
        series = replace(series, stopped=_NO_END)
    records = {
        outcome.folder: read_record(folder / outcome.folder)
        for outcome in series.outcomes
        if outcome.folder and folders.is_started(folder / outcome.folder)
    }
    return series, records


def _impossible(series: Series) -> Iterator[str]:
    """What no series has, each by its key."""
    names = series.names
    if len(set(names)) < max(len(names), 1):
        yield "setups has no setup, or one twice"
    if not series.nodes or min(series.nodes) < 0:
        yield f"nodes is {list(series.nodes)}"
    for index, order in enumerate(series.order):
        if strange := set(order) - set(names):
            yield f"order[{index}] has {min(strange)!r}, which is no setup"
    for index, outcome in enumerate(series.outcomes):
        place = f"outcomes[{index}]"
        if outcome.setup not in names:
            yield f"{place}.setup is {outcome.setup!r}, which is no setup"
        if not 0 <= outcome.block < len(series.order):
            yield f"{place}.block is {outcome.block} of {len(series.order)}"
        if outcome.nodes not in series.nodes:
            yield f"{place}.nodes is {outcome.nodes}, and nodes is {list(series.nodes)}"
        if "\0" in outcome.folder or Path(outcome.folder).is_absolute() or ".." in Path(outcome.folder).parts:
            yield f"{place}.folder is {outcome.folder!r}"


def read_each(folders: Sequence[Path]) -> list[tuple[Series, dict[str, RunRecord]]]:
    """Several series. Raises UsageError for one that is named twice."""
    found: list[tuple[Series, dict[str, RunRecord]]] = []
    for series, records in map(read_series, folders):
        if (same := next((each for each, _ in found if _is_one(each, series)), None)) is not None:
            raise UsageError(
                f"{series.folder} is the series {same.folder.name} once more: its blocks count once",
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


def _is_one(series: Series, other: Series) -> bool:
    """By name, which no two series share, or by what is in them, where one was copied."""
    if series.folder.resolve().name == other.folder.resolve().name:
        return True
    one, more = series.outcomes, other.outcomes
    return (series.seed, series.order) == (other.seed, other.order) and bool(one) and one == more


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
        if found := differences(before[place], after[place]):
            raise UsageError(
                f"{series.folder.name} and {more.folder.name} are not one measurement: {'; '.join(found)}",
                hint=hint,
            )


def _one_of_each(series: Series, records: Mapping[str, RunRecord]) -> dict[tuple[str, int], RunRecord]:
    """A launch of each setup and number of nodes that came to its end."""
    found: dict[tuple[str, int], RunRecord] = {}
    for outcome in series.outcomes:
        if not outcome.error and outcome.folder in records:
            found.setdefault((outcome.setup, outcome.nodes), records[outcome.folder])
    return found
