"""Write the generated pages of docs/reference: command line, marks and the record's JSON schema.

``--check`` writes nothing and fails where a page differs from what the sources say now.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.cli.help import choices_of, default, group_of, meaning, value_kind
from busbw.cli.main import app
from busbw.cli.sources import Variables
from busbw.model.mark import CONDITIONS, MARKS, Condition, Mark
from busbw.model.record import RunRecord
from busbw.record.checked import adapter

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
COMMANDS = (
    *("run", "check", "soak", "preflight", "tune", "isolate", "pairs", "rails", "hang"),
    *("exec", "jobs", "attach", "cancel", "clean"),
    *("compare", "expect", "diagnose", "report", "list", "show", "import", "export", "devices"),
    *("history", "history accept", "history exclude"),
    *("presets list", "presets show", "presets check", "completion"),
    *("nccl-tests", "nccom-test"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.write_text(text, encoding="utf-8")
    verb = "stale, run tools/make_reference.py" if check else "written"
    print(*(f"{path}: {verb}" for path in stale), sep="\n", end="\n" if stale else "")
    print(f"{len(PAGES)} reference pages, {len(stale)} {'stale' if check else 'written'}")
    return 1 if check and stale else 0


# ---- cli.md ------------------------------------------------------------------------------------------

CLI_HEAD = """# Command line

Made from the program by `tools/make_reference.py`; do not edit. Exit codes: [exit-codes.md](exit-codes.md).

Sizes are bytes, or a number with K, M, G or T, or KiB, MiB, GiB, TiB: powers of 1024. KB, MB and GB are
refused, because they mean two things. Durations are `30s`, `500ms`, `2min`, `1h`. Flags win over variables.
"""


def cli() -> str:
    """Every command with its arguments, flags, defaults, variables and examples."""
    return "\n".join([CLI_HEAD, *(section for name in COMMANDS for section in _command(name))])


def _command(name: str) -> Iterator[str]:
    command = reduce(lambda parent, word: parent[word], name.split(), app)
    yield f"## busbw {name}\n\n{command.help}\n"
    groups: dict[str, list[Argument]] = {}
    of_run: list[Argument] = []
    variables = name == "run"
    same = {} if variables else {flag.name: _told(flag) for flag in _shown(app["run"])}
    for argument in _shown(command):
        if argument.name.startswith("-") and same.get(argument.name) == _told(argument):
            of_run.append(argument)
        else:
            groups.setdefault(group_of(argument).name, []).append(argument)
    titled = len(groups.keys() - {"Arguments"}) > 1
    for title, arguments in groups.items():
        if title == "Arguments":
            yield "".join(f"`{arguments_.names[0]}`: {meaning(arguments_)}\n" for arguments_ in arguments)
        else:
            yield _flag_table(title if titled else "", arguments, variables=variables)
    if of_run:
        words = ", ".join(f"`{flag}`" for argument in of_run for flag in argument.names)
        yield f"As in [busbw run](#busbw-run): {words}.\n"
    yield f"```\n{_examples(command)}\n```\n"


def _told(argument: Argument) -> tuple[str, str]:
    return _value(argument), argument.parameter.help or ""


def _shown(command: App) -> list[Argument]:
    return [each for each in command.assemble_argument_collection(parse_docstring=True) if each.show]


def _flag_table(title: str, arguments: list[Argument], *, variables: bool) -> str:
    head = ["flag", "value", "default", *(["variable"] if variables else []), "meaning"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for argument in arguments:
        flags = ", ".join(f"`{name}`" for name in argument.names)
        held = default(argument)
        cells = [flags, _value(argument), f"`{held}`" if held else ""]
        if variables:
            cells.append(f"`{variable(argument)}`")
        rows.append(f"| {' | '.join([*cells, meaning(argument)])} |")
    return "\n".join(([f"### {title}", ""] if title else []) + rows) + "\n"


def variable(argument: Argument) -> str:
    """The environment variable that stands for a flag of ``run``."""
    return Variables("BUSBW_", command=False)._convert_argument((), argument)


def _value(argument: Argument) -> str:
    choices = choices_of(argument)
    return ", ".join(f"`{choice}`" for choice in choices) if choices else value_kind(argument)


def _examples(command: App) -> str:
    lines = (command.help_epilogue or "").splitlines()
    return "\n".join(line.strip() for line in lines if line.startswith("  "))


# ---- marks.md ----------------------------------------------------------------------------------------

MARKS_HEAD = """# Marks

A mark is a word at the end of a row of the table, and in `marks` of a [result](record.md). It changes no
number; the table explains those that it shows. [Read a result](../guides/read-a-result.md#marks) says when
each is set. Made from the program by `tools/make_reference.py`; do not edit.

| mark | meaning |
|---|---|"""

CONDITIONS_HEAD = """
## Conditions

A condition holds for a whole run, an operation, a type or a reduction. It is a line above the rows, and in
`conditions` of a result. Older records have some of these words as marks; busbw reads them as conditions.

| condition | meaning |
|---|---|"""


def marks() -> str:
    """Every mark and condition, and what it says."""
    return "\n".join([MARKS_HEAD, *_meanings(MARKS), CONDITIONS_HEAD, *_meanings(CONDITIONS)]) + "\n"


def _meanings(words: Sequence[Mark | Condition]) -> list[str]:
    return [f"| `{word.name}` | {_cell_text(word.meaning)} |" for word in words]


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|")


# ---- record-schema.json ------------------------------------------------------------------------------


def record_schema() -> str:
    """JSON schema of run.json."""
    schema: dict[str, Any] = adapter(RunRecord).json_schema()
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "marks.md": marks,
    "record-schema.json": record_schema,
}

if __name__ == "__main__":
    sys.exit(main())
