"""An expectation as text: table, CSV, JSON. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from busbw.analysis.expectation import Answer, Expectation, Judged
from busbw.analysis.wires import Wires
from busbw.references.reference import Reference
from busbw.units import format_size

_NO_BOUND: Final = 0.01  # of what is expected
CSV_COLUMNS = (
    "collective", "dtype", "op", "placement", "size_bytes", "answer", "busbw_gb_per_s", "low_gb_per_s",
    "high_gb_per_s", "launches", "reference", "expected_gb_per_s", "interpolated", "ratio", "bound_gb_per_s",
    "algorithm", "limit_gb_per_s", "limit_model", "percent_of_limit", "wire", "wire_gb_per_s", "why",
    "pattern",
)  # fmt: skip


def table(expectation: Expectation) -> Iterator[str]:
    """Lines for people."""
    yield from _heading(expectation)
    last = None
    for case in expectation.cases:
        kind = case.key.kind
        if kind != last:
            yield f"# {kind}; busbw is ring-equivalent, GB/s = 10^9 bytes/s"
            yield (
                f"#{'size':>9} {'busbw':>9} {'95 % interval':>19} {'expected':>9} {'share':>6} {'least':>9}"
                f" {'limit':>8} {'%':>5} {'wire':>8}  answer"
            )
            last = kind
        yield _row(case)
    yield from _limits(expectation)
    counts = {answer: expectation.count(answer) for answer in Answer}
    words = [f"{count} {answer}" for answer, count in counts.items() if count]
    if failures := expectation.arm.failures:
        words.append(f"{len(failures)} {Answer.FAILED} before its first case")
    yield "# " + ", ".join(words)


def _heading(expectation: Expectation) -> Iterator[str]:
    arm = expectation.arm
    facts = [arm.facts[name] for name in ("version", "device") if name in arm.facts]
    facts = [*filter(None, (arm.where and f"in groups {arm.where}",)), *facts, arm.definition]
    yield f"# run      {arm.name}: {', '.join((f'{arm.ranks} ranks', *facts))}"
    for reference in expectation.references:
        yield f"# against  {reference_line(reference)}"
        if reference.note:
            yield f"#          {reference.note}"
    if not expectation.references:
        yield f"# against  no reference: {_none(expectation)}"
    yield from (f"# not      {name}: {why}" for name, why in expectation.unmatched.items())
    yield from (f"# note     {note}" for note in expectation.notes)
    yield f"# wires    {_wires(expectation.wires)}"


def _none(expectation: Expectation) -> str:
    """Why no reference was used."""
    if expectation.fitting:
        return f"{', '.join(expectation.fitting)} would do, but for what the rows say"
    if expectation.unmatched:
        return "none can be used"
    return "none is of this operation, ranks, nodes and device (--list has all)"


def reference_line(reference: Reference) -> str:
    """One reference: what it is of, with which versions, whose, and when."""
    stated = ""
    if reference.ranks_stated not in (None, reference.ranks):
        stated = f" (labelled {reference.ranks_stated}; busbw / algbw says {reference.ranks})"
    root = f" root {reference.root}" if reference.root is not None else ""
    pattern = f", {reference.pattern}" if reference.pattern else ""
    launches = f"{reference.launches} launches" if reference.launches > 1 else "one launch"
    settings = "".join(f", {name}={value}" for name, value in (reference.environment or {}).items())
    text = (
        f"{reference.name}: {reference.operation or 'operation not stated'}{root}{pattern},"
        f" {reference.ranks or '?'} ranks{stated}, {reference.machine or reference.device};"
        f" versions: {reference.versions_text}{settings}; {reference.date}, {launches}; {reference.source}"
    )
    return text + (f"; NOT USED: {reference.left_out}" if reference.left_out else "")


def _wires(wires: Wires) -> str:
    gpu = f"{wires.gpu_gb_per_s:.4g} GB/s" if wires.gpu_gb_per_s else "not known"
    network = f"{wires.network_gb_per_s:g} GB/s" if wires.network_gb_per_s else "not known"
    where = f"{wires.gpu_link} of a GPU {gpu}, {wires.nics} NICs of a node {network}"
    return f"{where}, {wires.rates} in one direction; {wires.source}"


def _row(case: Judged) -> str:
    interval = "n/a"
    if case.low_gb_per_s is not None and case.high_gb_per_s is not None:
        interval = f"{_number(case.low_gb_per_s)} to {_number(case.high_gb_per_s)}"
    limit = case.limit
    mark = "~" if case.interpolated else ""
    return (
        f"{format_size(case.key.size_bytes):>10} {_number(case.measured_gb_per_s):>9} {interval:>19}"
        f" {mark + _number(case.expected_gb_per_s):>9}"
        f" {'n/a' if case.ratio is None else f'{case.ratio:.0%}':>6} {_bound(case):>9}"
        f" {_number(limit.busbw_gb_per_s if limit else None):>8}"
        f" {'n/a' if limit is None or limit.percent is None else f'{limit.percent:.0f}':>5}"
        f" {_number(limit.wire_gb_per_s if limit else None):>8}  {case.answer}"
        + (f": {case.why}" if case.why else "")
    )


def _bound(case: Judged) -> str:
    """``none`` where the reference scatters so much that nothing is below what it asks for."""
    bound, expected = case.bound_gb_per_s, case.expected_gb_per_s
    return "none" if bound is not None and expected and bound < _NO_BOUND * expected else _number(bound)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3g}" if value < 10 else f"{value:.1f}"


def _limits(expectation: Expectation) -> Iterator[str]:
    models = dict.fromkeys(
        f"{case.limit.model}{f' ({case.algorithm} observed)' if case.algorithm else ''}"
        for case in expectation.cases
        if case.limit is not None
    )
    yield from (f"# limit    {model}" for model in models)
    if any(case.interpolated for case in expectation.cases):
        yield "# ~        between two sizes of the reference, on a straight line of logarithms"


def csv_text(expectation: Expectation) -> str:
    """One line a case, with a heading."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(case_fields(case) for case in expectation.cases)
    return out.getvalue()


def case_fields(case: Judged) -> dict[str, Any]:
    """One case as plain values, by CSV_COLUMNS."""
    limit = case.limit
    return {
        "collective": case.key.collective,
        "dtype": case.key.dtype,
        "op": case.key.op,
        "placement": case.key.placement,
        "size_bytes": case.key.size_bytes,
        "answer": case.answer.value,
        "busbw_gb_per_s": case.measured_gb_per_s,
        "low_gb_per_s": case.low_gb_per_s,
        "high_gb_per_s": case.high_gb_per_s,
        "launches": case.launches,
        "reference": case.reference,
        "expected_gb_per_s": case.expected_gb_per_s,
        "interpolated": case.interpolated,
        "ratio": case.ratio,
        "bound_gb_per_s": case.bound_gb_per_s,
        "algorithm": case.algorithm,
        "limit_gb_per_s": limit.busbw_gb_per_s if limit is not None else None,
        "limit_model": limit.model if limit is not None else "",
        "percent_of_limit": limit.percent if limit is not None else None,
        "wire": limit.wire if limit is not None else "",
        "wire_gb_per_s": limit.wire_gb_per_s if limit is not None else None,
        "why": case.why,
        "pattern": case.key.pattern,
    }


def json_text(expectation: Expectation, gates: Sequence[str] = ()) -> str:
    """As JSON."""
    body = {
        "run": expectation.arm.name,
        "ranks": expectation.arm.ranks or None,
        "nodes": expectation.arm.nodes or None,
        "definition": expectation.arm.definition,
        **dict(expectation.arm.facts),
        "references": [
            {
                "name": reference.name,
                "versions": dict(reference.versions),
                "date": reference.date,
                "source": reference.source,
                "ranks": reference.ranks,
                "ranks_stated": reference.ranks_stated,
                "root": reference.root,
                "pattern": reference.pattern,
                "launches": reference.launches,
            }
            for reference in expectation.references
        ],
        "not_used": dict(expectation.unmatched),
        "notes": list(expectation.notes),
        "gates": list(gates),
        "cases": [case_fields(case) for case in expectation.cases],
    }
    return json.dumps(body, indent=1) + "\n"
