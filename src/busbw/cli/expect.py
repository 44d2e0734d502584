"""``busbw expect``: is a run as it should be?"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal

from busbw.cli.app import PRINTED, RunOrLog, print_notes
from busbw.cli.output import as_json, show, write_for_ci
from busbw.errors import ExitCode, UsageError
from busbw.files import read_input
from busbw.judge.compare_arms import make_arm
from busbw.judge.expectation import (
    ONE_LAUNCH_TOLERANCE,
    Expectation,
    Gate,
    Judged,
    Judgement,
    Least,
    expect,
    gate_of,
    overall,
)
from busbw.judge.kept import launches_of_machine
from busbw.judge.launch_history import earlier_runs, prior_of
from busbw.judge.own_reference import launches_of, reference_of, refuse_several_kinds
from busbw.judge.references import load
from busbw.judge.references.reference import Reference
from busbw.judge.traffic import settings_of
from busbw.judge.wires import Wires, wires_from_topology
from busbw.model.collective import collective, known_collective
from busbw.model.record import RunRecord, RunStatus
from busbw.plan.flags.compare import ExpectSettings
from busbw.record.folder import environ_home
from busbw.report import ci
from busbw.report import compare_expectation as report
from busbw.report.console import columns, print_lines
from busbw.report.fields import UNBOUND, facts
from busbw.units import first_of, format_size, parse_size

_REPLACE_HINT: Final = "save it under another name, or add --replace"


def expect_command(
    run: RunOrLog = "last",
    /,
    *,
    options: ExpectSettings = ExpectSettings(),
    format: Annotated[Literal["table", "csv", "json"], PRINTED] = "table",  # noqa: A002
) -> ExitCode:
    """Judge a run, a log, or NAME=LOG,LOG of several launches. 0 as expected, 1 below, 3 where there is no
    reference or a case is undecided. Raises UsageError.
    """
    if options.list:  # those that can be used first
        for each in sorted((*own_references(), *load.built_in()), key=lambda each: bool(each.left_out)):
            what, details = report.reference_lines(each)
            print_lines([what, f"    {details}"])
        return ExitCode.OK
    from busbw.cli.compare_inputs import each_once, read_compared

    if options.replace and options.save is None:
        raise UsageError("--replace needs --save", hint="add --save NAME, or leave --replace out")
    given = read_compared(run)
    if options.save is not None:
        _save(options.save, given.records, replace=options.replace)
        return ExitCode.OK
    return judge(each_once(given)[0].records, options, format, run)


@dataclass(frozen=True)
class Held:
    """A run held against its references, and a line and an answer for each bandwidth of --least."""

    expectation: Expectation
    gates: tuple[tuple[str, Gate], ...]

    @property
    def code(self) -> ExitCode:
        """0 as expected, 1 below, 3 where nothing can be said."""
        expectation, gates = self.expectation, [gate for _, gate in self.gates]
        failed = expectation.count(Judgement.FAILED) or expectation.arm.failures
        if expectation.count(Judgement.BELOW) or failed or Gate.FAIL in gates:
            return ExitCode.BAD_VERDICT
        if expectation.count(Judgement.UNDECIDED) or Gate.UNDECIDED in gates or expectation.arm.lacking:
            return ExitCode.UNDECIDED
        return ExitCode.OK if expectation.count(Judgement.EXPECTED) or gates else ExitCode.UNDECIDED


def judge(records: Sequence[RunRecord], options: ExpectSettings, format_name: str, name: str) -> ExitCode:
    """Print the verdict on one run's records, which commands call ``name``, and give its exit code."""
    held = hold(records, options)
    show(
        format_name,
        lines_of(held, name, rows=options.all, width=columns(UNBOUND)),
        json=lambda: as_json(fields_of(held)),
        csv=lambda: report.csv_text(held.expectation),
    )
    write_for_ci([ci.of_expectation(held.expectation, held.gates)], options)
    return held.code


def hold(records: Sequence[RunRecord], options: ExpectSettings) -> Held:
    """The verdict on one run's records. Raises UsageError."""
    wires = None
    if options.topology is not None:
        text = read_input(options.topology, "name a file that NCCL_TOPO_DUMP_FILE wrote")
        wires = wires_from_topology(text, settings_of(records[0]))
    expectation = expected_of(records, options, wires=wires)
    return Held(expectation, tuple(_gate(expectation, least) for least in _least(options.least)))


def expected_of(
    records: Sequence[RunRecord], options: ExpectSettings | None = None, *, wires: Wires | None = None
) -> Expectation:
    """A run against the references that were named, else those of this home and busbw's own. Where none of
    them fits, against earlier runs of its machine. Times under a profiler are held against nothing.
    """
    options = options or ExpectSettings()
    references: tuple[Reference, ...] = ()
    if options.reference and not records[0].profiled:
        references = tuple(each for name in options.reference for each in load.find(name, environ_home()))
    elif not records[0].profiled:
        references = (*own_references(), *load.built_in())
    launches = launches_of_machine(records[0])
    held = partial(
        expect,
        records,
        named=bool(options.reference),
        same_version=options.same_version,
        tolerance=options.tolerance,
        detect=options.detect,
        prior=prior_of(launches, records[0]),
        wires=wires,
    )
    found = held(references)
    is_held = bool(found.references or options.reference or records[0].profiled)
    if is_held or len(records) > 1 or not launches:
        return found
    earlier = earlier_runs(launches, records[0])
    return held(earlier) if earlier else found


def own_references() -> tuple[Reference, ...]:
    """Those in the home of the runs; a warning for each file that is bad and therefore left out."""
    found = load.saved(environ_home())
    for error in found.left_out:
        print(f"warning: this reference cannot be read: {error.message}", file=sys.stderr)
    return found.references


_MOST_NAMED: Final = 4  # cases of a gate
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
    """One line, and whether every case from the size on reaches the bandwidth: one that failed, or whose data
    were wrong, does not, and one that was not run is not known to.
    """
    held = [case for case in expectation.cases if least.of(case.key.collective, case.key.size_bytes)]
    judged = [(case, gate) for case in held if (gate := _reaches(case, least.least_gb_per_s)) is not None]
    died = expectation.arm.failures.items()
    lost = [f"{name}: {each.why}" for name, each in died if least.operation in ("", name) or name == "all"]
    name = f"{least.least_gb_per_s:g} GB/s from {format_size(least.from_bytes)} on"
    name = f"{least.operation}: {name}" if least.operation else name
    if not judged and not lost:
        return f"{name}: undecided: no case is that large", Gate.UNDECIDED
    gate = overall([each for _, each in judged] + [Gate.FAIL for _ in lost])
    if gate is Gate.PASS:
        return f"{name}: {gate} ({len(judged)} cases)", gate
    bad = [
        f"{format_size(case.key.size_bytes)} {case.measured_gb_per_s:.4g}"
        if case.measured_gb_per_s is not None
        else f"{format_size(case.key.size_bytes)}: {case.why}"
        for case, each in judged
        if each is gate
    ]
    where = first_of([*lost, *bad] if gate is Gate.FAIL else bad, _MOST_NAMED)
    return f"{name}: {gate} ({where})", gate


def _reaches(case: Judged, least_gb_per_s: float) -> Gate | None:
    """None for a case that has no bus bandwidth by its nature, as on one rank."""
    if case.answer is Judgement.FAILED:
        return Gate.FAIL
    if case.measured_gb_per_s is None:
        return Gate.UNDECIDED if case.why else None
    return gate_of(least_gb_per_s, case.measured_gb_per_s, case.low_gb_per_s, case.high_gb_per_s)


def fields_of(held: Held) -> dict[str, Any]:
    """Everything, as plain values."""
    return report.expectation_fields(held.expectation, [text for text, _ in held.gates])


def lines_of(held: Held, name: str, *, rows: bool = False, width: int = UNBOUND) -> Iterator[str]:
    """As a table, on a terminal's ``width``; commands call the run ``name``."""
    yield from report.table(held.expectation, rows=rows, columns=width)
    yield from facts(("gate", text) for text, _ in held.gates)
    yield report.next_line(held.expectation, name)


def _save(name: str, records: Sequence[RunRecord], *, replace: bool) -> None:
    """Raises UsageError where the records are not launches of one thing, or the name is taken."""
    if load.is_saved(name, environ_home()) and not replace:
        raise UsageError(f"a reference named {name} exists", hint=_REPLACE_HINT)
    # Operations that no reference can be of, with a note of each.
    foreign = {
        operation: f"{operation} is left out: busbw has no such operation"
        for operation in sorted({case.collective for record in records for case in record.plan.cases})
        if known_collective(operation) is None
    }
    of = [{case.collective for case in record.plan.cases} or {"none"} for record in records]
    records = [each for each, own in zip(records, of, strict=True) if not own <= foreign.keys()] or records
    refuse_several_kinds(name, records)
    made = reference_of(name, records[0], launches_of(records), records[1:])
    lacks = _lacks(name, records)
    if not made:
        raise UsageError("the run has no bus bandwidth", hint="save a run with two ranks or more")
    _refuse_uneven(name, made, lacks)
    path = load.save(tuple(made), name, environ_home())
    launches = max(reference.launches for reference in made)
    print(f"saved {', '.join(reference.name for reference in made)} ({launches} launches) in {path}")
    notes = [*lacks, *make_arm(name, records).merged, *foreign.values()]
    points = [point for reference in made for point in reference.points]
    if alone := sum(len(point.times_us) < 2 for point in points):
        why = f"one launch does not show how launches differ ({alone} of {len(points)} points)"
        less = f"a run may be {ONE_LAUNCH_TOLERANCE:.0%} below it; `busbw run --launches 10` shows it"
        notes.append(f"{why}: {less}")
    print_notes(notes)


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


def _refuse_uneven(name: str, made: Sequence[Reference], lacks: Sequence[str]) -> None:
    """Points of fewer launches, since some died, would be taken for as good as the others."""
    for reference in made:
        counts = {len(point.times_us) for point in reference.points}
        if lacks and len(counts) > 1:
            raise UsageError(
                f"{name} would mix points from {min(counts)} and {max(counts)} launches: {lacks[0]}",
                hint="leave out runs that died or lost rows, or measure them again",
            )
