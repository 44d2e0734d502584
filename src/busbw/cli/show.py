"""``busbw show``: an earlier run, again, by replaying its record as events; or what its samples tell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.analysis.run import started_folder
from busbw.cli.samples import samples_and_digests, say_damage
from busbw.errors import ExitCode, UsageError
from busbw.model.event import EventKind, event
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.record.folder import launch_folders
from busbw.record.read import read_record
from busbw.record.results import read_rounds
from busbw.reports.hunt import lost_rounds
from busbw.reports.live import FORMATS, HUNT, PREFLIGHT, create

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.analysis.detail import Detail
    from busbw.analysis.distribution import Distribution
    from busbw.analysis.ranks import RankTable

    Rows = npt.NDArray[np.void]
    Names = tuple[str, ...]
    Part = RankTable | Distribution | Detail


def show(
    run: str, format_name: str, *, ranks: bool = False, histogram: bool = False, case: int | None = None
) -> ExitCode:
    """Print a record as `busbw run` would have, or parts of it; exit code 0 whatever the run's own was.

    ``ranks`` compares the ranks of each case, ``histogram`` draws its samples; ``case`` takes one case, and
    alone prints everything about it.
    """
    if format_name not in FORMATS:
        raise UsageError(f"unknown format {format_name!r}", hint=f"use one of: {', '.join(FORMATS)}")
    folder = started_folder(run)
    record = read_record(folder)
    names: Names = tuple(name for name, asked in (("ranks", ranks), ("histogram", histogram)) if asked)
    if names or case is not None:
        _show_parts(folder, record, _cases(record, case), format_name, names or ("detail",))
    else:
        say_damage(folder, record)
        _replay(folder, record, format_name)
    if record.error:
        print(f"the run {record.status.value}: {record.error}", file=sys.stderr)
    elif record.status is RunStatus.INTERRUPTED:
        print("the run was interrupted: what is shown is what was kept until then", file=sys.stderr)
    return ExitCode.OK


def _replay(folder: Path, record: RunRecord, format_name: str) -> None:
    stops = record.plan.preflight.stops and format_name == "table"
    shown = f"{HUNT}{format_name}" if record.plan.hunt is not None and format_name != "jsonl" else format_name
    display = create(PREFLIGHT if stops else shown, sys.stdout, sys.stderr, live=False)
    for finding in record.findings:
        display.handle(event(EventKind.FINDING, finding=finding))
    if record.world is not None and record.method is not None:
        display.handle(
            event(
                EventKind.HEADER,
                run_id=record.run_id,
                folder=str(folder),
                busbw_version=record.busbw_version,
                plan=record.plan,
                world=record.world,
                method=record.method,
                **({} if record.source is None else {"source": record.source}),
            )
        )
    rounds = read_rounds(folder)
    if lost := lost_rounds(record, rounds):
        print(f"warning: {folder.name}: {lost}", file=sys.stderr)
    for tested in rounds:
        display.handle(event(EventKind.ROUND, tested=tested))
    if record.hunt:
        display.handle(event(EventKind.VERDICT, hunt=record.hunt))
    for result in record.finished:
        display.handle(event(EventKind.CASE, result=result))
    if record.memory_bytes:
        display.handle(event(EventKind.MEMORY, most_bytes=record.memory_bytes))
    display.handle(event(EventKind.END, status=record.status.value, folder=str(folder)))
    display.close()


def _cases(record: RunRecord, case: int | None) -> Sequence[int]:
    """The case that was asked for, or all that were timed."""
    if case is None:
        timed = [result.case for result in record.results if result.time_ns is not None]
        if not timed:
            raise UsageError(
                "no case of this run was timed", hint="`busbw show` without flags has what it did"
            )
        return timed
    if not 0 <= case < len(record.plan.cases):
        raise UsageError(
            f"no case {case}: the run has 0 to {len(record.plan.cases) - 1}",
            hint="count as the table goes, the two placements of a size one after the other",
        )
    return [case]


def _show_parts(
    folder: Path, record: RunRecord, cases: Sequence[int], format_name: str, names: Names
) -> None:
    if format_name not in {"table", "json"}:
        raise UsageError(f"--format {format_name} has no form for parts of a run", hint="use table or json")
    samples, digests = samples_and_digests(folder, record, of=cases, named=False)
    if names != ("detail",) and not len(samples) and not len(digests):
        _refuse_series(folder, names)
    parts: list[tuple[str, Part]] = []
    for case in cases:
        try:
            parts += _parts(record, case, samples, digests, names)
        except UsageError as error:
            if len(cases) == 1:
                raise
            # The samples of a case can be missing from a run that was killed; the others are still there.
            print(f"warning: {error.message}", file=sys.stderr)
    if format_name == "json":
        print(json.dumps([{"part": name, **asdict(part)} for name, part in parts], indent=1))
        return
    for position, (_, part) in enumerate(parts):
        if position:
            print("#")
        _print(record, part)


def _refuse_series(folder: Path, names: Names) -> None:
    """Raises UsageError where the run is several launches: their samples are in their own folders."""
    first = next(iter(launch_folders(folder)), None)
    if first is not None:
        flags = " ".join(f"--{name}" for name in names)
        raise UsageError(
            "this run is the summary of several launches, and has no samples of its own",
            hint=f"each launch is a run: `busbw show {first} {flags}`",
        )


def _parts(
    record: RunRecord, case: int, samples: Rows, digests: Rows, names: Names
) -> Iterator[tuple[str, Part]]:
    from busbw.analysis.detail import detail
    from busbw.analysis.distribution import distributions
    from busbw.analysis.ranks import rank_table

    if "ranks" in names:
        yield "ranks", rank_table(record, case, samples, digests)
    if "histogram" in names:
        for spread in distributions(case, record.plan.timing.time, samples):
            yield "histogram", spread
    if "detail" in names:
        yield "detail", detail(record, case, samples)


def _print(record: RunRecord, part: Part) -> None:
    from busbw.analysis.distribution import Distribution
    from busbw.analysis.ranks import RankTable
    from busbw.reports.ranks import rank_lines

    if isinstance(part, RankTable):
        print(*rank_lines(record.plan, part), sep="\n")
    elif isinstance(part, Distribution):
        _print_histogram(record, part)
    else:
        print(*_detail_lines(record, part), sep="\n")


def _print_histogram(record: RunRecord, spread: Distribution) -> None:
    from busbw.reports import histogram

    time = (record.method or Method()).time
    print(*histogram.head(record.plan, spread, time), sep="\n")
    if sys.stdout.isatty() and sys.stdout.encoding.lower().startswith("utf"):
        from rich.console import Console

        Console(highlight=False).print(*histogram.coloured(spread), sep="\n", soft_wrap=True)
    else:
        print(*histogram.plain(spread), sep="\n")
    print(*histogram.foot(spread), sep="\n")


def _detail_lines(record: RunRecord, told: Detail) -> Iterator[str]:
    from busbw.reports.table import describe_case

    yield f"# case     {told.case}: {describe_case(record.plan.cases[told.case])}"
    width = max(len(fact.name) for fact in (*told.stored, *told.sampled))
    yield from (f"{fact.name:<{width}}  {fact.value}" for fact in told.stored)
    if told.sampled:
        time = (record.method or Method()).time
        yield f"# samples  per call, of all in the record, flagged ones too; the run's number is the {time}"
        yield from (f"{fact.name:<{width}}  {fact.value}" for fact in told.sampled)
    else:
        yield "# samples  none in the record"
