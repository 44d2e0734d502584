"""Verdicts in the forms that continuous-integration services read: JUnit XML, a test case a row, and the JSON
of github-action-benchmark (its tool ``customBiggerIsBetter``), a bus bandwidth a row. Pure.

A test case keeps its name from run to run, so that a service can follow it: operation, size, placement. Below
and SLOWER are failures, wrong data and what did not run are errors, what cannot be decided is skipped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from xml.etree import ElementTree as ET

from busbw.judge.compare import Comparison, Verdict
from busbw.judge.compare_arms import Arm, CaseKey
from busbw.judge.expectation import Expectation, Gate, Judged, Judgement
from busbw.report.compare import row_words
from busbw.units import format_size

UNIT: Final = "GB/s"
# What XML 1.0 has no way to write; an error of another program may hold it.
_UNWRITABLE: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUTCOME: Final[Mapping[StrEnum, str]] = {
    **dict.fromkeys((Judgement.BELOW, Gate.FAIL, Verdict.SLOWER), "failure"),
    **dict.fromkeys((Judgement.FAILED, Verdict.FAILED), "error"),
    **dict.fromkeys((Judgement.UNDECIDED, Judgement.NO_REFERENCE, Gate.UNDECIDED), "skipped"),
    **dict.fromkeys((Verdict.AMBIGUOUS, Verdict.MISSING), "skipped"),
}


@dataclass(frozen=True)
class Checked:
    """One test case. ``outcome`` is the element that it has in JUnit XML; empty where it passed.
    ``gb_per_s`` is its bus bandwidth, with the 95 % interval; None where there is none.
    """

    name: str
    operation: str
    outcome: str
    words: str
    gb_per_s: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Suite:
    """The verdicts of one expectation or comparison."""

    name: str
    checked: tuple[Checked, ...]


def of_expectation(expectation: Expectation, gates: Iterable[tuple[str, Gate]] = ()) -> Suite:
    """A test case a row and a gate; ``gates`` are their lines and answers."""
    rows = (
        _row(case.key, case.answer, _judged_words(case), case.measured_gb_per_s, _interval(case))
        for case in expectation.cases
    )
    least = (
        Checked(text.partition(f": {gate}")[0], "least", _OUTCOME.get(gate, ""), text) for text, gate in gates
    )
    return Suite("busbw expect", (*rows, *_died(expectation.arm), *least))


def of_comparison(name: str, comparison: Comparison) -> Suite:
    """A test case a row of each candidate; ``name`` says which of several comparisons it is. Candidates are
    named where there are several: the name of one run is another at the next.
    """
    several = len(comparison.candidates) > 1
    names = {arm.name: f"{arm.name}: " if several else "" for arm in comparison.candidates}
    rows = (
        _row(
            row.key,
            row.verdict,
            f"{row_words(row)}, against {comparison.baseline.name}",
            row.busbw_gb_per_s,
            of=names[row.arm],
        )
        for row in comparison.rows
    )
    died = (each for arm in comparison.candidates for each in _died(arm, names[arm.name]))
    return Suite(f"busbw compare {name}".rstrip(), (*rows, *died))


def _row(
    key: CaseKey,
    answer: StrEnum,
    words: str,
    gb_per_s: float | None,
    interval: tuple[float, float] | None = None,
    of: str = "",
) -> Checked:
    name = f"{of}{key.kind}, {format_size(key.size_bytes)}"
    return Checked(name, key.collective, _OUTCOME.get(answer, ""), words, gb_per_s, interval)


def junit_text(suites: Sequence[Suite]) -> str:
    """As JUnit XML."""
    root = ET.Element("testsuites", _counts([each for suite in suites for each in suite.checked]))
    for suite in suites:
        own = ET.SubElement(root, "testsuite", {"name": _writable(suite.name), **_counts(suite.checked)})
        for each in suite.checked:
            names = {"classname": f"busbw.{each.operation}", "name": each.name}
            case = ET.SubElement(own, "testcase", {key: _writable(text) for key, text in names.items()})
            words = _writable(each.words)
            if each.outcome:
                ET.SubElement(case, each.outcome, {"message": words})
            elif words:
                ET.SubElement(case, "system-out").text = words
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def benchmark_text(suites: Sequence[Suite]) -> str:
    """As the JSON of github-action-benchmark."""
    several = len(suites) > 1
    points = [
        {
            "name": f"{suite.name}: {each.name}" if several else each.name,
            "unit": UNIT,
            "value": each.gb_per_s,
            **({"range": " to ".join(map(_number, each.interval))} if each.interval else {}),
            "extra": each.words,
        }
        for suite in suites
        for each in suite.checked
        if each.gb_per_s is not None
    ]
    return json.dumps(points, indent=1) + "\n"


def _judged_words(case: Judged) -> str:
    """The verdict on a row in a sentence."""
    measured, expected, least = case.measured_gb_per_s, case.expected_gb_per_s, case.bound_gb_per_s
    if measured is None:
        return f"{case.answer}: {case.why}" if case.why else str(case.answer)
    words = f"{_number(measured)} GB/s: {case.answer}"
    if expected is not None and case.ratio is not None:
        words += f", {case.ratio:.0%} of the {_number(expected)} GB/s of {case.reference}"
    if case.answer is Judgement.BELOW and least is not None:
        words += f", where {_number(least)} GB/s is the least"
    return f"{words}; {case.why}" if case.why else words


def _interval(case: Judged) -> tuple[float, float] | None:
    if case.low_gb_per_s is None or case.high_gb_per_s is None:
        return None
    return case.low_gb_per_s, case.high_gb_per_s


def _died(arm: Arm, of: str = "") -> Iterator[Checked]:
    """Operations that ended before their first case."""
    for operation, failure in arm.failures.items():
        yield Checked(f"{of}{operation}", operation, "error", failure.why)


def _counts(checked: Sequence[Checked]) -> dict[str, str]:
    found = Counter(each.outcome for each in checked)
    outcomes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": str(len(checked)), **{name: str(found[each]) for name, each in outcomes.items()}}


def _number(value: float) -> str:
    return f"{value:.4g}"


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("?", text)
