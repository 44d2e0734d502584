"""References from files: those that come with busbw, one file a source, and the user's own."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from busbw.errors import UnknownWord, UsageError
from busbw.files import read_input, store
from busbw.judge.references.reference import SCHEMA, Point, Reference, impossible
from busbw.model.collective import known_collective
from busbw.record.checked import checked
from busbw.record.json_text import json_mapping

OWN_FOLDER: Final = "references"  # in the home of the runs
_HINT: Final = "mend it, or make one with `busbw expect RUN --save NAME`"
_NAME: Final = re.compile(r"[^\s./\\]([^/\\]*\S)?\Z")
_POINT: Final = tuple(entry.name for entry in fields(Point))


@dataclass(frozen=True)
class Saved:
    """A user's own references, and what is wrong with files that are left out."""

    references: tuple[Reference, ...]
    left_out: tuple[UsageError, ...]


@cache
def built_in() -> tuple[Reference, ...]:
    """All references that come with busbw, those that are never used among them."""
    found: list[Reference] = []
    folder = resources.files("busbw.judge.references") / "data"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".json"):
            found += parse(entry.read_text(encoding="utf-8"), entry.name)
    return tuple(found)


def saved(run_home: Path) -> Saved:
    """The user's own, by name. A file that is bad is left out."""
    found: list[Reference] = []
    left_out: list[UsageError] = []
    for path in sorted((run_home / OWN_FOLDER).glob("*.json")):
        try:
            found += read(path)
        except UsageError as error:
            left_out.append(error)
    return Saved(tuple(found), tuple(left_out))


def read(path: Path) -> tuple[Reference, ...]:
    """The references of a file. Raises UsageError where it cannot be read, naming the key that is wrong."""
    return parse(read_input(path, _HINT), str(path))


def parse(text: str, where: str) -> tuple[Reference, ...]:
    """The references in a JSON text. Raises UsageError."""
    body = json_mapping(text, where, _HINT)
    if body.get("schema") != SCHEMA:
        raise UsageError(
            f"{where} has reference schema {body.get('schema')}; this busbw reads {SCHEMA}",
            hint="read it with the busbw that wrote it",
        )
    listed = body.get("references")
    if not isinstance(listed, list):
        raise UsageError(f"{where}: references is not a list", hint=_HINT)
    return tuple(_reference(each, where, f"references[{index}]") for index, each in enumerate(listed))


def _reference(body: Any, where: str, key: str) -> Reference:  # noqa: ANN401 (JSON)
    points = body.get("points") if isinstance(body, dict) else None
    if not isinstance(points, list):
        raise UsageError(f"{where}: {key}.points is not a list", hint=_HINT)
    for index, row in enumerate(points):
        if not isinstance(row, list) or len(row) != len(_POINT):
            raise UsageError(f"{where}: {key}.points[{index}] is not [{', '.join(_POINT)}]", hint=_HINT)
    named = [dict(zip(_POINT, row, strict=True)) for row in points]
    reference = checked(Reference, {**body, "points": named}, where, _HINT, key=key)
    if why := impossible(reference):
        raise UsageError(f"{where}: {key}.{why}", hint=_HINT)
    if reference.operation and known_collective(reference.operation) is None:
        raise UsageError(f"{where}: {key}.operation: unknown operation {reference.operation!r}", hint=_HINT)
    return reference


def dump(references: tuple[Reference, ...]) -> str:
    """The text that ``parse`` reads; a point is one line."""
    parts = []
    for reference in references:
        body = asdict(reference)
        points = ",\n  ".join(json.dumps([*point.values()]) for point in body.pop("points"))
        # That nothing was set is something else than that nobody knows what was.
        kept = {"environment"} if reference.environment is not None else set[str]()
        said = {
            name: value for name, value in body.items() if name in kept or value not in ("", None, {}, ())
        }
        text = json.dumps(said, indent=1).removesuffix("}").rstrip()
        parts.append(f'{text},\n "points": [\n  {points}\n ]}}')
    return '{{"schema": {}, "references": [\n{}\n]}}\n'.format(SCHEMA, ",\n".join(parts))


def is_saved(name: str, run_home: Path) -> bool:
    """Whether ``save`` would replace one. Raises UsageError."""
    return _is_file(_own_path(name, run_home))


def _own_path(name: str, run_home: Path) -> Path:
    if not _NAME.match(name) or not name.isprintable():
        raise UsageError(f"{name!r} is no name", hint="use letters, digits, - and _")
    return run_home / OWN_FOLDER / f"{name}.json"


def save(references: tuple[Reference, ...], name: str, run_home: Path) -> Path:
    """Keep references of one's own in one file of this name, in place of earlier ones. Raises UsageError."""
    path = _own_path(name, run_home)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store(path, dump(references).encode())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="set BUSBW_HOME to a folder that you can write"
        ) from error
    return path


def find(name: str, run_home: Path) -> tuple[Reference, ...]:
    """What --reference means: a file, the name of a reference, or the start of several. Raises UsageError."""
    if _is_file(Path(name)):
        return read(Path(name))
    if "/" not in name and _is_file(path := run_home / OWN_FOLDER / f"{name}.json"):
        return read(path)
    own = saved(run_home)
    known = (*own.references, *built_in())
    whole = tuple(reference for reference in known if reference.name == name)
    found = whole or tuple(
        reference
        for reference in known
        if name and reference.name.startswith(name) and not reference.left_out
    )
    if not found:
        bad = "".join(f"; left out: {error.message}" for error in own.left_out)
        hint = "`busbw expect --list` names them; a file works too"
        raise UnknownWord(f"no reference {name!r}{bad}", name, (each.name for each in known), hint=hint)
    return found


def _is_file(path: Path) -> bool:
    """No file has a name that is longer than names can be."""
    try:
        return path.is_file()
    except OSError:
        return False
