"""Words of the command line to what is compared with what: runs, logs, folders of logs, several of them as
one arm; setups that folders of logs have, by number of nodes and version.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from busbw.errors import UndecidedError, UsageError
from busbw.judge.compare_arms import key_of, nodes, setup, version, version_label
from busbw.judge.kept import launches_of_machine
from busbw.judge.launch_history import prior_of
from busbw.judge.run import started_folder
from busbw.judge.scatter import Prior
from busbw.launch.series import SERIES_FILE
from busbw.model.record import NOT_STATED, RunRecord
from busbw.record.folder import LAUNCHES, environ_home, is_of_measuring, is_started, made, run_folders
from busbw.record.read import read_record
from busbw.record.selection import is_selection, selection_of

_TELLING_ROWS: Final = 8
_NAMED: Final = re.compile(r"([A-Za-z0-9][\w.+-]*)=(.+)", re.DOTALL)


Found = tuple[RunRecord, Path | None]
"""A record, and its run folder; None for a log."""


@dataclass(frozen=True)
class Given:
    """One arm as it was named."""

    name: str
    runs: tuple[Found, ...] = ()

    @property
    def records(self) -> tuple[RunRecord, ...]:
        """Of its runs."""
        return tuple(record for record, _ in self.runs)


def known_scatter(records: Iterable[RunRecord]) -> Prior | None:
    """What this home knows of launches on the machine of the first, without these themselves."""
    given = [record for record in records if record.results]
    if not given:
        return None
    return prior_of(launches_of_machine(given[0]), given[0], given[1:])


def setups_of(given: Given) -> set[str]:
    """The setups that the paths of an arm's logs name; empty for those that name none."""
    return {setup(record) for record in given.records}


def read_arm(word: str) -> Given:
    """``NAME=RUN,RUN`` or ``RUN``: a run's name, folder or log, or a folder of logs. Raises UsageError."""
    name, rest = word.split("=", 1) if is_named(word) else ("", word)
    parts = [rest] if Path(rest).exists() else [part for part in rest.split(",") if part]
    found = tuple(run for part in parts for run in read_records(part))
    if not found:
        raise UsageError(f"no run and no log in {word}", hint=_hint_of(Path(word)))
    return Given(name or _name_of(rest, [record for record, _ in found]), found)


def read_compared(word: str) -> Given:
    """The same of what is held against others. Raises UsageError for times under a profiler too."""
    given = read_arm(word)
    for record in given.records:
        if record.profiled:
            raise UsageError(
                f"{record.run_id} was timed under a profiler, so it cannot be judged, compared or saved",
                hint="measure again without --profile, and without nsys around it",
            )
    return given


def each_once(*several: Given) -> tuple[Given, ...]:
    """Without what is there twice, by name or as a copy, which a warning names: it is one launch. Logs
    without rows are alike without being copies (tests that failed in one way), and so may be those of several
    tests or setups. ``several`` are counted together.
    """
    seen: dict[tuple[object, ...], str] = {}
    return tuple(_unseen(given, seen) for given in several)


def _unseen(given: Given, seen: dict[tuple[object, ...], str]) -> Given:
    """Without what was ``seen``, to which the rest is added."""
    kept: list[Found] = []
    for record, folder in given.runs:
        source = record.source
        if source is None:
            same: tuple[object, ...] = (record.run_id,)
        elif record.results:
            # Of what, as the path says it, where the log itself may not.
            told = (source.labels.get(name) for name in ("test", "setup", "nodes"))
            same = (*_content(record), *told)
        else:
            same = (Path(source.path).resolve(), source.table)
        if same in seen:
            words = record.run_id if source is None else source.path
            print(
                f"warning: {given.name}: {words} is the same launch as {seen[same]}; it counts once",
                file=sys.stderr,
            )
            continue
        seen[same] = record.run_id if source is None else source.path
        kept.append((record, folder))
    return Given(given.name, tuple(kept))


def _content(record: RunRecord) -> tuple[object, ...]:
    """What two copies of a log share, whatever stands around their rows: these, and the processes that made
    them. A few rows of a log that names no process may be alike by chance: then its bytes.
    """
    assert record.source is not None
    rows = tuple((key_of(case, record), case.cycle, result.time_ns) for case, result in record.timed)
    processes = {(rank.host, rank.pid) for rank in record.world.ranks if rank.pid} if record.world else set()
    if rows and (processes or len(rows) >= _TELLING_ROWS):
        return rows, frozenset(processes)
    return record.source.sha256 or record.source.path, record.source.table


def _hint_of(path: Path) -> str:
    """What to name instead of a folder without a log."""
    if series := next((at for at in (path, environ_home() / path) if (at / SERIES_FILE).is_file()), None):
        return f"name a launch of the series: one of {series / LAUNCHES}/*"
    if (path.parent / SERIES_FILE).is_file():
        return f"name the series itself: {path.parent}"
    if path.is_dir() and any(map(is_started, path.iterdir())):
        return f"name the runs in it one by one: {path}/*"
    return "name runs (`busbw list`), logs or folders of logs"


def is_named(word: str) -> bool:
    """Whether a word gives its arm a name."""
    return not Path(word).exists() and _NAMED.fullmatch(word) is not None


def _name_of(word: str, records: Sequence[RunRecord]) -> str:
    setups = {setup(record) for record in records if record.source is not None}
    if len(records) == 1 and records[0].run_id:
        return word if word == records[0].settings.get("name") else records[0].run_id
    if len(setups) == 1 and "" not in setups:
        return f"setup {setups.pop()}"
    return Path(word).name


def unique(arms: list[Given]) -> tuple[Given, ...]:
    """Names are how arms are told apart."""
    counts: dict[str, int] = defaultdict(int)
    made = []
    for arm in arms:
        counts[arm.name] += 1
        name = arm.name if counts[arm.name] == 1 else f"{arm.name} ({counts[arm.name]})"
        made.append(replace(arm, name=name))
    return tuple(made)


def read_records(word: str) -> list[Found]:
    """All records of a run's name, its folder, a log, a folder of logs, or of the runs that fit a selection
    (``record.selection``). Raises UsageError.
    """
    path = Path(word)
    if is_selection(word) and not path.exists():
        # The finished measurements that fit, the oldest first.
        chosen = selection_of([word], datetime.now(UTC))
        found: list[Found] = []
        for folder in reversed(run_folders(environ_home())):
            fits = chosen.fits_folder(folder.name, made(folder))
            if fits and is_started(folder) and is_of_measuring(folder):
                record = read_record(folder)
                hosts = record.world.known_hosts if record.world is not None else ()
                tags = record.settings.get("tag") or ()
                if record.timed and chosen.fits_record(tags, hosts, version(record)):
                    found.append((record, folder))
        if not found:
            raise UsageError(f"no measurement fits {word!r}", hint="`busbw list` shows all runs")
        return found
    if path.is_file():
        return [(record, None) for record in read_log(path)]
    if is_log_folder(path):
        from busbw.foreign.read_any import log_files

        return [(record, None) for file in log_files(path) for record in read_log(file)]
    folder = started_folder(word)
    return [(read_record(folder), folder)]


def is_log_folder(path: Path) -> bool:
    """A folder that is no run's own."""
    return path.is_dir() and not is_started(path) and not (path / "request" / "request.json").is_file()


def read_log(path: Path) -> list[RunRecord]:
    """Every table of a log, not stored. A file of a test without a table is a test that failed.

    Raises UndecidedError where the log does not say its operation or ranks.
    """
    from busbw.foreign.logs.assemble import assemble
    from busbw.foreign.logs.decide import Given as Stated
    from busbw.foreign.logs.labels import DEFAULTS, labels
    from busbw.foreign.read_any import read_file

    found = labels(str(path), DEFAULTS)
    reading = read_file(path).with_all_findings(found.get("test", ""))
    origin, stated = replace(reading.origin, labels=found), Stated("", None, {})
    name, several = Path(origin.path).name, len(reading.tables) > 1
    try:
        return [
            assemble(table, replace(origin, table=n), stated, run_id=f"{name} table {n}" if several else name)
            for n, table in enumerate(reading.tables, 1)
        ]
    except UndecidedError as error:
        # Only `busbw import` has the flags that its own hint names.
        hint = f"keep it as a run: `busbw import {path} --op NAME` (--ranks N), and name that run"
        raise UndecidedError(f"{path}: {error}", hint=hint) from error


# ---- what is compared with what ------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """Arms of one number of nodes, version or setup; ``name`` says which, where logs have several."""

    name: str
    arms: tuple[Given, ...]


def read_trees(words: Sequence[str]) -> tuple[Tree, ...]:
    """Words to what is compared with what: the arms that were named, or those of one folder of logs whose
    paths name setups. Of several folders that have such, each setup of one is compared with the same of the
    others. Raises UsageError.
    """
    if len(words) == 1 and is_log_folder(Path(words[0])):
        return _trees(Path(words[0]))
    arms = unique([given for word in words for given in each_once(read_compared(word))])
    return _by_setup(arms) if any(len(setups_of(arm)) > 1 for arm in arms) else (Tree("", arms),)


def _by_setup(arms: Sequence[Given]) -> tuple[Tree, ...]:
    """A tree for each setup and number of nodes; an arm that has none of it is there without records."""
    split = [_split(arm) for arm in arms]
    places = sorted(set[tuple[str, int]]().union(*split))
    if not any(sum(place in own for own in split) > 1 for place in places):
        told = "; ".join(f"{arm.name} has setups {', '.join(sorted(setups_of(arm)))}" for arm in arms)
        raise UsageError(
            f"no setup on the same number of nodes appears in two of them: {told}",
            hint="name the logs to compare one by one: NAME=FILE,FILE NAME=FILE",
        )
    return tuple(
        Tree(
            (f"setup {name}" if name else "no setup") + (f", {count} nodes" if count else ""),
            tuple(own.get((name, count), Given(arm.name)) for arm, own in zip(arms, split, strict=True)),
        )
        for name, count in places
    )


def _split(given: Given) -> dict[tuple[str, int], Given]:
    """By setup and number of nodes."""
    found: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for count in _node_counts(given.records):
        for record, folder in given.runs:
            if _is_on(count, record):
                found[setup(record), count].append((record, folder))
    return {place: Given(given.name, tuple(own)) for place, own in found.items()}


def _trees(folder: Path) -> tuple[Tree, ...]:
    """The setups of a folder of logs, section by section; logs that name none are last, for no baseline is
    without a name. A setup that is alone in a section is told of.
    """
    trees = []
    for name, records in _sections([record for record, _ in read_records(str(folder))]):
        setups: dict[str, list[Found]] = defaultdict(list)
        for record in records:
            setups[setup(record)].append((record, None))
        arms = tuple(
            given
            for one, own in sorted(setups.items(), key=lambda pair: (not pair[0], pair[0]))
            for given in each_once(Given(f"setup {one}" if one else "no setup", tuple(own)))
        )
        if len(arms) > 1:
            trees.append(Tree(name, arms))
        elif arms:
            words = f"{arms[0].name}{name and f' ({name})'}: its logs ({len(records)})"
            print(f"warning: {words} are not compared: no other setup ran there", file=sys.stderr)
    if not trees:
        raise UsageError(
            f"the paths of the logs in {folder} do not name two setups",
            hint="name the logs or folders to compare one by one: NAME=FILE,FILE NAME=FILE",
        )
    return tuple(trees)


def _sections(records: Sequence[RunRecord]) -> Iterator[tuple[str, list[RunRecord]]]:
    """Records that are compared with one another, by number of nodes and, where a setup was measured with
    several versions, by version: a version that a setup alone has is a part of that setup. A log without rows
    is in every section that it does not contradict.
    """
    for count in _node_counts(records):
        here = [record for record in records if _is_on(count, record)]
        known: dict[str, set[str]] = defaultdict(set)
        for record in here:
            known[setup(record)] |= {version_label(record)} - {""}
        place = [f"{count} nodes"] if count else []
        if all(len(own) < 2 for own in known.values()):
            only = set[str]().union(*known.values())
            words = [f"version {number}" for number in only] if len(only) == 1 else []
            yield ", ".join([*words, *place]), here
            continue
        for number in sorted({version_label(each) for each in here if each.results or version_label(each)}):
            own = [
                each for each in here if version_label(each) in (number, "" if not each.results else number)
            ]
            yield ", ".join([f"version {number or NOT_STATED}", *place]), own


def _node_counts(records: Sequence[RunRecord]) -> list[int]:
    """Numbers of nodes, 0 for records that have rows and do not say it."""
    return sorted({nodes(record) for record in records if record.results or nodes(record)}) or [0]


def _is_on(count: int, record: RunRecord) -> bool:
    """Whether the record is of so many nodes; one without rows may not say of how many."""
    return nodes(record) in (count, 0 if not record.results else count)
