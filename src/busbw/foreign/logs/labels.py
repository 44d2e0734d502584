"""What is known of a log beside its text: labels in its path, and files of its environment.

Labels of a path are setup, nodes, operation, system, version.

A pattern is a path with {name} for one part of a name, [words] for what may be missing and * for anything but
a slash. It is compared with the end of the path.

``env.dat.<setup>`` is the output of ``env`` before the tests of a setup; ``modules.dat``, ``ldd.dat`` (of the
test) and ``nodes.dat`` are those of the whole job. A later setup can have overwritten them without a trace:
a record names the files that it took.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from busbw.errors import UsageError
from busbw.foreign.logs.operations import operation
from busbw.machine.environment import is_recorded
from busbw.redact import REDACTED, redact

# The trees that people keep: environment comparisons (results of one test a setup), the results of an AWS
# kit's jobs, and a sweep of one size and node count a job.
DEFAULT_PATTERNS: Final = (
    "results_{system}/[nccl_{version}/]n{nodes}.g{gpus}[.][/]{stamp}/{test}_output.dat.{setup}",
    "n{nodes}.g{gpus}[.][/]{stamp}/{test}_output.dat.{setup}",
    "{test}_output.dat.{setup}",
    "nccl_{nodes}_{mode}_{test}_{mask}[_{topology}]_{stamp}_results.csv",
    "{test}/[data/]{bytes}/nodes_{nodes}/*",
)

_PIECE: Final = re.compile(r"\{(\w+)\}|(\[)|(\])|(\*)|([^{}\[\]*]+)")
# What a field may be; all others are anything without a slash.
_FIELDS: Final = {
    "nodes": r"\d+",
    "gpus": r"\d+",
    "ranks": r"\d+",
    "bytes": r"\d+",
    "stamp": r"[-\dT_:.]+",
    "mask": r"0x[0-9a-fA-F]+",
    "topology": r"topo",
    "mode": r"container|ami",
}
NUMBERS: Final = frozenset({"nodes", "gpus", "ranks", "bytes"})


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression. Raises UsageError if it is not a pattern."""
    text, end = "", 0
    for match in _PIECE.finditer(pattern):
        if match.start() != end:
            break
        end = match.end()
        name, opening, closing, anything, words = match.groups()
        if name:
            text += f"(?P<{name}>{_FIELDS.get(name, '[^/]+?')})"
        else:
            text += "(?:" if opening else ")?" if closing else "[^/]*" if anything else re.escape(words or "")
    try:
        if end != len(pattern):
            raise ValueError(f"{pattern[end:]!r} is not understood")
        return re.compile(rf"(?:^|/){text}$")
    except (ValueError, re.error) as error:
        raise UsageError(
            f"{pattern!r} is not a pattern: {error}",
            hint="write a path with {name} for each label, such as 'n{nodes}/{test}_{setup}.log'",
        ) from error


def labels(path: str, patterns: Sequence[re.Pattern[str]]) -> dict[str, str]:
    """The labels that the first fitting pattern finds in a path; empty where none fits."""
    plain = PurePath(path).as_posix()
    for pattern in patterns:
        match = pattern.search(plain)
        if match is None:
            continue
        found = {name: value for name, value in match.groupdict().items() if value is not None}
        test = found.get("test", found.get("op", found.get("collective")))
        # The sweep's tree is recognised by its first part: without an operation there it is another tree.
        if test is None or operation(test) or pattern not in DEFAULTS:
            return found
    return {}


DEFAULTS: Final = tuple(map(compile_pattern, DEFAULT_PATTERNS))


# ---- files beside the log --------------------------------------------------------------------------------

BESIDE: Final = re.compile(r"(?:env|modules|ldd|nodes)\.dat(?:\.[^/]*)?")
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
            text = _text(log.parent, own)
            # An environment without a setup's name may be that of another one.
            if text is not None and (own != name or name != "env.dat"):
                found.update(read(text))
                names.append(own)
                break
    return found, ", ".join(names)


def variables(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The fields ``variables`` and ``redacted`` of an environment that another tool wrote."""
    kept = {name: redact(name, value) for name, value in sorted(pairs) if is_recorded(name)}
    return {"variables": kept, "redacted": [name for name, value in kept.items() if value == REDACTED]}


def _text(folder: Path, name: str) -> str | None:
    if PurePath(name).name != name or "\0" in name:  # a setup may be called as no file can be
        return None
    try:
        with (folder / name).open("rb") as file:
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
