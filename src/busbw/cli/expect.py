"""``busbw expect``: is a run as it should be?"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.analysis.compare_arms import make_arm
from busbw.analysis.expectation import (
    ONE_LAUNCH_TOLERANCE,
    Answer,
    Expectation,
    expect,
    variables_of,
)
from busbw.analysis.gates import PUBLISHED, Bound, Gate, Least, overall
from busbw.analysis.own_reference import (
    is_known,
    launches_of,
    reference_of,
    refuse_several_kinds,
    what_is_lost,
)
from busbw.analysis.wires import Wires, wires_from_topology
from busbw.cli.references import own_references
from busbw.errors import ExitCode, UsageError
from busbw.model.collective import collective
from busbw.model.record import RunRecord, RunStatus
from busbw.record.folder import environ_home
from busbw.references import load
from busbw.references.reference import log_deviation
from busbw.reports import compare_expectation as report
from busbw.settings.compare import ExpectSettings
from busbw.stats.prediction import WIDEST, least_share, more_launches
from busbw.units import format_size, parse_fraction, parse_size

if TYPE_CHECKING:
    from busbw.references.reference import Reference


_REPLACE_HINT: Final = "save it under another name, or add --replace"


def expect_command(run: str, options: ExpectSettings, format_name: str) -> ExitCode:
    """Judge a run, a log, or NAME=LOG,LOG of several launches. 0 as expected, 1 below, 3 where there is no
    reference or the noise decides. Raises UsageError.
    """
    if options.list:
        _list_references()
        return ExitCode.OK
    from busbw.cli.compare_inputs import each_once, read_compared

    if options.replace and options.save is None:
        raise UsageError("--replace is for what --save writes", hint="add --save NAME, or leave it out")
    given = read_compared(run)
    if options.save is not None:
        _save(options.save, given.records, replace=options.replace)
        return ExitCode.OK
    return judge(each_once(given).records, options, format_name)


def judge(records: Sequence[RunRecord], options: ExpectSettings, format_name: str) -> ExitCode:
    """Print the verdict on one run's records and give its exit code."""
    expectation = expect(
        records,
        _references(options.reference),
        known=load.built_in(),
        named=bool(options.reference),
        same_version=options.same_version,
        tolerance=parse_fraction(options.tolerance, "--tolerance") if options.tolerance else None,
        wires=_wires(options.topology, variables_of(records[0])),
    )
    gates = [_gate(expectation, least) for least in _least(options.least)]
    _print(expectation, gates, format_name)
    return _code(expectation, [gate for _, gate in gates])


def _references(names: tuple[str, ...]) -> tuple[Reference, ...]:
    if not names:
        return (*own_references(), *load.built_in())
    return tuple(reference for name in names for reference in load.find(name, environ_home()))


def _wires(topology: Path | None, variables: Mapping[str, str]) -> Wires | None:
    if topology is None:
        return None
    try:
        return wires_from_topology(topology.read_text(encoding="utf-8"), variables)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {topology}: {error}", hint="name a file of NCCL_TOPO_DUMP_FILE"
        ) from error


_LEAST_HINT: Final = "write --least 1G=340, or --least alltoall:1G=40 of one operation"


def _least(words: tuple[str, ...]) -> list[Least]:
    found = []
    for word in words:
        size, equals, least = word.partition("=")
        operation, colon, rest = size.rpartition(":")
        try:
            bound = Least(parse_size(rest), float(least), collective(operation).name if colon else "")
        except ValueError as error:
            raise UsageError(f"--least {word!r} is not SIZE=GB/s", hint=_LEAST_HINT) from error
        if not equals or not 0 < bound.least_gb_per_s < math.inf:  # nan is neither
            raise UsageError(f"--least {word!r} is not SIZE=GB/s", hint=_LEAST_HINT)
        found.append(bound)
    return found


def _gate(expectation: Expectation, least: Least) -> tuple[str, Gate]:
    """One line, and whether every case from the size on reaches the bandwidth."""
    judged = [
        (
            case,
            Bound(
                least.least_gb_per_s, case.measured_gb_per_s, case.low_gb_per_s, case.high_gb_per_s
            ).judge(),
        )
        for case in expectation.cases
        if least.of(case.key.collective, case.key.size_bytes) and case.measured_gb_per_s is not None
    ]
    name = f"{least.least_gb_per_s:g} GB/s from {format_size(least.from_bytes)} on"
    name = f"{least.operation}: {name}" if least.operation else name
    if not judged:
        return f"{name}: undecided, no case is that large", Gate.UNDECIDED
    gate = overall([each for _, each in judged])
    bad = [case for case, each in judged if each is gate] if gate is not Gate.PASS else []
    where = ", ".join(f"{format_size(case.key.size_bytes)} {case.measured_gb_per_s:.4g}" for case in bad[:4])
    return f"{name}: {gate}" + (f" ({where})" if where else f" ({len(judged)} cases)"), gate


def _print(expectation: Expectation, gates: Sequence[tuple[str, Gate]], format_name: str) -> None:
    if format_name == "json":
        sys.stdout.write(report.json_text(expectation, [text for text, _ in gates]))
        return
    if format_name == "csv":
        sys.stdout.write(report.csv_text(expectation))
        return
    print(*report.table(expectation), sep="\n")
    print(*(f"# gate     {text}" for text, _ in gates), sep="\n", end="\n" if gates else "")


def _code(expectation: Expectation, gates: Sequence[Gate]) -> ExitCode:
    failed = expectation.count(Answer.FAILED) or expectation.arm.failures
    if expectation.count(Answer.BELOW) or failed or Gate.FAIL in gates:
        return ExitCode.BAD_VERDICT
    if expectation.count(Answer.UNDECIDED) or Gate.UNDECIDED in gates or expectation.arm.lacking:
        return ExitCode.UNDECIDED
    known = expectation.count(Answer.EXPECTED) + expectation.count(Answer.ABOVE)
    return ExitCode.OK if known or gates else ExitCode.UNDECIDED


def _save(name: str, records: Sequence[RunRecord], *, replace: bool) -> None:
    """Raises UsageError where the records are not launches of one thing, or would replace what knows more."""
    foreign = _foreign(records)
    records = [record for record in records if not _operations(record) <= foreign.keys()] or records
    refuse_several_kinds(name, records)
    made = reference_of(name, records[0], launches_of(records), records[1:])
    lacks = _lacks(name, records)
    if not made:
        raise UsageError("the run has no bus bandwidth to keep", hint="save a run of two ranks or more")
    _refuse_uneven(name, made, lacks)
    before = _replaced(name, made, replace=replace)
    path = load.save(tuple(made), name, environ_home())
    launches = max(reference.launches for reference in made)
    print(f"saved {', '.join(reference.name for reference in made)} ({launches} launches) in {path}")
    if before:
        print(f"in place of {'; '.join(map(report.reference_line, before))}")
    for note in (*lacks, *foreign.values(), *_save_notes(made)):
        print(f"note: {note}", file=sys.stderr)


def _replaced(name: str, made: Sequence[Reference], *, replace: bool) -> tuple[Reference, ...]:
    """What is saved under the name. Raises UsageError where it knows what the new ones do not, or cannot be
    read.
    """
    try:
        before = load.saved_as(name, environ_home())
    except UsageError as error:
        if replace:
            return ()
        raise UsageError(f"{name} is there and not replaced: {error}", hint=_REPLACE_HINT) from error
    lost = what_is_lost(before, made)
    if lost and not replace:
        raise UsageError(f"{name} is there and not replaced: it has {lost}", hint=_REPLACE_HINT)
    return before


def _lacks(name: str, records: Sequence[RunRecord]) -> list[str]:
    """What the records do not have of what was to be measured."""
    arm = make_arm(name, records)
    ended = [
        f"{record.run_id} is {record.status}" + (f": {record.error}" if record.error else "")
        for record in records
        if record.source is None and record.status is not RunStatus.COMPLETE
    ]
    failed = [f"{operation} failed: {each.why}" for operation, each in arm.failures.items()]
    return [*arm.lacking, *(ended or failed)]


def _operations(record: RunRecord) -> set[str]:
    return {case.collective for case in record.plan.cases} or {"none"}


def _foreign(records: Sequence[RunRecord]) -> dict[str, str]:
    """Operations that no reference can be of, with a note of each."""
    found = {case.collective for record in records for case in record.plan.cases}
    return {
        operation: f"{operation} is left out: busbw has no such operation"
        for operation in sorted(found)
        if not is_known(operation)
    }


def _refuse_uneven(name: str, made: Sequence[Reference], lacks: Sequence[str]) -> None:
    """Points of fewer launches, since some died, would be taken for as good as the others."""
    for reference in made:
        counts = {len(point.times_us) for point in reference.points}
        if lacks and len(counts) > 1:
            raise UsageError(
                f"{name} would have points of {min(counts)} and of {max(counts)} launches: {lacks[0]}",
                hint="leave out what died or lost rows, or measure it again",
            )


def _save_notes(made: Sequence[Reference]) -> list[str]:
    """What a reference cannot be used for: it is better known before a run is held against it."""
    points = [point for reference in made for point in reference.points]
    alone = sum(log_deviation(point) is None for point in points)
    wide = [
        (deviation, len(point.times_us))
        for point in points
        if (deviation := log_deviation(point)) is not None
        and least_share(deviation, len(point.times_us), 1) < 1 - WIDEST
    ]
    notes = []
    if alone:
        notes.append(
            f"one launch does not show how launches differ ({alone} of {len(points)} points): a run may be"
            f" {ONE_LAUNCH_TOLERANCE:.0%} below it; `busbw run --launches 10` shows it"
        )
    if wide:
        needs = [more_launches(*each, 1) for each in wide]
        most = max((need.known for need in needs if need is not None), default=0)
        notes.append(
            f"{len(wide)} of {len(points)} points scatter too much for a run of one launch to be called"
            f" expected"
            + (f"; about {most} more launch{'es' if most != 1 else ''} would do for most" if most else "")
        )
    return notes


def _list_references() -> None:
    for reference in (*own_references(), *load.built_in()):
        print(report.reference_line(reference))
    print("# minima that somebody asks for, and whether they are used")
    for minimum in PUBLISHED:
        used = "used" if minimum.used else f"NOT USED: {minimum.reason}"
        print(
            f"{minimum.machine} {minimum.operation} {minimum.scope}: {minimum.least_gb_per_s:g} GB/s;"
            f" {minimum.source}; {used}"
        )
