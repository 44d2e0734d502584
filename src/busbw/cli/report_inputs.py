"""Words of ``busbw report`` to what it shows: runs and logs with their diagnosis, hunts, series of setups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw import setup_series
from busbw.analysis.compare import compare_all
from busbw.analysis.compare_setups import choices, effects, reaches
from busbw.cli.compare import series_folder
from busbw.cli.compare_inputs import read_arm
from busbw.cli.compare_series import arms_by_nodes
from busbw.cli.diagnose import diagnosed
from busbw.record.results import read_rounds
from busbw.reports.hunt import lost_rounds
from busbw.reports.reported import Reported
from busbw.reports.view import Hunted, Series, Shown

if TYPE_CHECKING:
    from busbw.model.record import RunRecord

_STAMP: Final = len("20261122-181502")  # the part of a run's name that tells it from others


def shown(words: Sequence[str]) -> tuple[Shown, ...]:
    """Everything that was named, the last run where nothing was; names are made unique. Raises UsageError."""
    found: list[Shown] = []
    several = len(words) > 1
    for word in words or ("last",):
        if (folder := series_folder(word)) is not None:
            found.append(_series(folder))
            continue
        given = read_arm(word)
        for record, folder in zip(given.records, given.folders, strict=True):
            name = given.name if len(given.records) == 1 else record.run_id or given.name
            if several and name == record.run_id:
                name = name[:_STAMP]
            taken = sum(other.name.partition(" #")[0] == name for other in found)
            found.append(_run(f"{name} #{taken + 1}" if taken else name, record, folder))
    return tuple(found)


def _run(name: str, record: RunRecord, folder: Path | None) -> Reported | Hunted:
    if record.plan.hunt is not None:
        rounds = read_rounds(folder) if folder is not None else ()
        if folder is not None and (lost := lost_rounds(record, rounds)):
            print(f"warning: {folder.name}: {lost}", file=sys.stderr)
        return Hunted(name, record, rounds)
    each = diagnosed(record, folder)
    subject = each.subject
    return Reported(
        name=name,
        record=record,
        expectation=subject.expectation,
        wires=subject.wires,
        answers=each.answers,
        conclusions=each.conclusions,
        samples=subject.samples,
        digests=subject.digests,
    )


def _series(folder: Path) -> Series:
    series, records = setup_series.read_series(folder)
    compared = compare_all(arms_by_nodes(series, series.names, records))
    made = tuple(zip(series.nodes, compared, strict=True))
    launches = [outcome for outcome in series.outcomes if not outcome.skipped]
    first = made[0][1].baseline
    facts = {
        "series": f"{len(series.order)} blocks in random order, seed {series.seed}",
        "launches": f"{len(launches)}, of which {sum(bool(each.error) for each in launches)} failed",
        "ranks": f"{first.ranks or 'unknown'}"
        + (f", {first.facts['device']}" if "device" in first.facts else ""),
        "library": first.facts.get("version", ""),
        "measured": first.facts.get("created", ""),
        "time": first.definition,
        "stopped": series.stopped,
    }
    return Series(
        folder.name,
        tuple((name, value) for name, value in facts.items() if value),
        series.setups,
        reaches(series.names, series.outcomes, records),
        made,
        tuple((nodes, effect) for nodes, comparison in made for effect in effects(comparison)),
        tuple((nodes, choice) for nodes, comparison in made for choice in choices(comparison)),
    )
