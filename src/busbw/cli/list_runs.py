"""``busbw list``: earlier runs, newest first."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from busbw.cli.app import SELECTION, TextOrJson, positional
from busbw.errors import BusbwError, ExitCode, UnknownWord
from busbw.judge import compare_arms
from busbw.model.collective import COLLECTIVES
from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import Status
from busbw.plan.flags.list import ListSettings
from busbw.record import folder as folders
from busbw.record.close import requested
from busbw.record.owner import is_abandoned
from busbw.record.read import read_record
from busbw.record.selection import selection_of
from busbw.report.fields import values_of
from busbw.report.run_list import FIELDS, Listed, table
from busbw.units import counted

NOT_STARTED = "not started"
_STAMP = len("20261121-181502")
_KINDS = ("isolate", "pairs", "rails", "preflight", "exec")
_WORDS = {"healthy": "healthy", "slow": "SLOW", "undecided": "undecided"}


def list_runs(
    *runs: Annotated[str, positional(f"Only runs for which all of these hold: {SELECTION}.")],
    format: TextOrJson = "table",  # noqa: A002
    settings: ListSettings = ListSettings(),
) -> ExitCode:
    """One line a run; one that cannot be read is listed with the reason, not left out. Raises UsageError."""
    found = folders.run_folders(folders.environ_home())
    chosen = selection_of((*runs, *settings.terms), datetime.now(UTC))
    named = [folder for folder in found if chosen.fits_folder(folder.name, folders.made(folder))]
    if chosen.needs_record or settings.operation or settings.status:
        every = list(_rows(named, found))
        # An operation, a kind of run, or a word that any of these runs has.
        there = (word for row in every for word in (row.kind, *row.operations))
        known = dict.fromkeys((*(row.name for row in COLLECTIVES), *_KINDS, *there))
        if (name := settings.operation) and name not in known:
            raise UnknownWord(f"unknown operation {name!r}", name, known)
        fitting = [row for row in every if chosen.fits_record(row.tags, row.hosts, row.version)]
        if name:
            fitting = [row for row in fitting if name in (row.kind, *row.operations)]
        if status := settings.status:
            is_wrong = status == "wrong"
            fitting = [
                row
                for row in fitting
                if row.status == status or (is_wrong and row.verdict.startswith("WRONG"))
            ]
        rows, more = fitting[: settings.limit], len(fitting) - settings.limit
    else:  # only those that are shown are read
        rows, more = list(_rows(named[: settings.limit], found)), len(named) - settings.limit
    if format == "json":
        print(json.dumps([values_of(FIELDS, row) for row in rows], indent=1))
    elif rows:
        _print(rows)
    else:
        none = f"no run in {folders.environ_home()} yet; measure one: `busbw run all_reduce`"
        print("no run fits; `busbw list` shows all" if found else none, file=sys.stderr)
    if more > 0:
        print(f"and {more} more; -n {settings.limit + more} shows all", file=sys.stderr)
    return ExitCode.OK


def _print(rows: Sequence[Listed]) -> None:
    now = datetime.now(UTC)
    if not sys.stdout.isatty():
        print(*table(rows, now, None), sep="\n")
        return
    from rich.text import Text

    from busbw.report.console import CleanConsole

    heading, *lines = table(rows, now, shutil.get_terminal_size().columns)
    styles = ["dim", *("red" if row.is_bad else "" for row in rows)]
    console = CleanConsole(highlight=False)
    for line, style in zip((heading, *lines), styles, strict=True):
        console.print(Text(line, style), soft_wrap=True)


def _rows(wanted: Sequence[Path], every: Sequence[Path]) -> Iterator[Listed]:
    """The runs, newest first, with the least of their ids that means none of ``every`` other."""
    stamps = Counter(folder.name[:_STAMP] for folder in every)
    for folder in wanted:
        short = folder.name[:_STAMP]
        yield row_of(folder, short if stamps[short] == 1 else folder.name)


def row_of(folder: Path, short: str) -> Listed:
    """One run folder, also where it cannot be read. ``short`` is the least of its id that means no other."""
    started = folders.is_started(folder)
    common: dict[str, Any] = {"run": folder.name, "short": short, "made": folders.made(folder)}
    try:
        if not started and (folder / folders.SERIES_FILE).is_file():
            return Listed(**common, **_of_series(folder))
        if not started and not (folder / folders.REQUEST_FILE).is_file():
            return Listed(**common, kind="series", status=NOT_STARTED, verdict=NOT_STARTED)
        record = read_record(folder) if started else requested(folder)
    except BusbwError as error:
        return Listed(**common, kind="run", status="unreadable", verdict=f"unreadable: {error.message}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Listed(**common, kind="run", status="unreadable", verdict=f"unreadable: {error!r}")
    status = record.status.value if started else NOT_STARTED
    if started and record.status is RunStatus.RUNNING and is_abandoned(folder):
        status = "killed"  # nobody is left to write its end
    return Listed(**common, status=status, **_of_record(folder, record, status))


def _of_record(folder: Path, record: RunRecord, status: str) -> dict[str, Any]:
    cases = record.plan.cases
    hunt = record.plan.hunt
    sizes = [hunt.size_bytes] if hunt else [case.requested_bytes or case.size_bytes for case in cases]
    devices = record.world.known_devices if record.world is not None else ()
    log = Path(record.source.path).name if record.source is not None else ""
    peaks = [found for _, result in record.timed if (found := result.busbw_gb_per_s) is not None]
    kind = _kind(record)
    return {
        "kind": kind,
        "verdict": _verdict(folder, record, kind, status),
        "name": str(record.settings.get("name") or log),
        "tags": tuple(record.settings.get("tag") or ()),
        "hosts": record.world.known_hosts if record.world is not None else (),
        "version": compare_arms.version(record),
        "backend": record.plan.backend,
        "ranks": record.world.size if record.world is not None else None,
        "cases": f"{len(record.finished)}/{len(cases)}",
        "operations": tuple(dict.fromkeys(case.collective for case in cases)) or (kind,),
        "sizes": (min(sizes), max(sizes)) if sizes else None,
        "device": ", ".join(devices).replace("NVIDIA ", ""),
        "peak_busbw_gb_per_s": max(peaks, default=None),
    }


def _kind(record: RunRecord) -> str:
    if record.plan.hunt is not None:
        return record.plan.hunt.kind
    if record.settings.get("stop_after"):
        return "preflight"
    is_command = "command" in record.settings and "deliver" not in record.settings
    return "exec" if is_command else "run"


def _verdict(folder: Path, record: RunRecord, kind: str, status: str) -> str:
    """The worst that is known of a run: how it ended, else what it found."""
    if kind == "exec":
        ended = folders.read_ended(folder)
        return "no end seen" if ended is None else f"exit {ended.shell_code}"
    wrong = sum(result.status is Status.WRONG for result in record.results)
    if wrong:
        return f"WRONG data in {counted(wrong, 'case')}"
    if status != RunStatus.COMPLETE:
        return status
    if kind == "preflight":
        found = Counter(finding.severity.value for finding in record.findings)
        said = [counted(found[word], word) for word in ("error", "warning") if found[word]]
        return ", ".join(said) or "nothing found"
    if fields_of := record.hunt.get("fields"):
        slow = (
            (field, ",".join(name for suspect in field["suspects"] for name in suspect["names"]))
            for field in fields_of
        )
        words = (f"{_WORDS[field['decision']]} {names}".strip() for field, names in slow)
        return max(words, key=lambda word: word.startswith("SLOW"))
    return status


def _of_series(folder: Path) -> dict[str, Any]:
    """A series of setups: how many of its launches there are, and what the first of them measured."""
    from busbw.launch.series import read_plan

    series = read_plan(folder)
    launch = next((folder / each.folder for each in series.outcomes if each.folder and not each.error), None)
    record = read_record(launch) if launch is not None and folders.is_started(launch) else None
    first = _of_record(folder, record, RunStatus.COMPLETE) if record is not None else {}
    label = folders.label_of(folder)
    verdict = f"{len(series.outcomes)}/{series.planned} launches"
    return {
        **first,
        "kind": f"{len(series.setups)} setups",
        "status": "setups",
        "verdict": verdict,
        "cases": verdict.removesuffix(" launches"),
        "name": "" if label == "setups" else label,
        "tags": series.tags,
        "peak_busbw_gb_per_s": None,
    }
