"""``busbw show``: an earlier run, again, by replaying its record as events; or what its samples tell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from busbw.cli import output
from busbw.cli.app import PRINTED, RunName, flag
from busbw.cli.output import as_json
from busbw.cli.run_answer import answered
from busbw.cli.samples import samples_and_digests, say_damage
from busbw.errors import ExitCode, UsageError
from busbw.judge.run import started_folder
from busbw.model.event import EventKind, event
from busbw.model.plan import Plan
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.plan.flags.ranks import FormatName
from busbw.record.folder import (
    EVIDENCE_FOLDER,
    SERIES_FILE,
    TUNING_FILE,
    environ_home,
    find_run,
    launch_folders,
)
from busbw.record.read import read_record, read_rounds
from busbw.report import provenance as report
from busbw.report.console import columns, print_lines
from busbw.report.events import show_hang
from busbw.report.fields import UNBOUND, aligned
from busbw.report.hunt import lost_rounds
from busbw.report.live import Kind, create

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.judge.ranks import RankTable
    from busbw.judge.samples import Detail, Distribution

    Rows = npt.NDArray[np.void]
    Names = tuple[str, ...]
    # Its name, its values, and what makes its lines.
    Part = tuple[str, RankTable | Distribution | Detail, Callable[[], Iterable[str]]]


def show(
    run: RunName = "last",
    /,
    *,
    format: Annotated[FormatName, PRINTED] = "table",  # noqa: A002
    wide: Annotated[
        bool,
        flag(
            "Show everything on a terminal too: all columns, all tests of a hunt.", name=("--all", "--wide")
        ),
    ] = False,
    ranks: Annotated[bool, flag("Show its ranks: the slowest and the late.")] = False,
    histogram: Annotated[bool, flag("Show how the samples of a case spread.")] = False,
    case: Annotated[int | None, flag("Show one case; the first row of the table is 0.")] = None,
    provenance: Annotated[
        bool, flag("Show where it ran and with what: hosts, instances, nodes, pods, modules, libraries.")
    ] = False,
) -> ExitCode:
    """Print a record as `busbw run` would have, or parts of it; exit code 0 whatever the run's own was. A
    series of setups is compared.

    ``ranks`` compares the ranks of each case, ``histogram`` draws its samples; ``case`` takes one case, and
    alone prints everything about it. ``provenance`` is where the run was and with what, and nothing else.
    """
    is_whole = not (ranks or histogram or case is not None)
    if provenance:
        return _show_provenance(run, format, alone=is_whole)
    folder = find_run(run, environ_home())
    if (folder / SERIES_FILE).is_file() and is_whole:
        from busbw.cli.compare_series import show_series
        from busbw.plan.flags.compare import CompareSettings

        if format == "jsonl":
            raise UsageError("a series of setups has no events", hint="use --format table, csv or json")
        return show_series((folder,), CompareSettings(), format)
    if (folder / TUNING_FILE).is_file() and is_whole and format == "table" and not wide:
        from busbw.cli.kept_tuning import read_tuning
        from busbw.report import tune

        print_lines(tune.lines(read_tuning(folder), run))
        return ExitCode.OK
    folder = started_folder(folder)
    record = read_record(folder)
    names: Names = tuple(name for name, asked in (("ranks", ranks), ("histogram", histogram)) if asked)
    if names or case is not None:
        _show_parts(folder, record, _cases(record, case), format, names or ("detail",))
    else:
        say_damage(folder, record)
        _replay(folder, record, format, run, wide=wide)
    if record.error:
        print(f"the run {record.status.value}: {record.error}", file=sys.stderr)
        if record.hang is not None:
            show_hang(record.hang, sys.stderr)
    elif record.status is RunStatus.INTERRUPTED:
        print("the run was interrupted; only what it finished is shown", file=sys.stderr)
    return ExitCode.OK


def _kind(plan: Plan) -> Kind:
    if plan.hunt is not None:
        return Kind.HUNT
    if plan.soak is not None:
        return Kind.SOAK
    return Kind.PREFLIGHT if plan.preflight.stops else Kind.CASES


def _replay(folder: Path, record: RunRecord, format_name: str, name: str, *, wide: bool) -> None:
    kind = _kind(record.plan)
    display = create(format_name, sys.stdout, sys.stderr, kind=kind, wide=wide, live=False)
    for finding in record.findings:
        display.handle(event(EventKind.FINDING, finding=finding))
    is_headed = record.world is not None and record.method is not None
    if record.finished and not is_headed:
        print("warning: the record has no ranks, so its results are not shown", file=sys.stderr)
    if is_headed:
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
    for result in record.finished if is_headed else ():
        display.handle(event(EventKind.CASE, result=result))
    if record.memory_bytes:
        display.handle(event(EventKind.MEMORY, most_bytes=record.memory_bytes))
    answer = answered(record, folder, name)
    display.handle(event(EventKind.END, status=record.status.value, folder=str(folder), answer=answer))
    display.close()


def _cases(record: RunRecord, case: int | None) -> Sequence[int]:
    """The case that was asked for, or all that were timed."""
    if case is None:
        timed = [result.case for result in record.results if result.time_ns is not None]
        if not timed:
            raise UsageError(
                "no case of this run was timed", hint="leave the flags out to see what the run did"
            )
        return timed
    if not 0 <= case < len(record.plan.cases):
        raise UsageError(
            f"no case {case}: the run has 0 to {len(record.plan.cases) - 1}",
            hint="count from 0, out-of-place and in-place of each size in turn",
        )
    return [case]


def _show_parts(
    folder: Path, record: RunRecord, cases: Sequence[int], format_name: str, names: Names
) -> None:
    if format_name not in {"table", "json"}:
        raise UsageError(f"--format {format_name} cannot show parts of a run", hint="use table or json")
    samples, digests = samples_and_digests(folder, record, named=False)
    if names != ("detail",) and not len(samples) and not len(digests):
        first = next(iter(launch_folders(folder)), None)
        if first is not None:  # their samples are in their own folders
            flags = " ".join(f"--{name}" for name in names)
            raise UsageError(
                "this run is a summary of several launches, without samples of its own",
                hint=f"show one of its launches: `busbw show {first} {flags}`",
            )
    parts: list[Part] = []
    for case in cases:
        try:
            parts += _parts(record, case, samples, digests, names)
        except UsageError as error:
            if len(cases) == 1:
                raise
            # The samples of a case can be missing from a run that was killed; the others are still there.
            print(f"warning: {error.message}", file=sys.stderr)
    output.show(
        format_name,
        (
            line
            for position, (*_, lines) in enumerate(parts)
            for line in (*(["#"] if position else []), *lines())
        ),
        json=lambda: as_json([{"part": name, **asdict(part)} for name, part, _ in parts]),
    )


def _parts(record: RunRecord, case: int, samples: Rows, digests: Rows, names: Names) -> Iterator[Part]:
    from busbw.judge.ranks import rank_table
    from busbw.judge.samples import case_detail, distributions
    from busbw.report.ranks import rank_lines

    if "ranks" in names:
        ranks = rank_table(record, case, samples, digests)
        yield "ranks", ranks, partial(rank_lines, record.plan, ranks)
    if "histogram" in names:
        for spread in distributions(case, record.plan.timing.time, samples):
            yield "histogram", spread, partial(_histogram_lines, record, spread, digests)
    if "detail" in names:
        detail = case_detail(record, case, samples)
        yield "detail", detail, partial(_detail_lines, record, detail)


def _histogram_lines(record: RunRecord, spread: Distribution, digests: Rows) -> Iterator[str]:
    from busbw.report.plots_of_run import histogram
    from busbw.report.text_plots import drawing

    found = (each for each in record.results if each.case == spread.case)
    plot = histogram("", record.plan.cases[spread.case], next(found, None), spread, digests)
    yield f"# case     {spread.case}: {plot.title}"
    yield f"# samples  {plot.note}"
    yield f"# time     of one call; the run's number is the {(record.method or Method()).time}"
    yield from drawing(plot, columns(UNBOUND))
    yield from (f"# {line}" for line in aligned(plot.table.rows))


def _detail_lines(record: RunRecord, told: Detail) -> Iterator[str]:
    from busbw.report.header_footer import describe_case

    yield f"# case     {told.case}: {describe_case(record.plan.cases[told.case])}"
    width = max(len(fact.name) for fact in (*told.stored, *told.sampled))
    yield from (f"{fact.name:<{width}}  {fact.value}" for fact in told.stored)
    if record.plan.beside:
        from busbw.report import beside

        results = [result for result in record.results if result.case == told.case]
        yield from (line for line in beside.lines(record.plan, results) if line != "#")
    if told.sampled:
        time = (record.method or Method()).time
        yield f"# samples  per call, flagged ones included; the run reports the {time}"
        yield from (f"{fact.name:<{width}}  {fact.value}" for fact in told.sampled)
    else:
        yield "# samples  none in the record"


def _show_provenance(run: str, format_name: str, *, alone: bool) -> ExitCode:
    if not alone:
        raise UsageError(
            "--provenance is about the whole run, not its cases",
            hint="leave --ranks, --histogram and --case out",
        )
    if format_name not in ("table", "json"):
        raise UsageError(f"--format {format_name} cannot show provenance", hint="use table or json")
    folder = started_folder(run)
    files = [str(path.relative_to(folder)) for path in sorted((folder / EVIDENCE_FOLDER).glob("*"))]
    told = report.provenance(read_record(folder), files)
    output.show(format_name, report.provenance_lines(told), json=lambda: as_json(told))
    return ExitCode.OK
