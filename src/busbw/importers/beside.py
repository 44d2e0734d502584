"""What is beside a log: what a script of environment comparisons leaves there, and an index of a folder.

``env.dat.<setup>`` is the output of ``env`` before the tests of a setup; ``modules.dat``, ``ldd.dat`` (of the
test) and ``nodes.dat`` are those of the whole job. A later setup can have overwritten them without a trace:
a record says which files they are from. ``INDEX.tsv`` has a line of labels for each file of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from busbw.importers.operations import operation
from busbw.probes.environment import is_recorded
from busbw.probes.redact import REDACTED, redact

INDEX: Final = "INDEX.tsv"
NAME: Final = re.compile(rf"(?:env|modules|ldd|nodes)\.dat(?:\.[^/]*)?|{re.escape(INDEX)}")
# Our labels by the columns of an index, and what their values have to be: the words of whoever made it.
_LABELS: Final = {
    "op": ("test", re.compile(r"[\w-]+")),
    "operation": ("test", re.compile(r"[\w-]+")),
    "ranks": ("ranks", re.compile(r"\d{1,9}\b")),
    "ranks_label": ("ranks", re.compile(r"\d{1,9}\b")),
    "nodes": ("nodes", re.compile(r"\d{1,9}$")),
    "setup": ("setup", re.compile(r"[^-].*")),
    "system": ("system", re.compile(r"[^-].*")),
    "version": ("version", re.compile(r"[^-].*")),
}
_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII)
_MODULE: Final = re.compile(r"\b\d+\)\s+(\S+)")
_LIBRARY: Final = re.compile(r"\s*(\S+) => (/\S+)")
_MOST_BYTES: Final = 2**20


def environment_beside(log: Path, setup: str) -> tuple[dict[str, Any], str]:
    """The fields of a record's environment from the files beside a log of a setup, and the names of these
    files; both are empty without any. Variables are kept by busbw's list, secrets among them replaced.
    """
    found: dict[str, Any] = {}
    names = []
    for name, read in _READERS.items():
        for own in (f"{name}.{setup}", name):
            text = _text(log.with_name(own))
            # An environment without a setup's name may be that of another one.
            if text is not None and (own != name or name != "env.dat"):
                found.update(read(text))
                names.append(own)
                break
    return found, ", ".join(names)


def variables(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The fields ``variables`` and ``redacted`` of an environment that somebody else has dumped."""
    kept = {name: redact(name, value) for name, value in sorted(pairs) if is_recorded(name)}
    return {"variables": kept, "redacted": [name for name, value in kept.items() if value == REDACTED]}


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _variables(text: str) -> dict[str, Any]:
    """Lines that begin no variable go on with the value before: shell functions, which are not kept."""
    matches = map(_VARIABLE.fullmatch, text.splitlines())
    return variables((match[1], match[2]) for match in matches if match is not None)


def _modules(text: str) -> dict[str, Any]:
    numbered = _MODULE.findall(text)
    return {"modules": numbered or [word for line in text.splitlines() if (word := line.strip())]}


def _libraries(text: str) -> dict[str, Any]:
    matches = map(_LIBRARY.match, text.splitlines())
    return {"libraries": {match[1]: match[2] for match in matches if match is not None}}


def _nodes(text: str) -> dict[str, Any]:
    return {"nodes": list(dict.fromkeys(text.split()))}


_READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "env.dat": _variables,
    "modules.dat": _modules,
    "ldd.dat": _libraries,
    "nodes.dat": _nodes,
}


def index_labels(log: Path) -> dict[str, str]:
    """The labels of a log by the index of its folder; empty where that does not name the log."""
    text = _text(log.with_name(INDEX))
    lines = [line.split("\t") for line in (text or "").splitlines()]
    names = lines[0] if lines else []
    found = {}
    for cells in lines[1:]:
        row = dict(zip(names, (cell.strip() for cell in cells), strict=False))
        if row.get("file") != log.name:
            continue
        for column, (name, form) in _LABELS.items():
            match = form.match(row.get(column, ""))
            if match is not None and (name != "test" or operation(match[0])):
                found[name] = match[0]
    return found
