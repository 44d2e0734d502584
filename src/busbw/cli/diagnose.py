"""``busbw diagnose``: the questions that everybody has about a run, answered from its record."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.analysis.expectation import expect
from busbw.analysis.limits import wires_of, wires_of_node
from busbw.analysis.matching import kind_of
from busbw.diagnosis.engine import answer, diagnose, exit_code
from busbw.diagnosis.subject import Subject
from busbw.errors import ExitCode
from busbw.model.conclusion import QUESTIONS
from busbw.model.record import RunRecord
from busbw.record.folder import environ_home
from busbw.record.read import read_digests, read_samples
from busbw.references import load
from busbw.reports import diagnosis as report

if TYPE_CHECKING:
    from busbw.analysis.limits import Wires
    from busbw.model.conclusion import Answer, Conclusion, Question


@dataclass(frozen=True, eq=False)
class Diagnosed:
    """A run, and what was concluded about it."""

    subject: Subject
    conclusions: tuple[Conclusion, ...]

    @property
    def answers(self) -> dict[Question, Answer]:
        """To each question."""
        return {question: answer(question, self.conclusions) for question in QUESTIONS}


def diagnose_command(run: str, format_name: str) -> ExitCode:
    """Print the conclusions about a run or log. 0 good, 1 a warning or an error, 3 nothing could be told."""
    from busbw.cli.compare_inputs import read_arm

    given = read_arm(run)
    code = ExitCode.OK
    for position, (record, folder) in enumerate(zip(given.records, given.folders, strict=True)):
        each = diagnosed(record, folder)
        own = exit_code(each.conclusions)
        code = own if own is ExitCode.BAD_VERDICT or code is ExitCode.OK else code
        if format_name == "json":
            sys.stdout.write(report.json_text(record, each.answers, each.conclusions, own))
        else:
            print(
                *([""] if position else []), *report.lines(record, each.answers, each.conclusions), sep="\n"
            )
    return code


def diagnosed(record: RunRecord, folder: Path | None) -> Diagnosed:
    """Read what else there is of a run, and ask every question. ``folder`` is None for a log."""
    subject = subject_of(record, folder)
    return Diagnosed(subject, diagnose(subject))


def subject_of(record: RunRecord, folder: Path | None) -> Subject:
    """A run with its samples, references and line rates."""
    known = load.built_in()
    kind = kind_of(record, known)
    published = next((each.machine for each in known if each.name == kind.known_as), "")
    wires = _wires(record, published)
    expectation = expect(
        (record,), (*load.saved(environ_home()), *known), known=known, wires=wires
    )  # fmt: skip
    subject = Subject(record, expectation, kind, wires)
    if folder is None:
        return subject
    return replace(subject, samples=read_samples(folder), digests=read_digests(folder))


def _wires(record: RunRecord, machine: str) -> Wires:
    """Line rates as the machine states them; where it does not, those that a preset has of its instance type,
    or of the machines that the log is known to be of.
    """
    wires = wires_of(record.machine, record.environment.get("variables", {}))
    if wires.network_gb_per_s is not None:
        return wires
    for name, node in _preset_nodes(record, machine):
        if node.get("node_gbit_per_s"):
            return replace(
                wires_of_node(node, name),
                nvlink_gb_per_s=wires.nvlink_gb_per_s,
                pcie_gb_per_s=wires.pcie_gb_per_s,
            )
    return wires


def _preset_nodes(record: RunRecord, machine: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    from busbw.cli.preset_values import user_files
    from busbw.settings import preset

    places = record.world.places if record.world is not None else ()
    products = {machine, *(place.product for place in places)} - {""}
    for name in preset.names(user_files()):
        if name.rpartition("/")[2] in products:
            yield name, preset.read_preset(name, user_files()).body.get("node", {})
