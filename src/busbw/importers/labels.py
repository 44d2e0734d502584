"""Labels that stand in paths: setup, nodes, operation, system, version.

A pattern is a path with {name} for one part of a name, [words] for what may be missing and * for anything but
a slash. It is compared with the end of the path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from busbw.errors import UsageError
from busbw.importers.operations import operation

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
    """The pattern as a regular expression. Raises UsageError where it is none."""
    text, end = "", 0
    for match in _PIECE.finditer(pattern):
        if match.start() != end:
            break
        end = match.end()
        name, opening, closing, anything, words = match.groups()
        if name:
            text += f"(?P<{name}>{_FIELDS.get(name, '[^/]+?')})" if name != "_" else "[^/]*?"
        else:
            text += "(?:" if opening else ")?" if closing else "[^/]*" if anything else re.escape(words or "")
    try:
        if end != len(pattern):
            raise ValueError(f"{pattern[end:]!r} is not understood")
        return re.compile(rf"(?:^|/){text}$")
    except (ValueError, re.error) as error:
        raise UsageError(
            f"not a pattern: {pattern!r} ({error})",
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
        if test is None or operation(test) or pattern.pattern not in _DEFAULTS:
            return found
    return {}


DEFAULTS: Final = tuple(map(compile_pattern, DEFAULT_PATTERNS))
_DEFAULTS: Final = frozenset(pattern.pattern for pattern in DEFAULTS)
