"""References from files: those that come with busbw, one file a source, and the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.references.reference import SCHEMA, Point, Printed, Reference, check_ranks

OWN_FOLDER: Final = "references"  # in the home of the runs


@cache
def built_in() -> tuple[Reference, ...]:
    """All references that come with busbw, those that are never used among them."""
    found: list[Reference] = []
    folder = resources.files("busbw.references") / "data"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".json"):
            found += parse(entry.read_text(encoding="utf-8"), entry.name)
    return tuple(found)


def saved(run_home: Path) -> tuple[Reference, ...]:
    """The user's own, by name."""
    return tuple(
        reference for path in sorted((run_home / OWN_FOLDER).glob("*.json")) for reference in read(path)
    )


def read(path: Path) -> tuple[Reference, ...]:
    """The references of a file. Raises UsageError where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read reference {path}: {error}", hint="make one with `busbw expect RUN --save NAME`"
        ) from error
    return parse(text, str(path))


def parse(text: str, where: str) -> tuple[Reference, ...]:
    """The references in a JSON text; each one's ranks are held against its own bandwidths. Raises
    UsageError.
    """
    try:
        body = json.loads(text)
        if body["schema"] != SCHEMA:
            raise UsageError(
                f"{where} has reference schema {body['schema']}; this busbw reads {SCHEMA}",
                hint="read it with the busbw that wrote it",
            )
        found = tuple(_reference(fields) for fields in body["references"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{where} is not a file of references: {error!r}",
            hint="make one with `busbw expect RUN --save NAME`",
        ) from error
    for reference in found:
        check_ranks(reference)
    return found


def _reference(fields: Mapping[str, Any]) -> Reference:
    points = tuple(
        Point(size, placement, busbw, tuple(times)) for size, placement, busbw, times in fields["points"]
    )
    printed = Printed(**fields["printed"]) if fields.get("printed") else None
    rotated = tuple((most, bytes_) for most, bytes_ in fields.get("rotated", ()))
    return Reference(**{**fields, "points": points, "printed": printed, "rotated": rotated})


def dump(references: tuple[Reference, ...]) -> str:
    """The text that ``parse`` reads; a point is one line."""
    bodies = [_fields(reference) for reference in references]
    parts = ",\n".join(_text(body) for body in bodies)
    return f'{{"schema": {SCHEMA}, "references": [\n{parts}\n]}}\n'


def _fields(reference: Reference) -> dict[str, Any]:
    fields = asdict(reference)
    fields["points"] = [
        [point.size_bytes, point.placement, point.busbw_gb_per_s, list(point.times_us)]
        for point in reference.points
    ]
    return {name: value for name, value in fields.items() if value not in ("", None, {}, ())}


def _text(body: dict[str, Any]) -> str:
    points = ",\n  ".join(json.dumps(point) for point in body["points"])
    rest = json.dumps({name: value for name, value in body.items() if name != "points"}, indent=1)
    return f'{rest.removesuffix("}").rstrip()},\n "points": [\n  {points}\n ]}}'


def save(references: tuple[Reference, ...], name: str, run_home: Path) -> Path:
    """Keep references of one's own in one file of this name, in place of earlier ones. Raises UsageError."""
    if not name or any(letter in name for letter in "/\\\0"):
        raise UsageError(f"{name!r} is no name", hint="use letters, digits, - and _")
    path = run_home / OWN_FOLDER / f"{name}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dump(references), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="set BUSBW_HOME to a folder that you can write"
        ) from error
    return path


def find(name: str, run_home: Path) -> tuple[Reference, ...]:
    """What --reference means: a file, the name of a reference, or the start of several. Raises UsageError."""
    if Path(name).is_file():
        return read(Path(name))
    if "/" not in name and (own := run_home / OWN_FOLDER / f"{name}.json").is_file():
        return read(own)
    known = (*saved(run_home), *built_in())
    whole = tuple(reference for reference in known if reference.name == name)
    found = whole or tuple(
        reference for reference in known if reference.name.startswith(name) and not reference.left_out
    )
    if not found:
        raise UsageError(
            f"no reference {name!r}",
            hint="`busbw expect --list` names those that there are; a file works too",
        )
    return found
