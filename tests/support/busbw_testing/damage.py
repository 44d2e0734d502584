"""Damage to files that a user may hand to busbw: to bytes, to JSON values, and to what stands at a path.

``damaged_folder`` changes one file of a run folder. All of it is drawn from one seed, so that a campaign can
be repeated, and one of its cases alone.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

# In place of a value: other types, numbers that are none or too large, text that no terminal shows.
ODD_VALUES: Final = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, 0.0, -1.0, 1e-300, 1e308),
    *(float("inf"), float("nan"), "", "x", "\0", "\x1b]0;x\x07", "\ud800", "ä" * 5000, "1e999", "all_reduce"),
    *("2026-01-01", [], [[]], [None], {}, {"": 0}, {"a": {"b": []}}),
)
ODD_BYTES: Final = (
    *(b"", b"\0", b"\xff\xfe", b"{", b"[]", b"null", b"1e999", b"NaN", b"\xef\xbb\xbf", b'"x"'),
    *(b"9" * 5000, b"[" * 30000),
)


def damaged_value(value: Any, draw: random.Random) -> Any:
    """The JSON value with one part replaced, removed, repeated or renamed."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        out = dict(value)
        key = draw.choice(list(out))
        kind = draw.random()
        if kind < 0.1:
            del out[key]
        elif kind < 0.15:
            out[key + "x"] = out.pop(key)
        else:
            out[key] = damaged_value(out[key], draw)
        return out
    if isinstance(value, list) and value and draw.random() < 0.85:
        rows = list(value)
        at = draw.randrange(len(rows))
        kind = draw.random()
        if kind < 0.1:
            del rows[at]
        elif kind < 0.2:
            rows.append(rows[at])
        elif kind < 0.25:
            draw.shuffle(rows)
        else:
            rows[at] = damaged_value(rows[at], draw)
        return rows
    # Of the same type, a value comes further than one that no reader takes.
    alike = [odd for odd in ODD_VALUES if type(odd) is type(value)]
    return draw.choice(alike if alike and draw.random() < 0.6 else ODD_VALUES)


def damaged_bytes(data: bytes, draw: random.Random) -> bytes:
    """The bytes cut, with some flipped, a part repeated, removed or replaced by something odd."""
    if not data or draw.random() < 0.15:
        return draw.choice(ODD_BYTES)
    at = draw.randrange(len(data))
    to = min(len(data), at + draw.choice((1, 2, 8, 100, 5000)))
    kind = draw.randrange(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[to:]
    if kind == 2:
        return data[:to] + data[at:]
    if kind == 3:
        return data[:at] + draw.choice(ODD_BYTES[:-2]) + data[to:]
    flipped = bytearray(data)
    for _ in range(draw.choice((1, 3, 30))):
        flipped[draw.randrange(len(flipped))] = draw.randrange(256)
    return bytes(flipped)


def damaged_text(data: bytes, draw: random.Random) -> bytes:
    """JSON, or lines of it, with values damaged; other files as bytes."""
    try:
        text = data.decode()
        lines = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        try:
            return json.dumps(_often(json.loads(data), draw)).encode()
        except ValueError:
            return damaged_bytes(data, draw)
    return "".join(json.dumps(line) + "\n" for line in _often(lines, draw)).encode()


def _often(value: Any, draw: random.Random) -> Any:
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        value = damaged_value(value, draw)
    return value if isinstance(value, list | dict) else [value]


def _as_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _unreachable(path: Path, _: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)  # a loop


def _gone(path: Path, _: random.Random) -> None:
    path.unlink()


def _bytes(path: Path, draw: random.Random) -> None:
    path.write_bytes(damaged_bytes(path.read_bytes(), draw))


def _text(path: Path, draw: random.Random) -> None:
    path.write_bytes(damaged_text(path.read_bytes(), draw))


WAYS: Final[tuple[tuple[Callable[[Path, random.Random], None], float], ...]] = (
    (_text, 0.65), (_bytes, 0.25), (_gone, 0.04), (_as_folder, 0.04), (_unreachable, 0.02),
)  # fmt: skip


def damaged_folder(whole: Path, to: Path, draw: random.Random) -> str:
    """A copy of a run folder with one of its files damaged; what was done to which."""
    shutil.copytree(whole, to, symlinks=True)
    files = sorted(path for path in to.rglob("*") if path.is_file() and path.suffix != ".log")
    named = [path for path in files if path.name in ("run.json", "rounds.jsonl", "setups.json")]
    path = draw.choice(named if named and draw.random() < 0.6 else files)
    way = draw.choices([way for way, _ in WAYS], [share for _, share in WAYS])[0]
    way(path, draw)
    return f"{way.__name__[1:]} {path.relative_to(to)}"
