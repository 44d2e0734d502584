"""Write the generated pages of docs/reference: command line, errors, marks and the record's JSON schema.

``--check`` writes nothing and fails where a page differs from what the sources say now.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from busbw import errors
from busbw.backends.base import CallFailed
from busbw.cli.app import Variables
from busbw.cli.main import app
from busbw.errors import BusbwError
from busbw.model.mark import MARKS
from busbw.record.read import record_adapter

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "busbw"
FOLDER = ROOT / "docs" / "reference"
COMMANDS = (
    *("run", "preflight", "isolate", "pairs", "rails", "exec", "jobs", "attach", "cancel", "clean"),
    *("compare", "expect", "diagnose", "report", "list", "show", "import", "export", "devices"),
    *("presets list", "presets show", "presets check"),
    *("container list", "container show", "container build", "container push", "container squash"),
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
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.show:
            groups.setdefault(argument.parameter.group[0].name, []).append(argument)
    variables = name == "run"
    titled = len(groups.keys() - {"Arguments"}) > 1
    for title, arguments in groups.items():
        if title == "Arguments":
            yield "".join(f"`{arguments_.names[0]}`: {_meaning(arguments_)}\n" for arguments_ in arguments)
        else:
            yield _flag_table(title if titled else "", arguments, variables=variables)
    yield f"```\n{_examples(command)}\n```\n"


def _flag_table(title: str, arguments: list[Argument], *, variables: bool) -> str:
    head = ["flag", "value", "default", *(["variable"] if variables else []), "meaning"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for argument in arguments:
        flags = ", ".join(f"`{name}`" for name in argument.names)
        default = _default(argument)
        cells = [flags, _value(argument), f"`{default}`" if default else ""]
        if variables:
            cells.append(f"`{variable(argument)}`")
        rows.append(f"| {' | '.join([*cells, _meaning(argument)])} |")
    return "\n".join(([f"### {title}", ""] if title else []) + rows) + "\n"


def variable(argument: Argument) -> str:
    """The environment variable that stands for a flag of ``run``."""
    return Variables("BUSBW_", command=False)._convert_argument((), argument)


def _value(argument: Argument) -> str:
    hint = argument.hint
    if get_origin(hint) is not None and type(None) in get_args(hint):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        return "words"
    if choices := get_args(hint):
        return ", ".join(f"`{choice}`" for choice in choices)
    return {"str": "text", "Path": "path", "int": "integer", "float": "number", "bool": ""}[hint.__name__]


def _default(argument: Argument) -> str:
    stated = (argument.parameter.help or "").rpartition("[default: ")
    if stated[1]:
        return stated[2].removesuffix("]")
    default = argument.field_info.default
    return "" if default is None or default is False or default in ("", ()) else str(default)


def _meaning(argument: Argument) -> str:
    return (argument.parameter.help or "").partition(" [default: ")[0]


def _examples(command: App) -> str:
    lines = (command.help_epilogue or "").splitlines()
    return "\n".join(line.strip() for line in lines if line.startswith("  "))


# ---- errors.md ---------------------------------------------------------------------------------------

ERRORS_HEAD = """# Errors

Every error that busbw raises itself, with its hint, by exit code. Made from the sources by
`tools/make_reference.py`; do not edit. `<words>` stand for values. What to do about the common ones:
[troubleshooting](../guides/troubleshooting.md).
"""


def errors_page() -> str:
    """All errors in the sources, found by their constructors."""
    classes = {name: kind for name, kind in vars(errors).items() if _is_error(kind)}
    classes["CallFailed"] = CallFailed
    found = sorted({row for path in sorted(SOURCES.rglob("*.py")) for row in _errors_in(path, classes)})
    parts = [ERRORS_HEAD]
    for code in sorted({row[0] for row in found}):
        parts.append(f"## Exit code {code}\n\n| error | hint | from |\n|---|---|---|")
        parts.extend(f"| `{text}` | {hint} | {where} |" for row, text, hint, where in found if row == code)
        parts.append("")
    return "\n".join(parts)


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BusbwError)


def _errors_in(path: Path, classes: dict[str, type[BusbwError]]) -> Iterator[tuple[int, str, str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(_Inline(tree).visit(tree)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in classes
            and node.args
        ):
            text = _text(node.args[0])
            hint = next((_text(word.value) for word in node.keywords if word.arg == "hint"), "")
            if re.search("[a-z]", re.sub("<[^>]*>", "", text)):  # else it only passes another error on
                where = str(path.relative_to(SOURCES))
                yield int(classes[node.func.id].exit_code), _cell(text), _cell(hint), where


class _Inline(ast.NodeTransformer):
    """Puts a file's own string constants in the place of their names."""

    def __init__(self, tree: ast.Module) -> None:
        self._constants = {
            node.target.id: node.value
            for node in tree.body
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._constants.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "").replace("\n", " ")


def _text(node: ast.expr) -> str:
    """The words of a string expression, with <name> for what is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value)
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    if isinstance(node, ast.BoolOp):
        return _text(node.values[0])
    return f"<{_name(node)}>"


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Call):
        return _name(node.args[0] if node.args else node.func)
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)]
    return _name(names[0]) if names else "value"


# ---- marks.md ----------------------------------------------------------------------------------------

MARKS_HEAD = """# Marks

Words at the end of a row of the table, and `marks` of a [result](record.md). A mark changes no number. The
table explains those that it shows; these are all. When each is set:
[read a result](../guides/read-a-result.md#marks). Made from the program by `tools/make_reference.py`; do not
edit.

| mark | meaning |
|---|---|"""


def marks() -> str:
    """Every mark and what it says."""
    return (
        "\n".join([MARKS_HEAD, *(f"| `{mark.name}` | {_cell_text(mark.meaning)} |" for mark in MARKS)]) + "\n"
    )


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|")


# ---- record-schema.json ------------------------------------------------------------------------------


def record_schema() -> str:
    """JSON schema of run.json."""
    schema: dict[str, Any] = record_adapter().json_schema()
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "errors.md": errors_page,
    "marks.md": marks,
    "record-schema.json": record_schema,
}

if __name__ == "__main__":
    sys.exit(main())
