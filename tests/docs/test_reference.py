"""The generated reference pages are what the program says now, and nothing is left out."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import reduce
from pathlib import Path

import pytest
from busbw_testing.programs import program

from busbw import errors
from busbw.cli.main import app
from busbw.errors import BusbwError, ExitCode
from busbw.model.event import EventKind, decode
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, StopReason
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.rank.world.identity import TABLE
from busbw.report.events import read_result

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


GENERATOR = program("tools/make_reference.py")


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert page(name) == GENERATOR.PAGES[name](), "run tools/make_reference.py"


def test_every_command_is_generated() -> None:
    # Names of the flags --help and --version are commands to cyclopts.
    top = {name for name in app if not name.startswith("-")}
    groups = {
        group: {name for name in app[group] if not name.startswith("-")} for group in ("presets", "history")
    }
    whole = (top - {"presets"}) | {f"{group} {name}" for group, names in groups.items() for name in names}
    assert whole == set(GENERATOR.COMMANDS)


@pytest.mark.parametrize("name", GENERATOR.COMMANDS)
def test_every_flag_has_a_meaning_and_every_command_an_example(name: str) -> None:
    section = page("cli.md").partition(f"## busbw {name}\n")[2].partition("\n## ")[0]
    command = reduce(lambda parent, word: parent[word], name.split(), app)
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.show:
            assert argument.parameter.help, f"{argument.names} has no help"
            assert all(f"`{flag}`" in section for flag in argument.names)
    assert f"busbw {name}" in section.partition("```")[2]


def test_every_flag_of_run_has_a_variable_of_its_own() -> None:
    variables = re.findall(r"`(BUSBW_\w+)` \|", page("cli.md"))
    assert len(variables) == len(set(variables)) > 15
    assert "BUSBW_ROOT" not in variables  # the address where ranks meet


def test_exit_codes_are_documented() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (\w+) \|", page("exit-codes.md"), re.MULTILINE))
    assert rows == {str(int(code)): code.name for code in ExitCode}


def test_every_error_class_has_a_documented_exit_code() -> None:
    kinds = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BusbwError)
    }
    assert kinds > {BusbwError}
    assert all(f"| {int(kind.exit_code)} |" in page("exit-codes.md") for kind in kinds)


def test_the_record_page_names_every_field() -> None:
    for field in (*fields(RunRecord), *fields(CaseResult)):
        assert f"`{field.name}`" in page("record.md")
    assert all(f"`{reason.value}`" in page("record.md") for reason in StopReason)
    assert f"{SAMPLE_DTYPE.itemsize} bytes each" in page("record.md")
    assert f"{DIGEST_DTYPE.itemsize} bytes each" in page("record.md")
    assert all(f"| {name} |" in page("record.md") for name in SAMPLE_DTYPE.names or ())


def test_the_example_of_the_event_stream_is_one() -> None:
    text = page("event-stream.md").partition("```jsonl\n")[2].partition("```")[0]
    events = [decode(f"[1,0]<stdout>:{line}") for line in text.splitlines()]
    kinds = ["header", "case", "progress", "end"]
    assert [item and item["event"] for item in events] == kinds
    assert events[1] is not None
    assert read_result(events[1]).case == 0


def test_the_event_page_names_every_kind() -> None:
    assert all(f"`{kind.value}`" in page("event-stream.md") for kind in EventKind)


def test_every_launcher_is_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "join-a-launcher.md").read_text(encoding="utf-8")
    assert all(row.rank in guide for row in TABLE)


def test_the_schema_accepts_its_own_version_only() -> None:
    schema = json.loads(page("record-schema.json"))
    assert schema["title"] == "RunRecord"
    assert {"schema", "plan", "results"} <= set(schema["properties"])
