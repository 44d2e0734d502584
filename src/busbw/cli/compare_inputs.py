"""Words of the command line to records: runs, logs, folders of logs, several of them as one arm."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.analysis.compare_arms import NOT_STATED, nodes, version_label
from busbw.errors import UsageError
from busbw.model.record import RunRecord
from busbw.record.folder import LAUNCHES, environ_home, find_run, is_started
from busbw.record.read import read_record
from busbw.setup_series import SERIES_FILE

if TYPE_CHECKING:
    from busbw.importers.files import Reading

_NAMED: Final = re.compile(r"([A-Za-z0-9][\w.+-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Given:
    """One arm as it was named: its records, and the run folder of each (None for a log)."""

    name: str
    records: tuple[RunRecord, ...]
    folders: tuple[Path | None, ...]


@dataclass(frozen=True)
class Tree:
    """Arms of one number of nodes, and version or setup, where folders of logs have several; ``name`` says
    which.
    """

    name: str
    arms: tuple[Given, ...]


def read_trees(words: Sequence[str]) -> tuple[Tree, ...]:
    """Words to what is compared with what: the arms that were named, or those of one folder of logs whose
    paths name setups. Of several folders that have such, each setup of one is compared with the same of the
    others. Raises UsageError.
    """
    if len(words) == 1 and _is_log_folder(Path(words[0])):
        return _trees(Path(words[0]))
    arms = _unique([each_once(read_arm(word)) for word in words])
    return _by_setup(arms) if any(len(setups_of(arm)) > 1 for arm in arms) else (Tree("", arms),)


def setups_of(given: Given) -> set[str]:
    """The setups that the paths of an arm's logs name; empty for those that name none."""
    return {setup(record) for record in given.records}


def setup(record: RunRecord) -> str:
    """The setup that the path of a log names; empty for none."""
    return record.source.labels.get("setup", "") if record.source is not None else ""


def _by_setup(arms: Sequence[Given]) -> tuple[Tree, ...]:
    """A tree for each setup and number of nodes; an arm that has none of it is there without records."""
    split = [_split(arm) for arm in arms]
    places = sorted(set[tuple[str, int]]().union(*split))
    if not any(sum(place in own for own in split) > 1 for place in places):
        told = "; ".join(f"{arm.name} has setups {', '.join(sorted(setups_of(arm)))}" for arm in arms)
        raise UsageError(
            f"no setup on the same number of nodes is in two of them: {told}",
            hint="name the logs to compare one by one: NAME=FILE,FILE NAME=FILE",
        )
    return tuple(
        Tree(
            ", ".join([f"setup {name}" if name else "no setup", *[f"{count} nodes"] * bool(count)]),
            tuple(
                own.get((name, count), Given(arm.name, (), ())) for arm, own in zip(arms, split, strict=True)
            ),
        )
        for name, count in places
    )


def _split(given: Given) -> dict[tuple[str, int], Given]:
    """By setup and number of nodes."""
    found: dict[tuple[str, int], list[tuple[RunRecord, Path | None]]] = defaultdict(list)
    for count in _node_counts(given.records):
        for record, folder in zip(given.records, given.folders, strict=True):
            if _is_on(count, record):
                found[setup(record), count].append((record, folder))
    return {
        place: Given(given.name, tuple(record for record, _ in own), tuple(folder for _, folder in own))
        for place, own in found.items()
    }


def read_arm(word: str) -> Given:
    """``NAME=RUN,RUN`` or ``RUN``: a run's name, folder or log, or a folder of logs. Raises UsageError."""
    named = _named(word)
    name, rest = (named[1], named[2]) if named else ("", word)
    parts = [rest] if Path(rest).exists() else [part for part in rest.split(",") if part]
    found = [pair for part in parts for pair in read_records(part)]
    if not found:
        raise UsageError(f"nothing in {word}", hint=_hint_of(Path(word)))
    return Given(
        name or _name_of(rest, [record for record, _ in found]),
        tuple(record for record, _ in found),
        tuple(folder for _, folder in found),
    )


def each_once(given: Given) -> Given:
    """Without what is there twice, by name or as a copy, which a warning names: it is one launch. Logs
    without rows are alike without being copies (tests that failed in one way), and so may be those of several
    tests or setups.
    """
    return each_once_in_all((given,))[0]


def each_once_in_all(several: Sequence[Given]) -> tuple[Given, ...]:
    """The same of several that are counted together."""
    seen: dict[tuple[object, ...], str] = {}
    return tuple(_unseen(given, seen) for given in several)


def _unseen(given: Given, seen: dict[tuple[object, ...], str]) -> Given:
    """Without what was ``seen``, to which the rest is added."""
    kept: list[tuple[RunRecord, Path | None]] = []
    for record, folder in zip(given.records, given.folders, strict=True):
        source = record.source
        if source is None:
            same: tuple[object, ...] = (record.run_id,)
        elif record.results:
            # Of what, as the path says it, where the log itself may not.
            told = (source.labels.get(name) for name in ("test", "setup", "nodes"))
            same = (source.sha256 or source.path, source.table, *told)
        else:
            same = (Path(source.path).resolve(), source.table)
        if same in seen:
            words = record.run_id if source is None else source.path
            print(f"warning: {given.name}: {words} is {seen[same]} again: one launch", file=sys.stderr)
            continue
        seen[same] = record.run_id if source is None else source.path
        kept.append((record, folder))
    return Given(given.name, tuple(record for record, _ in kept), tuple(folder for _, folder in kept))


def _hint_of(path: Path) -> str:
    """What to name instead of a folder without a log."""
    if series := next((at for at in (path, environ_home() / path) if (at / SERIES_FILE).is_file()), None):
        return f"one launch of the series is a run: name one of {series / LAUNCHES}/*"
    if (path.parent / SERIES_FILE).is_file():
        return f"name the series itself: {path.parent}"
    if path.is_dir() and any(map(is_started, path.iterdir())):
        return f"name the runs in it one by one: {path}/*"
    return "name runs (`busbw list`), logs or folders of logs"


def is_named(word: str) -> bool:
    """Whether a word gives its arm a name."""
    return _named(word) is not None


def _named(word: str) -> re.Match[str] | None:
    return None if Path(word).exists() else _NAMED.fullmatch(word)


def _name_of(word: str, records: Sequence[RunRecord]) -> str:
    setups = {setup(record) for record in records if record.source is not None}
    if len(records) == 1 and records[0].run_id:
        return records[0].run_id
    if len(setups) == 1 and "" not in setups:
        return f"setup {setups.pop()}"
    return Path(word).name


def _unique(arms: list[Given]) -> tuple[Given, ...]:
    """Names are how arms are told apart."""
    counts: dict[str, int] = defaultdict(int)
    made = []
    for arm in arms:
        counts[arm.name] += 1
        name = arm.name if counts[arm.name] == 1 else f"{arm.name} ({counts[arm.name]})"
        made.append(Given(name, arm.records, arm.folders))
    return tuple(made)


def read_records(word: str) -> list[tuple[RunRecord, Path | None]]:
    """All records of a run's name, its folder, a log, or a folder of logs. Raises UsageError."""
    path = Path(word)
    if path.is_file():
        return [(record, None) for record in read_log(path)]
    if _is_log_folder(path):
        from busbw.importers.files import log_files

        return [(record, None) for file in log_files(path) for record in read_log(file)]
    folder = find_run(word, environ_home())
    if not is_started(folder):
        raise UsageError(
            f"the run in {folder} never started", hint="log/ranks.log there is what its ranks said"
        )
    return [(read_record(folder), folder)]


def _is_log_folder(path: Path) -> bool:
    return path.is_dir() and not is_started(path) and not (path / "request" / "request.json").is_file()


def read_log(path: Path) -> list[RunRecord]:
    """Every table of a log, not stored. A file of a test without a table is a test that failed.

    Raises UndecidedError where the log does not say its operation or ranks.
    """
    from busbw.errors import UndecidedError

    try:
        return _read_log(path)
    except UndecidedError as error:
        # Only `busbw import` has the flags that its own hint names.
        hint = f"keep it as a run: `busbw import {path} --op NAME` (--ranks N), and name that run"
        raise UndecidedError(f"{path}: {error}", hint=hint) from error


def _read_log(path: Path) -> list[RunRecord]:
    from busbw.importers.assemble import Origin, assemble
    from busbw.importers.decide import Given as Stated
    from busbw.importers.files import read_file, without_rows
    from busbw.importers.labels import DEFAULTS, labels
    from busbw.importers.operations import operation

    reading = read_file(path).with_all_told()
    found = labels(str(path), DEFAULTS)
    tables = reading.tables
    if not tables and operation(found.get("test", "")):
        tables = (without_rows(),)
    return [
        assemble(
            table,
            Origin(
                path=reading.path,
                sha256=reading.sha256,
                table=number,
                log_lines=reading.lines,
                created=reading.created or datetime.now(UTC).isoformat(timespec="seconds"),
                created_from=reading.created_from,
                labels=found,
                evidence=reading.evidence,
                environment=reading.environment,
                last_words=reading.last_words,
            ),
            Stated("", None, {}),
            run_id=_log_name(reading, number),
        )
        for number, table in enumerate(tables, 1)
    ]


def _log_name(reading: Reading, number: int) -> str:
    name = Path(reading.path).name
    return f"{name} table {number}" if len(reading.tables) > 1 else name


def _trees(folder: Path) -> tuple[Tree, ...]:
    """The setups of a folder of logs, section by section. A setup that is alone in one is told of."""
    trees = []
    for name, records in _sections([record for record, _ in read_records(str(folder))]):
        setups: dict[str, list[RunRecord]] = defaultdict(list)
        for record in records:
            setups[setup(record)].append(record)
        arms = tuple(
            each_once(Given(f"setup {one}" if one else "no setup", tuple(own), (None,) * len(own)))
            for one, own in sorted(setups.items())
        )
        if len(arms) > 1:
            trees.append(Tree(name, arms))
        else:
            words = f"{arms[0].name}{name and f' ({name})'}: its logs ({len(records)})"
            print(f"warning: {words} are compared with nothing: no other setup is there", file=sys.stderr)
    if not trees:
        raise UsageError(
            f"the paths of the logs in {folder} name no two setups",
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
        place = [f"{count} nodes"] * bool(count)
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
