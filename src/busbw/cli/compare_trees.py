"""What is compared with what: setups that folders of logs have, by number of nodes and version."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.cli.compare_inputs import (
    Found,
    Given,
    each_once,
    is_log_folder,
    read_compared,
    read_records,
    setups_of,
    unique,
)
from busbw.errors import UsageError
from busbw.judge.compare_arms import nodes, setup, version_label
from busbw.model.record import NOT_STATED, RunRecord


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
