"""``busbw diagnose``: the questions that everybody has about a run, answered from its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from busbw.cli.app import RunOrLog, TextOrJson, flag
from busbw.cli.expect import expected_of
from busbw.cli.output import show
from busbw.cli.preset_values import user_files
from busbw.cli.samples import samples_and_digests
from busbw.errors import ExitCode, UsageError
from busbw.judge.compare_arms import nodes
from busbw.judge.diagnose.engine import answer, diagnose, exit_code
from busbw.judge.diagnose.subject import Subject
from busbw.judge.traffic import byte_paths
from busbw.judge.wires import Wires, wires_of, wires_of_node
from busbw.model.conclusion import QUESTIONS, Answer, Conclusion, Question
from busbw.model.profile import Profile
from busbw.model.record import RunRecord
from busbw.record.absent import absent_files
from busbw.record.folder import NSYS_FOLDER, launch_folders
from busbw.record.read import read_record
from busbw.report import diagnosis as report
from busbw.report.console import columns


@dataclass(frozen=True, eq=False)
class Diagnosed:
    """A run, and what was concluded about it."""

    subject: Subject
    conclusions: tuple[Conclusion, ...]

    @property
    def answers(self) -> dict[Question, Answer]:
        """To each question."""
        return {question: answer(question, self.conclusions) for question in QUESTIONS}


def diagnose_command(
    run: RunOrLog = "last",
    /,
    *,
    nsys: Annotated[
        tuple[Path, ...],
        flag(
            "Nsight Systems exports (SQLite) of this run, one for each rank. [default: those that"
            " `busbw run --profile nsys` left in the run folder]",
            consume_multiple=True,
        ),
    ] = (),
    all: Annotated[bool, flag("Show the evidence for each answer.")] = False,  # noqa: A002
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Print the conclusions about a run or log. 0 good, 1 a warning or an error, 3 nothing could be told.
    Raises UsageError.
    """
    from busbw.cli.compare_inputs import read_arm

    given = read_arm(run)
    if nsys and len(given.runs) > 1:
        raise UsageError(
            f"--nsys is for one run, but {run} has {len(given.runs)}", hint="name one run or log"
        )
    code = ExitCode.OK
    for position, (record, folder) in enumerate(given.runs):
        each = diagnosed(record, folder, nsys)
        own = exit_code(each.conclusions)
        code = own if own is ExitCode.BAD_VERDICT or code is ExitCode.OK else code
        told = (record, each.answers, each.conclusions)
        lines = (report.evidence_lines if all else report.lines)(*told, columns(report.WIDTH))
        json_text = partial(report.json_text, *told, own)
        show(format, (*([""] if position else []), *lines), json=json_text)
    return code


def diagnosed(record: RunRecord, folder: Path | None, nsys: Sequence[Path] = ()) -> Diagnosed:
    """Read what else there is of a run, and ask every question. ``folder`` is None for a log. Without
    ``nsys``, exports that the run itself made (--profile nsys) are read.
    """
    from busbw.foreign.nsys.read import read_profile

    subject = subject_of(record, folder)
    if nsys or folder is None:
        subject = replace(subject, profiles=tuple(map(read_profile, nsys)))
    else:
        profiles, exports = _own_profiles(folder)
        subject = replace(subject, profiles=profiles, exports=exports)
    return Diagnosed(subject, diagnose(subject))


def _own_profiles(folder: Path) -> tuple[tuple[Profile, ...], int]:
    """Those that the run itself made, and how many of them could be read: a rank that was killed leaves half
    an export or a report without one, which has a note, and the rest still counts.
    """
    from busbw.foreign.nsys.read import read_profile
    from busbw.model.profile import Profile

    own = folder / NSYS_FOLDER
    exports = sorted(own.glob("*.sqlite"))
    bare = [path for path in sorted(own.glob("*.nsys-rep")) if path.with_suffix(".sqlite") not in exports]
    found, unread = [], 0
    for path in (*exports, *bare):
        try:
            found.append(read_profile(path))
        except UsageError as error:
            unread += 1
            found.append(Profile(str(path), "", "", notes=(f"{error.message}: {error.hint}",)))
    return tuple(found), len(found) - unread


def subject_of(record: RunRecord, folder: Path | None) -> Subject:
    """A run with its samples, references and line rates."""
    wires = _wires(record)
    subject = Subject(record, expected_of((record,), wires=wires), wires, preset_files=user_files())
    if folder is None:
        return subject
    samples, digests = samples_and_digests(folder, record)
    launches = tuple(subject_of(read_record(launch), launch) for launch in launch_folders(folder))
    return replace(
        subject, samples=samples, digests=digests, absent=absent_files(folder, record), launches=launches
    )


def _wires(record: RunRecord) -> Wires:
    """Line rates as the machine states them; where it does not, those that a preset has of its instance type.
    One node needs no network: presets take 0.1 s to read.
    """
    wires = wires_of(record.machine, byte_paths(record))
    if wires.network_gb_per_s is not None or nodes(record) == 1:
        return wires
    from busbw.plan.presets import preset

    places, files = record.world.places if record.world is not None else (), user_files()
    products = {place.product for place in places} - {""}
    for name in (each for each in preset.names(files) if each.rpartition("/")[2] in products):
        node = preset.read_preset(name, files).body.get("node", {})
        if node.get("node_gbit_per_s"):
            return replace(
                wires_of_node(node, name),
                nvlink_gb_per_s=wires.nvlink_gb_per_s,
                pcie_gb_per_s=wires.pcie_gb_per_s,
            )
    return wires
